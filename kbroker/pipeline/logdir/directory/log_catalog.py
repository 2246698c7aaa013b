"""The partitions below some paths, and how far each may be read.

Law: each look is a value of one moment, because a running broker goes on changing its logs. Batches
of a log whose files have not changed are not read again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from errno import ENOENT
from typing import TypeVar

from kbroker.inspection.data_directory import (
    DataDirectory,
    PartitionDirectory,
    directory_around,
)
from kbroker.inspection.log_paths import NotALogError, log_directory
from kbroker.log.disk.file_system import StorageError
from kbroker.log.disk.format import (
    LOG_START_OFFSET_CHECKPOINT_FILE,
    REPLICATION_OFFSET_CHECKPOINT_FILE,
    is_moved_directory,
)
from kbroker.model import CLUSTER_METADATA_TOPIC, INTERNAL_TOPICS, TopicPartition
from kbroker.pipeline.errors import ExitCode, PipelineError
from kbroker.pipeline.logdir.directory.disk_refusal import refused_by_disk
from kbroker.pipeline.logdir.directory.partition_log import (
    Disk,
    PartitionLog,
    find_log,
    find_segments,
)
from kbroker.pipeline.logdir.directory.transaction_scan import LogTransactions, scan_transactions

_T = TypeVar("_T")

_BOUNDS = (REPLICATION_OFFSET_CHECKPOINT_FILE, LOG_START_OFFSET_CHECKPOINT_FILE)
_HIDDEN_TOPICS = INTERNAL_TOPICS | {CLUSTER_METADATA_TOPIC}


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The partitions that are wanted. Topics given by name may be internal ones."""

    topics: frozenset[str] | None = None
    pattern: str | None = None  # a regular expression for the whole name
    partitions: frozenset[int] | None = None
    includes_internal: bool = False

    def wants(self, topic_partition: TopicPartition) -> bool:
        """Whether the partition is to be read."""
        topic, partition = topic_partition
        if self.partitions is not None and partition not in self.partitions:
            return False
        if self.topics is not None:
            return topic in self.topics
        if topic in _HIDDEN_TOPICS and not self.includes_internal:
            return False
        return self.pattern is None or re.fullmatch(self.pattern, topic) is not None


@dataclass(frozen=True, slots=True)
class ReadableLog:
    """A log and its transactions; those are None if all records are read."""

    log: PartitionLog
    transactions: LogTransactions | None

    @property
    def end_offset(self) -> int:
        """The end for its readers: the last stable offset for readers of committed data."""
        state = self.transactions
        return self.log.end_offset if state is None else state.last_stable_offset


@dataclass(frozen=True, slots=True)
class _Place:
    """A partition directory, and whether a broker runs on it."""

    directory: PartitionDirectory
    is_live: bool


class LogCatalog:
    """Looks at the same paths again and again; owned by one thread."""

    def __init__(
        self, disk: Disk, paths: Iterable[str], wants: Callable[[TopicPartition], bool]
    ) -> None:
        self._disk = disk
        self._paths = tuple(dict.fromkeys(absolute(path) for path in paths))
        self._wants = wants
        self._seen: dict[str, tuple[_Place, PartitionLog]] = {}
        self._states: dict[str, tuple[PartitionLog, LogTransactions]] = {}

    def logs(self, *, is_committed: bool, may_repeat: bool = False) -> list[ReadableLog]:
        """Look at all wanted partitions, by topic and number. `may_repeat`: a partition may lie in
        several of the paths, as with those of several brokers. Raises PipelineError.
        """
        found = []
        for place in self._places(may_repeat=may_repeat):
            log = self._readable(place, is_committed=is_committed)
            if log is not None:
                found.append(log)
        return sorted(found, key=lambda each: (each.log.topic_partition, each.log.directory))

    def by_partition(self, *, is_committed: bool) -> Mapping[TopicPartition, ReadableLog]:
        return {each.log.topic_partition: each for each in self.logs(is_committed=is_committed)}

    def directories(self) -> dict[TopicPartition, str]:
        """Paths of the wanted partitions. Their logs are not read, which may take gigabytes after a
        broker was killed. Raises PipelineError.
        """
        places = (place.directory for place in self._places(may_repeat=False))
        return {each.topic_partition: each.path for each in places}

    def _places(self, *, may_repeat: bool) -> Iterator[_Place]:
        homes: dict[TopicPartition, str] = {}
        for path in self._paths:
            for place in self._below(path):
                directory = place.directory
                home = homes.setdefault(directory.topic_partition, directory.path)
                if home == directory.path or may_repeat:
                    yield place
                    continue
                raise PipelineError(
                    f"{directory.topic_partition} lies in {home} and in {directory.path}: name one "
                    "of them, or ask for the column `directory`, which tells the rows apart"
                )

    def _below(self, path: str) -> Iterator[_Place]:
        try:
            found = log_directory(self._disk.file_system, path)
            if isinstance(found, DataDirectory):
                home, directories = found, found.directories()
            elif is_moved_directory(path):
                raise PipelineError(
                    f"{path} is a partition that is being deleted or moved: it is not read"
                )
            else:
                home = directory_around(self._disk.file_system, path)
                directories = [home.directory(found.name)]
        except NotALogError as error:
            raise PipelineError(str(error), ExitCode.USAGE) from error
        except StorageError as error:
            raise refused_by_disk(error) from error
        is_live = self._disk.is_locked(home.path)
        if is_live:
            _check_bounds(home)
        for directory in directories:
            if self._wants(directory.topic_partition):
                yield _Place(directory, is_live)

    def _readable(self, place: _Place, *, is_committed: bool) -> ReadableLog | None:
        def look() -> ReadableLog | None:
            log = self._log(place)
            if log is None:
                return None
            return ReadableLog(log, self._state(log) if is_committed else None)

        return look_again(look)

    def _log(self, place: _Place) -> PartitionLog | None:
        path = place.directory.path
        place_then, known = self._seen.get(path, (None, None))
        if known is not None and place_then == place and not place.is_live:
            segments = find_segments(self._disk.file_system, path)
            if segments == known.segments:
                return known
        log = find_log(self._disk, place.directory, is_live=place.is_live)
        if log is not None:
            self._seen[path] = (place, log)
        return log

    def _state(self, log: PartitionLog) -> LogTransactions:
        then, known = self._states.get(log.directory, (None, None))
        if known is not None and then == log:
            return known
        state = scan_transactions(self._disk.file_system, log, known)
        self._states[log.directory] = (log, state)
        return state


def look_again(look: Callable[[], _T]) -> _T:
    """Return the result of a look at logs, repeated if retention or the cleaner came in between.

    Raises PipelineError if the disk refuses.
    """
    for is_last in (False, False, True):
        try:
            return look()
        except StorageError as error:
            if error.errno != ENOENT or is_last:
                raise refused_by_disk(error) from error
    raise AssertionError


def _check_bounds(home: DataDirectory) -> None:
    """PipelineError if a file cannot be read that says how far a running broker lets its logs be
    read: without it they would look empty, or begin with deleted records.
    """
    for file, error in home.errors.items():
        if file in _BOUNDS:
            raise PipelineError(
                f"{home.path}/{file} cannot be read: {error}; a broker runs on {home.path}, and "
                "only this file says how far its logs may be read"
            )


def absolute(path: str) -> str:
    """The absolute path, also if it was written as a URI."""
    for scheme in ("file://", "file:"):
        path = path.removeprefix(scheme)
    return os.path.abspath(os.path.expanduser(path))
