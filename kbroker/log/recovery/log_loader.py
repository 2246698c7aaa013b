"""Opens a partition directory: rebuilds broken indexes, recovers what an unclean stop left behind.

Law: a cleanly stopped log is taken at its word after a look at its indexes; otherwise every batch
from the recovery point on is read and checked. At the first broken one the segment is cut and all
later segments go, durably: what was cut must not be there again after a clean stop and a power
loss. Whatever comes out ends at a whole batch, and epochs, producers and indexes agree with it.
What was on the disk for good loses no intact batch, whatever is rebuilt beside it: all of a log
that was stopped cleanly, and every segment below the recovery point. Nor does such a log give out
again the offsets of an end that is missing.

Missing offsets are not damage by themselves: the cleaner leaves gaps, and leaders send them. Only
after the offset from which this broker is known to have written the log without any (see
`gapless_offsets`) do the batches have to fit: a segment that does not begin where the one before
ends shows that a power loss took that end, a last batch that does not follow the one before that
its offset was damaged, and a leader epoch that falls that a power loss brought back what was cut.
"""

from __future__ import annotations

import logging
from uuid import UUID

from kbroker.log.disk.checkpoint import CheckpointError, read_partition_metadata
from kbroker.log.disk.format import (
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    PARTITION_METADATA_FILE,
    PRODUCER_SNAPSHOT_SUFFIX,
    file_name,
    offset_of,
)
from kbroker.log.partition.log import Log
from kbroker.log.partition.log_state import LogEnvironment, LogState, segment_config
from kbroker.log.producers.producer_replay import Expiry
from kbroker.log.recovery import leftovers
from kbroker.log.recovery.epoch_loading import EpochLoading
from kbroker.log.recovery.index_rebuild import index_fault
from kbroker.log.recovery.load_checks import are_witnessed, sound_end_offset, tail_of
from kbroker.log.recovery.load_request import LoadRequest
from kbroker.log.recovery.producer_loading import ProducerLoading
from kbroker.log.recovery.segment_recovery import SegmentRecovery
from kbroker.log.segments.log_segment import LogSegment
from kbroker.log.segments.log_segments import LogSegments

