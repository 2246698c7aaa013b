"""Doubts about the small files of a cleanly stopped log: what has no checksum of its own is held
against the batches before it is believed.

Law: nothing here changes a file; the answer is what to believe.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from kbroker.errors import KafkaError
from kbroker.log.format import MAX_RELATIVE_OFFSET
from kbroker.log.leader_epoch_cache import EpochEntry, LeaderEpochCache
from kbroker.log.log_segment import LogSegment
from kbroker.log.log_segments import LogSegments
from kbroker.log.segment_check import DamagedBatchError
from kbroker.log.transaction_index import AbortedTxn
from kbroker.record.record_batch import BatchHeader

_MAX_WITNESSED = 1000  # newest entries of a transaction index: older ones are rarely asked for


def tail_of(segment: LogSegment) -> list[BatchHeader]:
    """The headers behind the last entry of the offset index, checked against nothing; none where
    that leads nowhere.
    """
    _, position = segment.offset_index.lookup(segment.offset_index.last_offset)
    if not 0 <= position <= segment.size_bytes:
        return []
    try:
        return [header for _, header in segment.records.headers(position)]
    except KafkaError:
        return []


def sound_end_offset(segment: LogSegment, recovery_point: int) -> int:
    """The end of a log whose last segment does not end where its recovery point was noted.

    The last sound batch is right, unless damage follows it, or its own offset was damaged: the
    noted end knows better then.
    """
    segment.distrust(segment.base_offset + MAX_RELATIVE_OFFSET + 1)
    last: BatchHeader | None = None
    end_offset = before_last = segment.base_offset
    end_position = 0
    for position, header in segment.sound_headers(segment.offset_index.last_offset):
        before_last = end_offset if last is not None else header.base_offset
        last, end_offset, end_position = header, header.next_offset, position + header.size_bytes
    is_misplaced = last is not None and (
        last.base_offset != before_last
        and recovery_point == before_last + last.last_offset_delta + 1
    )
    if end_position < segment.size_bytes or is_misplaced:
        return max(before_last if is_misplaced else end_offset, recovery_point)
    return end_offset


def are_rising(entries: Sequence[EpochEntry]) -> bool:
    """Whether leader epochs and their start offsets both rise, as they must in their file."""
    return all(entry.epoch >= 0 and entry.start_offset >= 0 for entry in entries) and all(
        before.epoch < after.epoch and before.start_offset < after.start_offset
        for before, after in pairwise(entries)
    )


def agree_with(epochs: LeaderEpochCache, tail: Sequence[BatchHeader]) -> bool:
    """Whether the leader epochs say of any of the last batches what it says of itself."""
    told = [header for header in tail if header.partition_leader_epoch >= 0]
    return not told or any(
        epochs.epoch_for_offset(header.base_offset) == header.partition_leader_epoch
        for header in told
    )


def are_witnessed(segments: LogSegments, segment: LogSegment) -> bool:
    """Whether the batches say the same of the aborted transactions of `segment` as its index."""
    entries = segment.transaction_index.entries
    return all(_is_witnessed(segments, segment, aborted) for aborted in entries[-_MAX_WITNESSED:])


def _is_witnessed(segments: LogSegments, home: LogSegment, aborted: AbortedTxn) -> bool:
    marker = _batch_at(home, aborted.last_offset)
    if marker is not None and not (marker.is_control and marker.producer_id == aborted.producer_id):
        return False
    index = segments.floor_index(aborted.first_offset)
    first = _batch_at(segments[index], aborted.first_offset) if index >= 0 else None
    return first is None or (
        first.base_offset == aborted.first_offset
        and first.is_transactional
        and not first.is_control
        and first.producer_id == aborted.producer_id
    )


def _batch_at(segment: LogSegment, offset: int) -> BatchHeader | None:
    """The batch that holds `offset`; None where it was removed, or is damaged."""
    try:
        found = segment.translate_offset(offset)
    except DamagedBatchError:
        return None
    if found is None or found[1].base_offset > offset:
        return None
    return found[1]
