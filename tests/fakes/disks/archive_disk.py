"""A disk in memory for archives: it makes crash images, and a rename that replaces nothing."""

from __future__ import annotations

import errno
from random import Random

from kbroker.log.disk.file_system import StorageError
from tests.fakes.disks.recording_file_system import RecordingFileSystem


class RecordingArchiveDisk(RecordingFileSystem):
    """Fulfils `ArchiveDisk`."""

    def rename_new(self, source: str, target: str) -> None:
        """By a second name, as on a real disk: for a moment a file has both."""
        node = self._node(source, "create")
        parent, name = self._parent(target, "create")
        assert parent.entries is not None
        if name in parent.entries:
            raise StorageError(target, "create", errno.EEXIST)
        self._change_link(parent, name, node, target)
        old_parent, old_name = self._parent(source, "remove")
        self.used_bytes += len(node.data)  # an unlink gives them back, and one name is left
        self._change_unlink(old_parent, old_name, source)

    def image(self, random: Random, mode: str | None = None) -> RecordingArchiveDisk:
        """Return what a power loss at this moment may leave."""
        plain = super().image(random, mode)
        image = RecordingArchiveDisk(capacity_bytes=self.capacity_bytes, now_ms=self.now_ms)
        image.root, image.used_bytes, image.made_as = plain.root, plain.used_bytes, plain.made_as
        return image
