"""One entry of `log.dirs`: who holds it, whose it is, how it was left, and its checkpoint files.

Law: a directory is locked before anything in it is read, belongs to one broker of one cluster for
good, and its clean-shutdown marker is gone before the first write to it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from kbroker.log import checkpoint
from kbroker.log.checkpoint import CheckpointError, MetaProperties
from kbroker.log.file_system import FileLock, FileSystem, StorageError
from kbroker.log.format import (
    LOCK_FILE,
    LOG_START_OFFSET_CHECKPOINT_FILE,
    META_PROPERTIES_FILE,
    RECOVERY_POINT_CHECKPOINT_FILE,
    REPLICATION_OFFSET_CHECKPOINT_FILE,
)
from kbroker.model import TopicPartition

_log = logging.getLogger(__name__)


class LogDirectoryError(Exception):
    """A data directory this broker cannot use; the message is one sentence for its operator."""


@dataclass(slots=True)
class LogDirectory:
    """A locked data directory.

    `failure` is set once the disk has refused something; it stays offline then.
    """

    path: str
    file_system: FileSystem
    lock: FileLock
    was_clean: bool
    meta: MetaProperties | None
    failure: StorageError | None = None

    def claim(self, cluster_id: str, broker_id: int, now_ms: int) -> None:
        """Make this the directory of `broker_id` in `cluster_id`, or check that it is.

        Raises LogDirectoryError.
        """
        meta = self.meta
        if meta is not None and meta.cluster_id not in (None, cluster_id):
            raise LogDirectoryError(
                f"Data directory {self.path} belongs to cluster {meta.cluster_id}, "
                f"this broker to {cluster_id}: "
                f"use another directory, or remove {META_PROPERTIES_FILE} if this is intended"
            )
        if meta is not None and meta.broker_id not in (None, broker_id):
            raise LogDirectoryError(
                f"Data directory {self.path} belongs to broker {meta.broker_id}, "
                f"this is broker {broker_id}: "
                f"set broker.id, or remove {META_PROPERTIES_FILE} if this is intended"
            )
        if meta is None or meta.cluster_id is None or meta.broker_id is None:
            version, directory_id = (meta.version, meta.directory_id) if meta else (0, None)
            self.meta = MetaProperties(version, cluster_id, broker_id, directory_id)
            checkpoint.write_meta_properties(self.file_system, self.path, self.meta, now_ms)

    def read_offsets(self, file: str) -> dict[TopicPartition, int]:
        """A checkpoint file of this directory. Raises CheckpointError."""
        return checkpoint.read_offset_checkpoint(self.file_system, f"{self.path}/{file}")

    def write_offsets(self, file: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Replace a checkpoint file of this directory."""
        checkpoint.write_offset_checkpoint(self.file_system, f"{self.path}/{file}", offsets)

    def recovery_points(self) -> dict[TopicPartition, int]:
        """Up to where each log was on disk.

        A file that cannot be read counts as empty: logs are checked whole.
        """
        return self._read_or_reset(RECOVERY_POINT_CHECKPOINT_FILE)

    def log_start_offsets(self) -> dict[TopicPartition, int]:
        """Log starts inside a segment (DeleteRecords).

        A file that cannot be read counts as empty.
        """
        return self._read_or_reset(LOG_START_OFFSET_CHECKPOINT_FILE)

    def high_watermarks(self) -> dict[TopicPartition, int]:
        """High watermarks at the last checkpoint. A file that cannot be read counts as empty."""
        return self._read_or_reset(REPLICATION_OFFSET_CHECKPOINT_FILE)

    def remove_clean_shutdown(self) -> None:
        """From now on a crash needs recovery."""
        checkpoint.remove_clean_shutdown(self.file_system, self.path)

    def write_clean_shutdown(self) -> None:
        """All logs here are whole on disk."""
        checkpoint.write_clean_shutdown(self.file_system, self.path)

    def _read_or_reset(self, file: str) -> dict[TopicPartition, int]:
        try:
            return self.read_offsets(file)
        except CheckpointError as error:
            _log.warning("Ignoring a checkpoint file that cannot be read: %s", error)
            return {}


def open_log_directory(file_system: FileSystem, path: str) -> LogDirectory:
    """Make, lock and read a data directory. Raises LogDirectoryError."""
    try:
        file_system.make_directory(path)
        lock = file_system.lock(f"{path}/{LOCK_FILE}")
    except StorageError as error:
        raise LogDirectoryError(f"Data directory {path} cannot be used: {error}") from error
    if lock is None:
        raise LogDirectoryError(
            f"Data directory {path} is in use by another broker: "
            "stop that one or choose another directory"
        )
    try:
        meta = checkpoint.read_meta_properties(file_system, path)
        was_clean = checkpoint.read_clean_shutdown(file_system, path)
    except (CheckpointError, StorageError) as error:
        lock.release()
        raise LogDirectoryError(f"Data directory {path} cannot be used: {error}") from error
    return LogDirectory(path, file_system, lock, was_clean, meta)
