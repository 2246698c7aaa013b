"""One entry of `log.dirs`: who holds it, whose it is, how it was left, and its checkpoint files.

Law: a directory is locked before anything in it is read, belongs to one broker of one cluster for
good, and its clean-shutdown marker is gone before the first write to it: two brokers in one
directory would destroy its logs, and a stale marker would hide a crash.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from errno import ENOENT
from functools import partial

from kbroker.errors import ExplainedError, Trouble
from kbroker.log.directories import failed_sync
from kbroker.log.directories.checkpointed_offsets import CheckpointedOffsets
from kbroker.log.directories.gapless_offsets import GaplessOffsets
from kbroker.log.disk import checkpoint
from kbroker.log.disk.checkpoint import CheckpointError, MetaProperties
from kbroker.log.disk.file_system import FileLock, FileSystem, StorageError
from kbroker.log.disk.format import (
    LOCK_FILE,
    LOG_START_OFFSET_CHECKPOINT_FILE,
    META_PROPERTIES_FILE,
    RECOVERY_POINT_CHECKPOINT_FILE,
)
from kbroker.model import TopicPartition

_log = logging.getLogger(__name__)


class LogDirectoryError(ExplainedError):
    """A data directory this broker cannot use; the message is one sentence for its operator."""

    trouble = Trouble.DIRECTORY_UNUSABLE


@dataclass(slots=True, eq=False, repr=False)
class LogDirectory:
    """A locked data directory. `failure` is set once the disk has refused something; it stays
    offline then.
    """

    path: str
    file_system: FileSystem
    lock: FileLock | None
    was_clean: bool
    meta: MetaProperties | None
    failure: StorageError | None = None
    is_full: bool = False
    missing_bytes: int = 0  # the most that did not fit while it is full
    may_be_clean: bool = True  # False: its logs are not all whole, so no stop is a clean one
    unopened: set[TopicPartition] = field(default_factory=set)
    gone: set[TopicPartition] = field(default_factory=set)  # checkpoints may still name them
    is_loaded: bool = False
    is_noting_gapless: bool = False
    gapless: GaplessOffsets = field(init=False)
    noted: dict[str, CheckpointedOffsets] = field(init=False)  # by file
    _kept: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.gapless = GaplessOffsets(self.file_system, self.path)
        self.noted = {
            file: CheckpointedOffsets(partial(self.write_offsets, file))
            for file in (RECOVERY_POINT_CHECKPOINT_FILE, LOG_START_OFFSET_CHECKPOINT_FILE)
        }

    @classmethod
    def unusable(cls, file_system: FileSystem, path: str, reason: str) -> LogDirectory:
        """A directory that cannot be used, with the reason."""
        directory = cls(path, file_system, None, was_clean=False, meta=None)
        directory.failure = StorageError(path, "open", 0, reason)
        return directory

    def set_aside(self, reason: str) -> None:
        """Use it no more, and let others have it."""
        self.failure = StorageError(self.path, "open", 0, reason)
        self.release()

    def fail(self, error: StorageError) -> None:
        """Be offline until the next start: the disk has refused something."""
        self.failure = error
        # Whatever it refused, the kernel may have tried in vain to write what it holds.
        with suppress(StorageError):  # then the next start cannot write there either
            failed_sync.note(self.file_system, self.path)

    def release(self) -> None:
        """Let go of the lock."""
        if self.lock is not None:
            self.lock.release()
            self.lock = None

    def absence(self) -> StorageError | None:
        """Return an error if somebody has removed or replaced the directory."""
        path = f"{self.path}/{LOCK_FILE}"
        if self.file_system.exists(path):
            return None
        return StorageError(path, "find", ENOENT, "the directory was removed or replaced")

    def could_not_open(self, topic_partition: TopicPartition) -> None:
        """A log here stays closed: its files are left alone and its checkpoints kept. If it was not
        stopped cleanly, it waits for its recovery until it can be opened.
        """
        self.unopened.add(topic_partition)
        self.may_be_clean = self.may_be_clean and self.was_clean

    def loaded(self) -> None:
        """All logs here that can be opened are open."""
        self.is_loaded = True
        if not self.unopened:
            self._kept.clear()

    def claim(self, cluster_id: str, broker_id: int, now_ms: int) -> None:
        """Make this the directory of `broker_id` in `cluster_id`, or check that it is; from now on
        a crash needs recovery. Raises LogDirectoryError.
        """
        meta = self.meta
        if meta is not None and meta.cluster_id not in (None, cluster_id):
            raise LogDirectoryError(
                f"Data directory {self.path} belongs to cluster {meta.cluster_id}, "
                f"this broker to {cluster_id}: "
                f"use another directory, or remove {META_PROPERTIES_FILE} if this is intended",
                Trouble.OTHER_BROKER,
            )
        if meta is not None and meta.broker_id not in (None, broker_id):
            raise LogDirectoryError(
                f"Data directory {self.path} belongs to broker {meta.broker_id}, "
                f"this is broker {broker_id}: "
                f"set broker.id, or remove {META_PROPERTIES_FILE} if this is intended",
                Trouble.OTHER_BROKER,
            )
        try:
            checkpoint.remove_clean_shutdown(self.file_system, self.path)
            if meta is None or meta.cluster_id is None or meta.broker_id is None:
                version, directory_id = (meta.version, meta.directory_id) if meta else (0, None)
                self.meta = MetaProperties(version, cluster_id, broker_id, directory_id)
                checkpoint.write_meta_properties(self.file_system, self.path, self.meta, now_ms)
        except StorageError as error:
            raise directory_refusal(self.path, error) from error

    def read_offsets(self, file: str) -> dict[TopicPartition, int]:
        """A checkpoint file of this directory. Raises CheckpointError."""
        return checkpoint.read_offset_checkpoint(self.file_system, f"{self.path}/{file}")

    def found_offsets(self, file: str) -> dict[TopicPartition, int]:
        """The offsets in a checkpoint file of the broker before; one that cannot be read counts as
        empty.
        """
        try:
            found = self.read_offsets(file)
        except CheckpointError as error:
            _log.warning("Ignoring a checkpoint file that cannot be read: %s", error)
            found = {}
        self._kept.setdefault(file, found)
        if file in self.noted:
            self.noted[file].found(found)
        return found

    def write_offsets(self, file: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Replace a checkpoint file of this directory; what it says of unopened logs stays."""
        if self.unopened:
            if file not in self._kept:
                self.found_offsets(file)
            kept = self._kept[file]
            offsets = {tp: kept[tp] for tp in self.unopened if tp in kept} | dict(offsets)
        checkpoint.write_offset_checkpoint(self.file_system, f"{self.path}/{file}", offsets)

    def forget_offsets(self, file: str, gone: Collection[TopicPartition]) -> None:
        """Drop what a checkpoint file says of logs that are gone; one that cannot be read says
        nothing.
        """
        with suppress(CheckpointError):
            offsets = self.read_offsets(file)
            if not offsets.keys().isdisjoint(gone):
                self.write_offsets(file, {tp: o for tp, o in offsets.items() if tp not in gone})

    def gapless_from(self, cleaned: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """From where on each log has no gap; a log of which that is not known is missing.

        After a clean stop others may have cleaned it since. After a crash, too: then the cleaner's
        checkpoint tells up to where.
        """
        if self.was_clean:
            return {}
        known = self.gapless.read()
        return {tp: max(offset, cleaned.get(tp, 0)) for tp, offset in known.items()}

    def write_clean_shutdown(self) -> None:
        """All logs here are whole on disk."""
        self.gapless.remove()
        checkpoint.write_clean_shutdown(self.file_system, self.path)

    def disown_clean_shutdown(self) -> None:
        """The marker could not be brought to the disk: it must not be there in part either."""
        with suppress(StorageError):
            checkpoint.remove_clean_shutdown(self.file_system, self.path)


def open_log_directory(file_system: FileSystem, path: str) -> LogDirectory:
    """Make, lock and read a data directory. Raises LogDirectoryError."""
    try:
        _make_durably(file_system, path)
        lock = file_system.lock(f"{path}/{LOCK_FILE}")
    except StorageError as error:
        raise directory_refusal(path, error) from error
    if lock is None:
        raise LogDirectoryError(
            f"Data directory {path} is in use by another broker: "
            "stop that one or choose another directory",
            Trouble.DIRECTORY_IN_USE,
        )
    try:
        failed_sync.make_good(file_system, path)
        meta = checkpoint.read_meta_properties(file_system, path)
        was_clean = checkpoint.read_clean_shutdown(file_system, path)
    except (CheckpointError, StorageError) as error:
        lock.release()
        raise directory_refusal(path, error) from error
    return LogDirectory(path, file_system, lock, was_clean, meta)


def directory_refusal(path: str, error: CheckpointError | StorageError) -> LogDirectoryError:
    """Why a directory is not used in which something cannot be read or written."""
    if isinstance(error, StorageError) and error.is_out_of_space:
        return LogDirectoryError(
            f"Data directory {path} is full: {error}: free some space and start again",
            Trouble.DISK_FULL,
        )
    return LogDirectoryError(f"Data directory {path} cannot be used: {error}")


def _make_durably(file_system: FileSystem, path: str) -> None:
    """Make a directory with its missing parents, so that a power loss does not take them away."""
    missing = []
    while path and not file_system.exists(path):
        missing.append(path)
        path = path.rpartition("/")[0]
    if missing:
        file_system.make_directory(missing[0])
    for made in reversed(missing):
        file_system.sync_directory(made.rpartition("/")[0] or "/")
