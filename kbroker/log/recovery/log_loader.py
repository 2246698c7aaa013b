"""Opens a partition directory: rebuilds broken indexes, recovers what an unclean stop left behind.

Law: a cleanly stopped log is taken at its word after a look at its indexes; otherwise every batch
from the recovery point on is read and checked. At the first broken one the segment is cut and all
later segments go, durably: what was cut must not be there again after a clean stop and a power
loss. Whatever comes out ends at a whole batch, and epochs, producers and indexes agree with it.
What was on the disk for good loses no sound batch, whatever is made anew beside it: all of a log
that was stopped cleanly, and every segment below the recovery point. Nor does such a log give out
again the offsets of an end that is missing.

Missing offsets are no damage by themselves: the cleaner leaves gaps, and leaders send them. Only
behind the offset from which this broker is known to have written the log without any (see
`gapless_offsets`) do the batches have to fit: a segment that does not begin where the one before
ends shows that a power loss took that end, a last batch that does not follow the one before that
its offset was damaged, and a leader epoch that falls that a power loss brought back what was cut.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from kbroker.config.topic_config import TopicConfig
from kbroker.log.directories.checkpoint import (
    CheckpointError,
    EpochFile,
    read_leader_epochs,
    read_partition_metadata,
)
from kbroker.log.format import (
    INDEX_SUFFIXES,
    LEADER_EPOCH_CHECKPOINT_FILE,
    LOG_SUFFIX,
    MAX_OFFSET,
    MAX_RELATIVE_OFFSET,
    PARTITION_METADATA_FILE,
    PRODUCER_SNAPSHOT_SUFFIX,
    file_name,
    offset_of,
)
from kbroker.log.leader_epoch_cache import EpochEntry, LeaderEpochCache
from kbroker.log.log import Log
from kbroker.log.log_segment import LogSegment, OnBatch
from kbroker.log.log_segments import LogSegments
from kbroker.log.log_state import LogEnvironment, LogState, segment_config
from kbroker.log.producers.producer_replay import Expiry, replay_batch
from kbroker.log.recovery import leftovers
from kbroker.log.recovery.index_rebuild import (
    index_fault,
    index_sound_batches,
    rebuild_beside,
)
from kbroker.log.recovery.load_checks import (
    agree_with,
    are_rising,
    are_witnessed,
    first_epoch,
    sound_end_offset,
    tail_of,
)
from kbroker.log.recovery.producer_loading import ProducerLoading
from kbroker.model import TopicPartition
from kbroker.record.batch_order import is_older, misses_records_before
from kbroker.record.record_batch import BatchHeader

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
    cleaned_offset: int = 0  # up to where the cleaner came
    gapless_from: int | None = None  # no gaps from here on; None: there may be some anywhere
    was_clean: bool = False
    on_recovered: Callable[[int], None] = lambda _: None  # size of each batch; may raise to stop


def load_log(request: LoadRequest, environment: LogEnvironment) -> Log:
    """Open the log of a partition directory, which must exist. Raises StorageError."""
    state = LogLoader(request, environment).load()
    environment.on_gapless(request.directory, request.topic_partition, state.gapless_from)
    log = Log(request.topic_partition, request.directory, request.config, environment, state)
    if not request.was_clean:
        log.files.unsynced.place_changed()  # nothing says that its name and topic id are safe
    return log


class LogLoader:
    """Loads one log; used once."""

    def __init__(self, request: LoadRequest, environment: LogEnvironment) -> None:
        self._request = request
        self._directory = request.directory
        self._file_system = environment.file_system
        self._was_clean = request.was_clean
        self._recovery_point = request.recovery_point
        known = request.gapless_from
        self._gapless_from = MAX_OFFSET if known is None else known
        # Nothing that holds this object: the log keeps it, and with it all that was read here.
        self._store_epochs = EpochFile(self._file_system, self._directory)
        self._segments = LogSegments()
        self._producers = ProducerLoading(
            self._file_system,
            self._directory,
            request.topic_partition,
            self._segments,
            request.log_start_offset,
            Expiry(request.now_ms, environment.producer_id_expiration_ms),
        )
        self._names: list[str] = []
        self._latest_epoch = -1  # of the last batch that was recovered
        self._recovered: set[int] = set()  # base offsets of segments that were checked and cut
        self._rebuilt: set[int] = set()  # of those whose indexes alone were made anew
        self._has_lost_epochs = False
        self._epochs: LeaderEpochCache
        self._stored_epochs: list[EpochEntry] = []

    def load(self) -> LogState:
        """The log's state. Raises StorageError."""
        self._names = self._file_system.list(self._directory)
        topic_id = self._read_topic_id()
        self._names = leftovers.clear(self._file_system, self._directory, self._segment)
        self._epochs = self._load_epochs()
        self._load_segments()
        if self._has_lost_epochs:
            self._find_epochs()
        if not self._was_clean:
            self._recover_segments()
        end_offset = self._end_offset()
        if end_offset < self._recovery_point:
            keep = self._keep_offsets if self._was_clean else self._recover_all
            end_offset = keep(end_offset)
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
        self._producers.finish(start_offset, end_offset, self._names, was_clean=self._was_clean)
        for segment in self._segments:
            segment.records.close()  # an idle log holds no descriptor
        return LogState(
            segments=self._segments,
            log_start_offset=start_offset,
            log_end_offset=end_offset,
            recovery_point=end_offset if self._was_clean else min(self._recovery_point, end_offset),
            leader_epoch_cache=self._bounded_epochs(start_offset, end_offset),
            producer_state=self._producers.state,
            last_snapshot_offset=self._producers.last_snapshot_offset,
            # Where nothing was known, nothing below the end is: appends to come leave no gap.
            gapless_from=min(self._gapless_from, end_offset),
            topic_id=topic_id,
            rebuilt=frozenset(self._recovered | self._rebuilt),
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
                _log.warning("Taking the leader epochs from the batches: %s", error)
                self._has_lost_epochs = True
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
            if name.endswith(INDEX_SUFFIXES) and name.partition(".")[0] not in stems:
                _log.warning("Removing index %s/%s: it has no segment", self._directory, name)
                self._file_system.unlink(f"{self._directory}/{name}")
        for base_offset in sorted(
            offset for stem in stems if (offset := offset_of(f"{stem}.")) is not None
        ):
            self._segments.add(self._segment(base_offset))
        for segment in self._believed():
            if fault := index_fault(segment, names):
                _log.warning("Rebuilding the indexes of %s: %s", segment.path_stem, fault)
                self._rebuild(segment)

    def _believed(self) -> list[LogSegment]:
        """The segments that were on the disk for good; from now on their batches are checked when
        they are read. The indexes of the others are rebuilt anyway.
        """
        segments = list(self._segments)
        if not self._was_clean:
            segments = segments[: -len(self._segments.from_offset(self._recovery_point))]
        for segment in segments:
            segment.distrust(self._end_of(segment))
        return segments

    def _end_of(self, segment: LogSegment) -> int:
        """Where the next segment begins; for the last one the highest it can reach."""
        if segment is self._segments.active:
            return segment.base_offset + MAX_RELATIVE_OFFSET + 1
        return self._segments.after(segment).base_offset

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
        self._producers.has_recovered = False
        self._latest_epoch = -1
        self._recover_segments()
        return self._end_offset()

    def _misses_records_before(self, segment: LogSegment) -> bool:
        """True where a power loss took the end of the segment before, which was recovered just now,
        and left this one: see the module. What lies before the log start was being removed.
        """
        end_offset = self._producers.state.map_end_offset
        gaps_up_to = max(self._gapless_from, self._request.log_start_offset)
        if not misses_records_before(segment.base_offset, end_offset, gaps_up_to):
            return False
        _log.warning("%s.log misses the records from %d on", segment.path_stem, end_offset)
        return True

    def _is_older(self, segment: LogSegment) -> bool:
        """True where it begins with an earlier leader epoch than the segment before ends with: a
        power loss has brought it back, and it had been cut off.
        """
        epoch = first_epoch(segment)
        if not is_older(segment.base_offset, epoch, self._latest_epoch, self._gapless_from):
            return False
        _log.warning("%s.log has epoch %d after %d", segment.path_stem, epoch, self._latest_epoch)
        return True

    def _recover(self, segment: LogSegment) -> int:
        """Check a segment and cut it at the first broken batch; rebuild its indexes, epochs and
        producers. The number of bytes cut off.
        """
        runs: list[tuple[int, int, int]] = []  # (epoch, first and last base offset) of batches

        def walk(segment: LogSegment) -> int:
            replay = self._replay_of(segment)

            def on_batch(header: BatchHeader, batch: memoryview) -> None:
                epoch, first_offset = header.partition_leader_epoch, header.base_offset
                if runs and runs[-1][0] == epoch:
                    first_offset = runs.pop()[1]
                runs.append((epoch, first_offset, header.base_offset))
                replay(header, batch)

            is_last = segment is self._segments.active
            end_offset = None if is_last else self._end_of(segment)
            return segment.recover(on_batch, gapless_from=self._gapless_from, end_offset=end_offset)

        self._recovered.add(segment.base_offset)
        if segment.base_offset < self._request.recovery_point:
            # The next start believes its indexes, so they are not made in their places.
            cut_bytes = rebuild_beside(segment, self._file_system, walk)
        else:
            cut_bytes = walk(segment)
        for run in runs:
            self._epochs.learn(*run)
            self._latest_epoch = run[0]
        self._producers.end_segment(was_clean=self._was_clean)
        return cut_bytes

    def _rebuild(self, segment: LogSegment) -> None:
        """Make the indexes of a believed segment anew, around what is damaged in it."""

        def walk(segment: LogSegment) -> None:
            index_sound_batches(segment, self._end_of(segment), self._replay_of(segment))

        self._rebuilt.add(segment.base_offset)
        rebuild_beside(segment, self._file_system, walk)
        self._producers.end_segment(was_clean=self._was_clean)

    def _replay_of(self, segment: LogSegment) -> OnBatch:
        """What takes the batches of a segment into account, from its first one on: producers, and
        the transactions they aborted.
        """
        self._producers.begin_segment(segment.base_offset, was_clean=self._was_clean)
        producers = self._producers.state
        transaction_index = segment.transaction_index
        on_recovered = self._request.on_recovered

        def on_batch(header: BatchHeader, batch: memoryview) -> None:
            on_recovered(len(batch))
            replay_batch(producers, header, batch, transaction_index)
            producers.map_end_offset = header.next_offset

        return on_batch

    def _end_offset(self) -> int:
        if not len(self._segments):
            return self._request.log_start_offset
        active = self._segments.active
        tail = tail_of(active)
        end_offset = tail[-1].next_offset if tail else active.base_offset
        if not self._was_clean:
            return end_offset
        if not agree_with(self._epochs, tail, self._request.log_start_offset):
            self._find_epochs()
        if end_offset != self._recovery_point or (active.size_bytes and not tail):
            return sound_end_offset(active, self._recovery_point)
        return end_offset

    def _keep_offsets(self, end_offset: int) -> int:
        """The log end where the end of the last segment is missing although it was stopped cleanly:
        no other records get the offsets of those that were there.

        A number alone may be wrong, so the stop must have noted the producers of that offset, too.
        """
        noted = self._recovery_point
        if file_name(noted, PRODUCER_SNAPSHOT_SUFFIX) not in self._names:
            _log.error(
                "%s ends at %d, and at %d when it was stopped cleanly, says its recovery point: "
                "records may be lost, and new ones get their offsets",
                self._directory,
                end_offset,
                noted,
            )
            return end_offset
        _log.error(
            "%s ends at %d, and at %d when it was stopped cleanly: the records between are lost. "
            "New ones get offsets from %d on",
            self._directory,
            end_offset,
            noted,
            noted,
        )
        self._segments.add(self._segment(noted))  # its name keeps the offset
        self._segments.active.records.create()
        self._file_system.sync_directory(self._directory)
        return noted

    def _find_epochs(self) -> None:
        """Learn the leader epochs from the batches that are believed: their file cannot be read, or
        contradicts them.
        """
        _log.warning("Reading the leader epochs of %s from its batches", self._directory)
        found = LeaderEpochCache([], lambda _: None)
        for segment in self._believed():
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
                self._rebuild(segment)

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
            self._producers.removed(segment.base_offset)
            segment.delete()
        if segments:  # a clean stop does not look into what did not grow since
            self._file_system.sync_directory(self._directory)

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
