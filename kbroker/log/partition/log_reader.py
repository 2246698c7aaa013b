"""Reads of a log: by offset within an isolation level, with the aborted transactions of a range.

Law: nothing here changes a log, and no batch at or beyond the bound of the isolation level is
returned whole: a reader must not see a record that a new leader may lack, or whose transaction may
abort.
"""

from __future__ import annotations

from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.disk.file_system import StorageError
from kbroker.log.partition.log_parts import LogParts
from kbroker.log.segments.fetch_data_info import FetchDataInfo, FetchIsolation
from kbroker.log.segments.file_records import RecordsSlice
from kbroker.log.segments.log_segment import LogSegment
from kbroker.log.segments.transaction_index import AbortedTxn
from kbroker.model import new_tuple

# Asked for by every read; a look into the class of an enum costs 70 ns.
_HIGH_WATERMARK = FetchIsolation.HIGH_WATERMARK
_TXN_COMMITTED = FetchIsolation.TXN_COMMITTED


class LogReader:
    """Reads one log; keeps no state."""

    __slots__ = ("_directory", "_offsets", "_producers", "_segments")

    def __init__(self, parts: LogParts) -> None:
        self._directory = parts.directory
        self._offsets = parts.offsets
        self._segments = parts.files.segments
        self._producers = parts.producers

    def read(
        self,
        offset: int,
        max_bytes: int,
        isolation: FetchIsolation = FetchIsolation.HIGH_WATERMARK,
        min_one_message: bool = False,
    ) -> FetchDataInfo:
        """Batches from the one that holds `offset` on, out of one segment and below the bound of
        `isolation`. Raises KafkaError: OFFSET_OUT_OF_RANGE, KAFKA_STORAGE_ERROR.
        """
        offsets = self._offsets
        if not offsets.log_start_offset <= offset <= offsets.log_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Received request for offset {offset} for partition "
                f"{self._directory.topic_partition}, but we only have log segments in the range "
                f"{offsets.log_start_offset} to {offsets.log_end_offset}.",
            )
        aborted: list[AbortedTxn] | None = None
        bound = offsets.high_watermark
        if isolation is _TXN_COMMITTED:
            aborted = []
            first_unstable_offset = self._producers.state.first_unstable_offset
            if first_unstable_offset is not None:
                bound = offsets.last_stable_offset(first_unstable_offset)
        elif isolation is not _HIGH_WATERMARK:
            bound = offsets.log_end_offset
        try:
            if offset < bound:  # not as most who wait
                return self._read_below(bound, offset, max_bytes, aborted, min_one_message)
            records = RecordsSlice(self._segments.active.records, 0, 0)
        except StorageError as error:
            raise self._directory.failed(error) from error
        found: FetchDataInfo = new_tuple(FetchDataInfo, (offset, records, aborted, False, 0, False))
        return found

    def _read_below(
        self,
        bound: int,
        offset: int,
        max_bytes: int,
        aborted: list[AbortedTxn] | None,
        min_one_message: bool,
    ) -> FetchDataInfo:
        """Read from `offset`, which is below `bound`."""
        offsets, segments = self._offsets, self._segments
        segment = segments.active
        index = last = 0  # nothing comes after the newest
        if offset < segment.base_offset:
            index, last = max(segments.floor_index(offset), 0), len(segments) - 1
        while index <= last:
            if index < last:
                segment = segments[index]
            on_older_segment = index < last and bound >= segments[index + 1].base_offset
            max_position = None
            ends_later = bound < offsets.log_end_offset or offsets.unfinished_cut is not None
            if ends_later and not on_older_segment:
                max_position = segment.position_of(bound)
            # Of a later segment all is wanted: damage at its begin must not be skipped.
            found = segment.read(
                offset if offset > segment.base_offset else segment.base_offset,
                max_bytes,
                max_position,
                end_offset=None if on_older_segment else bound,
                min_one_message=min_one_message,
            )
            if found is not None:
                if aborted is not None:
                    aborted = self._aborted(segment, offset, bound)
                records, is_incomplete, available = found
                info: FetchDataInfo = new_tuple(
                    FetchDataInfo,
                    (offset, records, aborted, is_incomplete, available, on_older_segment),
                )
                return info
            index += 1  # compaction left a hole at the end of the segment
            segment = segments.active
        return FetchDataInfo(offset, segments.active.records.slice(0, 0), aborted)

    def _aborted(self, segment: LogSegment, start_offset: int, bound: int) -> list[AbortedTxn]:
        """The aborted transactions that touch offsets from `start_offset` to the end of the segment
        that was read.

        A transaction's entry is in the segment of its marker, which may be a later one.
        """
        found: list[AbortedTxn] = []
        noting = self._segments.with_aborted(segment.base_offset)
        if not noting:
            return found
        end_offset = min(bound, self._segments.end_bound(segment))
        for each in noting:
            entries, is_complete = each.transaction_index.collect(start_offset, end_offset)
            found += entries
            if is_complete:
                break
        return found
