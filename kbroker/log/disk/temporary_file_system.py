"""Files that go with the process that made them: the data of a broker that was given no directory.

Law: everything works as on real files except that nothing waits for the disk. Nobody reads such a
directory after a power loss, so forcing it to the disk would cost a stop its time for nothing.
"""

from __future__ import annotations

from kbroker.log.disk.file_system import Bytes, RealFile, RealFileSystem


class TemporaryFile(RealFile):
    """A file of the operating system that is never synced."""

    __slots__ = ()

    def sync(self) -> None:
        """Do nothing: see the law above."""


class TemporaryFileSystem(RealFileSystem):
    """The operating system's files, never synced."""

    _file_type = TemporaryFile

    def write_bytes(self, path: str, data: Bytes, *, sync: bool = False) -> None:  # noqa: ARG002
        """Create or replace the content in place."""
        super().write_bytes(path, data, sync=False)

    def sync(self, path: str) -> None:
        """Do nothing: see the law above."""

    def sync_directory(self, path: str) -> None:
        """Do nothing: see the law above."""
