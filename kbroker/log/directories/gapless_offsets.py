"""From which offset on each log of a data directory has no gap, as far as this broker knows:
`kbroker-gapless-offset-checkpoint`.

A gap of offsets looks the same whether the cleaner left it, a leader sent it, or a power loss took
the end of a segment and not the next one. Only who wrote the log can tell, so it is written down.

Law: the file claims nothing that is not so at that moment: what leaves a gap first takes the claim
back, durably. A log that is not in the file may have gaps anywhere; one that is deleted leaves it.
The file is there only while this broker is at work, or was not stopped cleanly: others who use the
directory know nothing of it. If one of them cleans after a crash of this broker, and crashes too,
the cleaner's checkpoint says up to where. If it has dropped the log from that checkpoint meanwhile
(its `cleanup.policy` was changed), nothing says so: docs/storage.md has what to do.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from threading import Lock

from kbroker.log.disk.checkpoint import (
    CheckpointError,
    read_offset_checkpoint,
    write_offset_checkpoint,
)
from kbroker.log.disk.file_system import FileSystem, StorageError
from kbroker.log.disk.format import GAPLESS_OFFSET_CHECKPOINT_FILE
from kbroker.model import TopicPartition

_log = logging.getLogger(__name__)


class GaplessOffsets:
    """The claims of one data directory. Whoever opens, cleans or appends to its logs changes them,
    on any thread; `write` writes those that hold when it begins.
    """

    def __init__(self, file_system: FileSystem, directory: str) -> None:
        self._file_system = file_system
        self._path = f"{directory}/{GAPLESS_OFFSET_CHECKPOINT_FILE}"
        self._offsets: dict[TopicPartition, int] = {}
        self._in_file: Mapping[TopicPartition, int] = {}
        self._changes = 1  # what a broker before has left is replaced whatever happens
        self._written_changes = 0
        self._change_lock = Lock()
        self._write_lock = Lock()

    @property
    def is_written(self) -> bool:
        """Whether the file says what is known now."""
        return self._written_changes == self._changes

    def is_noted(self, topic_partition: TopicPartition) -> bool:
        return self._in_file.get(topic_partition) == self._offsets.get(topic_partition)

    def read(self) -> Mapping[TopicPartition, int]:
        """Return the offsets that the last broker noted before it ended; none if the file cannot
        be read.
        """
        try:
            return read_offset_checkpoint(self._file_system, self._path)
        except (CheckpointError, StorageError) as error:
            _log.warning("Ignoring a checkpoint file that cannot be read: %s", error)
            return {}

    def claim(self, topic_partition: TopicPartition, offset: int) -> None:
        """The log has no gap from `offset` on, nor from an earlier one if that is known."""
        with self._change_lock:
            known = self._offsets.get(topic_partition)
            if known is None or offset < known:
                self._offsets[topic_partition] = offset
                self._changes += 1

    def withdraw(self, topic_partition: TopicPartition, below: int | None = None) -> None:
        """Gaps come into the log, all of them `below` an offset if that is given; to be followed
        by `write`.
        """
        with self._change_lock:
            offset = self._offsets.get(topic_partition)
            if offset is None or (below is not None and offset >= below):
                return
            if below is None:
                del self._offsets[topic_partition]
            else:
                self._offsets[topic_partition] = below
            self._changes += 1

    def write(self) -> None:
        """Bring the file up to date, durably. Raises StorageError."""
        with self._write_lock:
            with self._change_lock:
                changes, offsets = self._changes, dict(self._offsets)
            if changes != self._written_changes:
                write_offset_checkpoint(self._file_system, self._path, offsets)
                self._written_changes, self._in_file = changes, offsets

    def remove(self) -> None:
        """All is on the disk and noted so: nothing of this is asked for any more."""
        self._file_system.unlink(self._path)