_log = logging.getLogger(__name__)


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
        self._segments = LogSegments()
        self._producers = ProducerLoading(
            self._file_system,
            self._directory,
            request.topic_partition,
            self._segments,
            request.log_start_offset,
            Expiry(request.now_ms, environment.producer_id_expiration_ms()),
        )
        self._names: list[str] = []
        self._epochs = EpochLoading(self._file_system, self._directory)
        self._recovery = SegmentRecovery(
            request, self._file_system, self._segments, self._producers, self._epochs
        )

    def load(self) -> LogState:
        """The log's state. Raises StorageError."""
        self._names = self._file_system.list(self._directory)
        topic_id = self._read_topic_id()
        self._names = leftovers.clear(self._file_system, self._directory, self._segment)
        self._epochs.load(self._names, was_clean=self._was_clean)
        self._load_segments()
        if self._epochs.are_lost:
            self._epochs.find_in(self._believed())
        if not self._was_clean:
            self._recovery.recover_from(self._recovery_point)
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
        if not self._was_clean:
            self._epochs.find_before(start_offset, self._segments)
        if not len(self._segments):
            self._segments.add(self._segment(start_offset))
            if start_offset:  # its name keeps the offset, should nothing be appended
                self._segments.active.records.create()
        self._producers.finish(start_offset, end_offset, self._names, was_clean=self._was_clean)
        for segment in self._segments:
            segment.records.close()  # an idle log holds no descriptor
        gapless_from = self._request.gapless_from
        return LogState(
            segments=self._segments,
            log_start_offset=start_offset,
            log_end_offset=end_offset,
            recovery_point=end_offset if self._was_clean else min(self._recovery_point, end_offset),
            leader_epoch_cache=self._epochs.finish(start_offset, end_offset),
            producer_state=self._producers.state,
            last_snapshot_offset=self._producers.last_snapshot_offset,
            # If nothing was known, nothing below the end is: appends to come leave no gap.
            gapless_from=end_offset if gapless_from is None else min(gapless_from, end_offset),
            topic_id=topic_id,
            rebuilt=frozenset(self._recovery.recovered | self._recovery.rebuilt),
        )

    def _read_topic_id(self) -> UUID | None:
        """None if there is none, or if a power loss has spoiled a file that was new: the
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
                self._recovery.rebuild(segment)

    def _believed(self) -> list[LogSegment]:
        """The segments that were on the disk for good; from now on their batches are checked when
        they are read. The indexes of the others are rebuilt anyway.
        """
        segments = list(self._segments)
        if not self._was_clean:
            segments = segments[: -len(self._segments.from_offset(self._recovery_point))]
        for segment in segments:
            segment.distrust(self._segments.end_bound(segment))
        return segments

    def _recover_all(self, end_offset: int) -> int:
        """The log end: the recovery point after it is that of a deleted log of this name, or of
        records that were cut off.
        """
        _log.warning("%s ends at %d, before its recovery point", self._directory, end_offset)
        self._recovery_point = 0
        self._producers.begin_again()
        self._recovery.recover_from(0)
        return self._end_offset()

    def _end_offset(self) -> int:
        if not len(self._segments):
            return self._request.log_start_offset
        active = self._segments.active
        tail = tail_of(active)
        end_offset = tail[-1].next_offset if tail else active.base_offset
        if not self._was_clean:
            return end_offset
        headers = tail or tail_of(self._last_with_batches())
        if not self._epochs.agree_with(headers, self._request.log_start_offset):
            self._epochs.find_in(self._believed())
        if end_offset != self._recovery_point or (active.size_bytes and not tail):
            return sound_end_offset(
                active, self._recovery_point, has_snapshot=self._has_snapshot(self._recovery_point)
            )
        return end_offset

    def _last_with_batches(self) -> LogSegment:
        segments = reversed(list(self._segments))
        return next((s for s in segments if s.size_bytes), self._segments.active)

    def _keep_offsets(self, end_offset: int) -> int:
        """The log end if the end of the last segment is missing although it was stopped cleanly:
        no other records get the offsets of those that were there.

        A number alone may be wrong, so the stop must have noted the producers of that offset, too.
        """
        noted = self._recovery_point
        if not self._has_snapshot(noted):
            _log.error(
                "%s ends at %d, but ended at %d after its last clean stop, as its recovery point "
                "says: records may be lost, and new ones reuse their offsets",
                self._directory,
                end_offset,
                noted,
            )
            return end_offset
        _log.error(
            "%s ends at %d, but ended at %d after its last clean stop: the records between are "
            "lost. New ones get offsets from %d on",
            self._directory,
            end_offset,
            noted,
            noted,
        )
        self._segments.add(self._segment(noted))  # its name keeps the offset
        self._segments.active.records.create()
        self._file_system.sync_directory(self._directory)
        return noted

    def _has_snapshot(self, offset: int) -> bool:
        return file_name(offset, PRODUCER_SNAPSHOT_SUFFIX) in self._names

    def _distrust(self, end_offset: int) -> None:
        ends = [*self._segments.base_offsets[1:], end_offset]
        for segment, segment_end in zip(self._segments, ends, strict=False):
            if segment.base_offset not in self._recovery.recovered:
                segment.distrust(segment_end)
        for segment, segment_end in zip(list(self._segments), ends, strict=False):
            is_noted = segment.transaction_index.entries
            if is_noted and not are_witnessed(self._segments, segment, segment_end):
                _log.warning("Rebuilding %s", segment.transaction_index.path)
                self._recovery.rebuild(segment)

    def _start_anew(self, start_offset: int, end_offset: int) -> tuple[int, int]:
        """(start, end) of a log whose noted start is beyond its end: only a number says so, and no
        record is deleted for that.
        """
        _log.warning(
            "Log of %s ends at %d, before its start %d in the checkpoint",
            self._request.topic_partition,
            end_offset,
            start_offset,
        )
        if self._segments.size_bytes:
            return self._segments[0].base_offset, end_offset
        self._recovery.remove(list(self._segments))
        self._epochs.clear()
        return start_offset, start_offset

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
