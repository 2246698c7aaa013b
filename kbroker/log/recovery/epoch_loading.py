"""The leader epochs of a log that is being opened: from their file, and from the batches if that
cannot be right.

Law: a file that a power loss has spoiled is not trusted; what comes out agrees with the batches,
and is written when all of it is known: half of it would be trusted after another power loss.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from kbroker.log.disk.checkpoint import CheckpointError, EpochEntry, EpochFile, read_leader_epochs
from kbroker.log.disk.file_system import FileSystem
from kbroker.log.disk.format import LEADER_EPOCH_CHECKPOINT_FILE
from kbroker.log.partition.leader_epoch_cache import LeaderEpochCache
from kbroker.log.recovery.load_checks import agree_with, are_rising
from kbroker.log.segments.log_segment import LogSegment
from kbroker.record.record_batch import BatchHeader

_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False, repr=False)
class EpochRun:
    """Batches of one leader epoch, one after the other."""

    epoch: int
    first_offset: int  # base offset of the first batch
    last_offset: int  # base offset of the last one


class EpochLoading:
    """The epochs of one log; used once, by its loader."""

    def __init__(self, file_system: FileSystem, directory: str) -> None:
        self.are_lost = False  # there is a file, and it says nothing that can be trusted
        self._file_system = file_system
        self._directory = directory
        # Nothing that holds the loader: the log keeps it, and with it all that was read there.
        self._store = EpochFile(file_system, directory)
        self._stored: list[EpochEntry] = []
        self._epochs = _unstored([])

    def load(self, names: Collection[str], *, was_clean: bool) -> None:
        """Read the file; `names` are those in the directory. Raises StorageError."""
        entries: list[EpochEntry] = []
        if LEADER_EPOCH_CHECKPOINT_FILE in names:
            try:
                entries = read_leader_epochs(self._file_system, self._directory)
                if not are_rising(entries):
                    raise CheckpointError(f"Leader epochs out of order in {self._directory}")
                if not entries and not was_clean:
                    # Empty is what a power loss leaves of a file that was replaced just before.
                    raise CheckpointError(f"No leader epochs in {self._directory}")
            except CheckpointError as error:
                entries = []
                _log.warning("Taking the leader epochs from the batches: %s", error)
                self.are_lost = True
        self._stored = entries
        self._epochs = _unstored(entries)

    def find_in(self, segments: Iterable[LogSegment]) -> None:
        """Learn the epochs from the intact batches of all that is trusted: their file cannot be
        read, or contradicts them.
        """
        _log.warning("Reading the leader epochs of %s from its batches", self._directory)
        found = _unstored([])
        for segment in segments:
            for _, header in segment.sound_headers():
                if header.partition_leader_epoch > found.latest_epoch:
                    found.assign(header.partition_leader_epoch, header.base_offset)
        self._epochs = found

    def find_before(self, start_offset: int, segments: Iterable[LogSegment]) -> None:
        """Learn the epochs from `start_offset` to the oldest entry: what was deleted is back, as
        the note of it is lost, and the file was cut where the log began.
        """
        entries = self._epochs.entries
        if not entries or entries[0].start_offset <= start_offset:
            return
        found = _unstored([])
        for header in _headers_before(entries[0].start_offset, segments):
            if header.partition_leader_epoch < 0:
                return  # of an old format, which has no epochs
            if header.partition_leader_epoch > found.latest_epoch:
                found.assign(header.partition_leader_epoch, header.base_offset)
        later = [entry for entry in entries if entry.epoch > found.latest_epoch]
        self._epochs = _unstored([*found.entries, *later])

    def learn(self, runs: Iterable[EpochRun]) -> None:
        """Take into account what was recovered, in its order."""
        for run in runs:
            self._epochs.learn(run.epoch, run.first_offset, run.last_offset)

    def agree_with(self, tail: Sequence[BatchHeader], log_start_offset: int) -> bool:
        return agree_with(self._epochs, tail, log_start_offset)

    def clear(self) -> None:
        self._epochs.clear()

    def finish(self, start_offset: int, end_offset: int) -> LeaderEpochCache:
        """The epochs within the log, written if they have changed. A file that only says too much
        stays as it is: the next change writes it, and loading would cut again.
        """
        entries = self._epochs.entries
        if entries != self._stored:
            self._store(entries)
        bounded = _unstored(entries)
        bounded.truncate_from_end(end_offset)
        bounded.truncate_from_start(start_offset)
        return LeaderEpochCache(bounded.entries, self._store)


def _headers_before(offset: int, segments: Iterable[LogSegment]) -> Iterator[BatchHeader]:
    for segment in segments:
        for _, header in segment.sound_headers():
            if header.base_offset >= offset:
                return
            yield header


def _unstored(entries: Iterable[EpochEntry]) -> LeaderEpochCache:
    return LeaderEpochCache(entries, lambda _: None)
