"""Opens a partition directory: clears leftovers, rebuilds broken indexes, recovers what an unclean
stop left behind.

Law: a cleanly stopped log is taken at its word after a look at its indexes; otherwise every batch
from the recovery point on is read and checked. At the first broken one the segment is cut and all
later segments go, durably: what was cut must not be there again after a clean stop and a power
loss. Whatever comes out ends at a whole batch, and epochs, producers and indexes agree with it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from kbroker.config.topic_config import TopicConfig
from kbroker.errors import KafkaError
from kbroker.log.checkpoint import (
    CheckpointError,
    EpochFile,
    read_leader_epochs,
    read_partition_metadata,
)
from kbroker.log.file_system import StorageError
from kbroker.log.format import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LEADER_EPOCH_CHECKPOINT_FILE,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    PARTITION_METADATA_FILE,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    offset_of,
)
from kbroker.log.leader_epoch_cache import EpochEntry, LeaderEpochCache
from kbroker.log.log import Log
from kbroker.log.log_segment import LogSegment
from kbroker.log.log_segments import LogSegments
from kbroker.log.log_state import LogEnvironment, LogState, segment_config
from kbroker.log.producer_replay import load_snapshot, replay_batch, replay_segments
from kbroker.log.producer_snapshot import ProducerSnapshots, snapshot_offsets
from kbroker.log.producer_state import ProducerStateManager
from kbroker.log.recovery.index_rebuild import index_fault, rebuild_beside
from kbroker.log.recovery.load_checks import (
    agree_with,
    are_rising,
    are_witnessed,
    first_epoch,
    sound_end_offset,
    tail_of,
)
from kbroker.model import TopicPartition
from kbroker.record.record_batch import BatchHeader

_INDEX_SUFFIXES = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRequest:
    """Which log to open and what the checkpoints of its data directory say about it."""

    topic_partition: TopicPartition
    directory: str
    config: TopicConfig
    now_ms: int
    recovery_point: int = 0
    log_start_offset: int = 0
    cleaned_offset: int = 0  # below it records may be gone, whatever the settings say now
    was_clean: bool = False
    on_recovered: Callable[[int], None] = lambda _: None  # size of each batch; may raise to stop


def load_log(request: LoadRequest, environment: LogEnvironment) -> Log:
    """Open the log of a partition directory, which must exist. Raises StorageError."""
    state = LogLoader(request, environment).load()
    return Log(request.topic_partition, request.directory, request.config, environment, state)


class LogLoader:
    """Loads one log; used once."""

    def __init__(self, request: LoadRequest, environment: LogEnvironment) -> None:
        self._request = request
        self._directory = request.directory
        self._file_system = environment.file_system
        self._expiration_ms = environment.producer_id_expiration_ms
        self._was_clean = request.was_clean
        self._recovery_point = request.recovery_point
        # Nothing that holds this object: the log keeps it, and with it all that was read here.
        self._store_epochs = EpochFile(self._file_system, self._directory)
        self._snapshots = ProducerSnapshots(self._file_system, self._directory)
        self._producers = ProducerStateManager(request.topic_partition)
        self._segments = LogSegments()
        self._names: list[str] = []
        self._last_snapshot_offset = 0
        self._has_recovered = False
        self._latest_epoch = -1  # of the last batch that was recovered
        self._recovered: set[int] = set()  # base offsets
        self._epochs: LeaderEpochCache
        self._stored_epochs: list[EpochEntry] = []

    def load(self) -> LogState:
        """The log's state. Raises StorageError."""
        self._names = self._file_system.list(self._directory)
        topic_id = self._read_topic_id()
        self._clear_leftovers()
        self._epochs = self._load_epochs()
        self._load_segments()
        if not self._was_clean:
            self._recover_segments()
        end_offset = self._end_offset()
        if not self._was_clean and end_offset < self._recovery_point:
            end_offset = self._recover_all(end_offset)
        self._distrust(end_offset)
        start_offset = self._request.log_start_offset
        if len(self._segments):
            start_offset = max(start_offset, self._segments[0].base_offset)
        if start_offset > end_offset:
            start_offset, end_offset = self._start_anew(start_offset, end_offset)
        if not len(self._segments):
            self._segments.add(self._segment(start_offset))
            if start_offset:  # its name keeps the offset, should nothing be appended
                self._segments.active.records.create()
        self._load_producers(start_offset, end_offset)
        for segment in self._segments:
            segment.records.close()  # an idle log holds no descriptor
        return LogState(
            segments=self._segments,
            log_start_offset=start_offset,
            log_end_offset=end_offset,
            recovery_point=end_offset if self._was_clean else min(self._recovery_point, end_offset),
            leader_epoch_cache=self._bounded_epochs(start_offset, end_offset),
            producer_state=self._producers,
            last_snapshot_offset=self._last_snapshot_offset,
            topic_id=topic_id,
            rebuilt=frozenset(self._recovered),
        )

    def _read_topic_id(self) -> UUID | None:
        """None where there is none, or where a power loss has spoiled a file that was new: the
        controller knows the id. Raises CheckpointError for another content after a clean stop.
        """
        path = f"{self._directory}/{PARTITION_METADATA_FILE}"
        if PARTITION_METADATA_FILE not in self._names:
            return None
        try:
            return read_partition_metadata(self._file_system, self._directory)
        except CheckpointError as error:
            if self._was_clean and self._file_system.size(path):
                raise
            _log.warning("Taking the topic id of %s from the cluster: %s", self._directory, error)
            self._file_system.unlink(path)
            return None

    def _clear_leftovers(self) -> None:
        """Finish or undo what was going on: .deleted and .cleaned go, .swap takes the place of what
        it was made from.
        """
        leftovers = [
            name
            for name in self._names
            if name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX))
        ]
        if not leftovers:
            return
        cleaned = [offset_of(name) or 0 for name in leftovers if name.endswith(CLEANED_SUFFIX)]
        # A split writes several .cleaned files and renames them from the last to the first: a .swap
        # at or above a .cleaned one belongs to a split that did not get far enough, and its source
        # is still there.
        unfinished = min(cleaned, default=None)
        for name in leftovers:
            is_swap = name.endswith(SWAP_SUFFIX)
            if not is_swap or (unfinished is not None and (offset_of(name) or 0) >= unfinished):
                self._file_system.unlink(f"{self._directory}/{name}")
        self._names = self._file_system.list(self._directory)
        swaps = [name for name in self._names if name.endswith(SWAP_SUFFIX)]
        data_files = [name for name in swaps if name.endswith(LOG_SUFFIX + SWAP_SUFFIX)]
        for name in data_files:
            self._remove_sources(name)
        if data_files:
            # No source may come back once the segment in its place has its final name.
            self._file_system.sync_directory(self._directory)
        taken = {offset_of(name) for name in data_files}
        for name in swaps:
            path = f"{self._directory}/{name}"
            if offset_of(name) in taken:
                self._file_system.rename(path, path.removesuffix(SWAP_SUFFIX))
            else:  # the index of a segment that has its final name, or was never there
                self._file_system.unlink(path)
        self._names = self._file_system.list(self._directory)

    def _remove_sources(self, swap_name: str) -> None:
        """Remove the segments whose records the segment in `swap_name` holds."""
        base_offset = offset_of(swap_name)
        assert base_offset is not None, swap_name
        end_offset = self._segment(base_offset, SWAP_SUFFIX).next_offset
        for name in self._names:
            offset = offset_of(name)
            if offset is None or not name.endswith((LOG_SUFFIX, *_INDEX_SUFFIXES)):
                continue
            if base_offset <= offset < end_offset or offset == base_offset:
                self._file_system.unlink(f"{self._directory}/{name}")

    def _load_epochs(self) -> LeaderEpochCache:
        entries: list[EpochEntry] = []
        if LEADER_EPOCH_CHECKPOINT_FILE in self._names:
            try:
                entries = read_leader_epochs(self._file_system, self._directory)
                if not are_rising(entries):
                    raise CheckpointError(f"Leader epochs out of order in {self._directory}")
                if not entries and not self._was_clean:
                    # Empty is what a power loss leaves of a file that was replaced just before.
                    raise CheckpointError(f"No leader epochs in {self._directory}")
            except CheckpointError as error:
                entries = []
                _log.warning("Reading the whole log for its leader epochs: %s", error)
                self._was_clean = False
                self._recovery_point = 0
        self._stored_epochs = entries
        # Written when all are found: half of them would be believed after another power loss.
        return LeaderEpochCache(entries, lambda _: None)

    def _bounded_epochs(self, start_offset: int, end_offset: int) -> LeaderEpochCache:
        """The epochs within the log.

        A file that only says too much stays as it is: the next change writes it, and loading would
        cut again.
        """
        if self._epochs.entries != self._stored_epochs:
            self._store_epochs(self._epochs.entries)
        bounded = LeaderEpochCache(self._epochs.entries, lambda _: None)
        bounded.truncate_from_end(end_offset)
        bounded.truncate_from_start(start_offset)
        return LeaderEpochCache(bounded.entries, self._store_epochs)

    def _load_segments(self) -> None:
        """Open all segments; rebuild indexes that are missing or cannot be right."""
        names = set(self._names)
        stems = {name.removesuffix(LOG_SUFFIX) for name in names if name.endswith(LOG_SUFFIX)}
        for name in self._names:
            if name.endswith(_INDEX_SUFFIXES) and name.partition(".")[0] not in stems:
                _log.warning("Removing index %s/%s: it has no segment", self._directory, name)
                self._file_system.unlink(f"{self._directory}/{name}")
        for base_offset in sorted(
            offset for stem in stems if (offset := offset_of(f"{stem}.")) is not None
        ):
            segment = self._segment(base_offset)
            self._segments.add(segment)
            # An unclean stop leaves the indexes behind the recovery point as they are: they are
            # rebuilt anyway.
            is_believed = self._was_clean or base_offset < self._recovery_point
            if is_believed and (fault := index_fault(segment, names)):
                _log.warning("Rebuilding the indexes of %s: %s", segment.path_stem, fault)
                self._recover(segment)

    def _recover_segments(self) -> None:
        """Check everything behind the recovery point; cut at the first broken batch."""
        unflushed = self._segments.from_offset(self._recovery_point)
        for index, segment in enumerate(unflushed):
            if index and (self._misses_records_before(segment) or self._is_older(segment)):
                self._remove(unflushed[index:])
                return
            cut_bytes = self._recover(segment)
            if cut_bytes:
                _log.warning("Cut %d bytes off %s.log: no batch", cut_bytes, segment.path_stem)
                self._file_system.sync(segment.records.path)
                self._remove(unflushed[index + 1 :])
                return

    def _recover_all(self, end_offset: int) -> int:
        """The log end: the recovery point behind it is that of a deleted log of this name, or of
        records that were cut off.
        """
        _log.warning("%s ends at %d, before its recovery point", self._directory, end_offset)
        self._recovery_point = 0
        self._has_recovered = False
        self._latest_epoch = -1
        self._recover_segments()
        return self._end_offset()

    def _misses_records_before(self, segment: LogSegment) -> bool:
        """True where a power loss took the end of the segment before, which was recovered just now,
        and left this one: where a log was never cleaned a segment starts where the other ends. What
        lies before the log start was being removed.
        """
        end_offset = self._producers.map_end_offset
        gone_offset = max(self._request.cleaned_offset, self._request.log_start_offset)
        is_cleaned = self._request.config.is_compacted or segment.base_offset <= gone_offset
        if is_cleaned or segment.base_offset == end_offset:
            return False
        _log.warning("%s.log misses the records from %d on", segment.path_stem, end_offset)
        return True

    def _is_older(self, segment: LogSegment) -> bool:
        """True where it begins with an earlier leader epoch than the segment before ends with: a
        power loss has brought it back, and it had been cut off.
        """
        epoch = first_epoch(segment)
        if not 0 <= epoch < self._latest_epoch:
            return False
        _log.warning("%s.log has epoch %d after %d", segment.path_stem, epoch, self._latest_epoch)
        return True

    def _recover(self, segment: LogSegment) -> int:
        """See `_walk`; indexes that the next start would believe are not made in their places."""
        if self._was_clean or segment.base_offset < self._request.recovery_point:
            return rebuild_beside(segment, self._file_system, self._walk)
        return self._walk(segment)

    def _walk(self, segment: LogSegment) -> int:
        """Walk a segment's batches, rebuild its indexes, epochs and producers; the number of bytes
        cut off.
        """
        base_offset = segment.base_offset
        producers = self._producers
        if producers.map_end_offset != base_offset or not self._has_recovered:
            self._producers_at(base_offset)
        runs: list[tuple[int, int, int]] = []  # (epoch, first and last base offset) of batches
        transaction_index = segment.transaction_index
        on_recovered = self._request.on_recovered

        def on_batch(header: BatchHeader, batch: memoryview) -> None:
            on_recovered(len(batch))
            epoch, first_offset = header.partition_leader_epoch, header.base_offset
            if runs and runs[-1][0] == epoch:
                first_offset = runs.pop()[1]
            runs.append((epoch, first_offset, header.base_offset))
            replay_batch(producers, header, batch, transaction_index)
            producers.map_end_offset = header.next_offset

        # Followers and the cleaner leave gaps; at the very end only where records are cleaned.
        is_last = segment is self._segments.active
        cut_bytes = segment.recover(
            on_batch,
            may_end_in_gap=not is_last or self._request.config.is_compacted,
            end_offset=None if is_last else self._segments.after(segment).base_offset,
        )
        self._recovered.add(base_offset)
        for run in runs:
            self._epochs.learn(*run)
            self._latest_epoch = run[0]
        if not self._was_clean:
            self._write_snapshot(producers.map_end_offset)
        # A snapshot that is read leaves expired producers out; so does one that was just made
        # again.
        producers.remove_expired(self._request.now_ms, self._expiration_ms)
        return cut_bytes

    def _producers_at(self, offset: int) -> None:
        """Producer state at the start of a segment that is to be recovered."""
        if not self._has_recovered and not self._was_clean:
            # What snapshots beyond say comes from batches that may be gone: found out again.
            self._snapshots.delete_outside(0, offset)
        self._has_recovered = True
        bounds = (self._request.log_start_offset, offset)
        load_snapshot(
            self._producers, self._snapshots, bounds, self._request.now_ms, self._expiration_ms
        )
        self._last_snapshot_offset = self._producers.map_end_offset
        self._replay_up_to(offset)
        if not self._was_clean:  # what a clean stop has written may go further back than the log
            self._write_snapshot(offset)

    def _replay_up_to(self, offset: int) -> None:
        producers = self._producers
        if producers.map_end_offset < offset and len(self._segments):
            segments = self._segments.between(producers.map_end_offset, offset)
            try:
                replay_segments(producers, segments, offset)
            except KafkaError as error:
                _log.warning(
                    "Producer state of %s is incomplete: %s", self._request.topic_partition, error
                )
        producers.map_end_offset = offset

    def _end_offset(self) -> int:
        if not len(self._segments):
            return self._request.log_start_offset
        active = self._segments.active
        tail = tail_of(active)
        end_offset = tail[-1].next_offset if tail else active.base_offset
        if self._was_clean and end_offset != self._recovery_point:
            return sound_end_offset(active, self._recovery_point)
        start_offset = self._request.log_start_offset
        if self._was_clean and not agree_with(self._epochs, tail, start_offset):
            self._find_epochs(end_offset)
        return end_offset

    def _find_epochs(self, end_offset: int) -> None:
        """Learn the leader epochs from the batches: their file contradicts them."""
        _log.warning("Reading the leader epochs of %s from its batches", self._directory)
        self._distrust(end_offset)
        found = LeaderEpochCache([], lambda _: None)
        for segment in self._segments:
            for _, header in segment.sound_headers():
                if header.partition_leader_epoch > found.latest_epoch:
                    found.assign(header.partition_leader_epoch, header.base_offset)
        self._epochs = found

    def _distrust(self, end_offset: int) -> None:
        """Let what was not recovered be checked when it is read."""
        ends = [*self._segments.base_offsets[1:], end_offset]
        for segment, segment_end in zip(self._segments, ends, strict=False):
            if segment.base_offset not in self._recovered:
                segment.distrust(segment_end)
        for segment, segment_end in zip(list(self._segments), ends, strict=False):
            is_noted = segment.transaction_index.entries
            if is_noted and not are_witnessed(self._segments, segment, segment_end):
                _log.warning("Rebuilding %s", segment.transaction_index.path)
                self._recover(segment)

    def _start_anew(self, start_offset: int, end_offset: int) -> tuple[int, int]:
        """(start, end) of a log whose noted start lies behind its end: no more than a number says
        so, and no record goes for that.
        """
        _log.warning(
            "Log of %s ends at %d, before its start %d in the checkpoint",
            self._request.topic_partition,
            end_offset,
            start_offset,
        )
        if self._segments.size_bytes:
            return self._segments[0].base_offset, end_offset
        self._remove(list(self._segments))
        self._epochs.clear()
        return start_offset, start_offset

    def _remove(self, segments: list[LogSegment]) -> None:
        for segment in segments:
            _log.warning("Removing segment %s", segment.path_stem)
            self._segments.remove(segment)
            self._snapshots.delete(segment.base_offset)
            # Where the log ends there now, it is written again.
            self._last_snapshot_offset = min(self._last_snapshot_offset, segment.base_offset - 1)
            segment.delete()
        if segments:  # a clean stop does not look into what did not grow since
            self._file_system.sync_directory(self._directory)

    def _load_producers(self, start_offset: int, end_offset: int) -> None:
        """Bring the producer state to the log end; keep the snapshots that later loads can use."""
        bases = self._segments.base_offsets
        names = self._file_system.list(self._directory) if self._has_recovered else self._names
        offsets = snapshot_offsets(names)
        newest = max((o for o in offsets if o <= end_offset), default=-1)
        for offset in offsets:
            is_base = offset in bases and start_offset < offset <= end_offset
            if not is_base and (offset != newest or offset <= start_offset):
                self._snapshots.delete(offset)
        is_bare = not self._has_recovered and not any(o in bases or o > bases[-1] for o in offsets)
        if self._was_clean and is_bare:
            # No snapshot at a clean stop: the log was written by a version without producers, or
            # they were deleted. Empty ones where a later load may begin save it the whole log.
            for offset in (*bases[-2:], end_offset):
                self._producers.clear(offset)
                self._write_snapshot(offset)
            return
        # Recovery leaves more in memory (five batches a producer) than its snapshot holds (one).
        # After a clean stop the snapshot also knows producers from below the log start.
        if self._was_clean or self._producers.map_end_offset != end_offset:
            self._load_newest(newest, start_offset, end_offset)
        self._replay_up_to(end_offset)
        self._write_snapshot(end_offset)

    def _load_newest(self, newest: int, start_offset: int, end_offset: int) -> None:
        bounds = (start_offset, end_offset)
        if newest <= start_offset:
            self._producers.clear(start_offset)
        else:
            load_snapshot(
                self._producers, self._snapshots, bounds, self._request.now_ms, self._expiration_ms
            )
        self._last_snapshot_offset = self._producers.map_end_offset

    def _write_snapshot(self, offset: int) -> None:
        if offset > self._last_snapshot_offset:
            try:
                self._snapshots.write(offset, self._producers.producers.values(), sync=False)
            except StorageError as error:
                if not error.is_out_of_space:
                    raise
                _log.warning("A producer snapshot does not fit, the log is read without: %s", error)
                return
            self._last_snapshot_offset = offset

    def _segment(self, base_offset: int, suffix: str = "") -> LogSegment:
        request = self._request
        return LogSegment(
            self._file_system,
            self._directory,
            base_offset,
            segment_config(request.config),
            created_ms=request.now_ms,
            suffix=suffix,
        )
