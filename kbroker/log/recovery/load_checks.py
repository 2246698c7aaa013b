"""Doubts about the small files of a cleanly stopped log: what has no checksum of its own is checked
against the batches before it is trusted.

Law: nothing here changes a file; the answer says what to trust. So a start decides on everything
before it repairs anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, pairwise

from kbroker.errors import KafkaError
from kbroker.log.disk.checkpoint import EpochEntry
from kbroker.log.disk.format import MAX_RELATIVE_OFFSET
from kbroker.log.partition.leader_epoch_cache import LeaderEpochCache
from kbroker.log.segments.found_records import DamagedBatchError
from kbroker.log.segments.log_segment import LogSegment
from kbroker.log.segments.log_segments import LogSegments
from kbroker.log.segments.transaction_index import AbortedTxn
from kbroker.record.batch_order import end_after_clean_stop
from kbroker.record.record_batch import BatchHeader

_MAX_WITNESSED = 100  # newest entries of a transaction index: older ones are rarely asked for
_OFFSETS_BEFORE = 64
_MAX_BATCHES = 500


def tail_of(segment: LogSegment) -> list[BatchHeader]:
    """The headers after the last entry of the offset index, checked against nothing; none if
    that leads nowhere.
    """
    _, position = segment.offset_index.lookup(segment.offset_index.last_offset)
    if not 0 <= position <= segment.size_bytes:
        return []
    try:
        return [header for _, header in segment.records.headers(position)]
    except KafkaError:
        return []


def first_epoch(segment: LogSegment) -> int:
    """The leader epoch of the first batch, checked against nothing; -1 if there is none."""
    try:
        header = next((header for _, header in segment.records.headers(0)), None)
    except KafkaError:
        return -1
    return header.partition_leader_epoch if header is not None else -1


def sound_end_offset(segment: LogSegment, recovery_point: int, *, has_snapshot: bool) -> int:
    """The end of a log whose last segment does not end where its recovery point was noted;
    `has_snapshot`: the producers of that offset were noted, too.
    """
    segment.distrust(segment.base_offset + MAX_RELATIVE_OFFSET + 1)
    return end_after_clean_stop(
        _last_sound_headers(segment),
        segment.base_offset,
        segment.size_bytes,
        recovery_point,
        is_noted_twice=has_snapshot,
    )


def _last_sound_headers(segment: LogSegment) -> Iterator[tuple[int, BatchHeader]]:
    """Headers from the last index entry on; all of them if fewer than two are after it: what is
    wrong with the last one shows beside the one before.
    """
    start_offset = segment.offset_index.last_offset
    if sum(1 for _ in islice(segment.sound_headers(start_offset), 2)) < 2:
        start_offset = 0
    yield from segment.sound_headers(start_offset)


def are_rising(entries: Sequence[EpochEntry]) -> bool:
    """Whether leader epochs and their start offsets both rise, as they must in their file."""
    return all(entry.epoch >= 0 and entry.start_offset >= 0 for entry in entries) and all(
        before.epoch < after.epoch and before.start_offset < after.start_offset
        for before, after in pairwise(entries)
    )


def agree_with(
    epochs: LeaderEpochCache, tail: Sequence[BatchHeader], log_start_offset: int
) -> bool:
    """Whether the leader epochs say of any of the last batches what it says of itself. Below the
    log start they say nothing any more.
    """
    with_epoch = [
        header
        for header in tail
        if header.partition_leader_epoch >= 0 and header.next_offset > log_start_offset
    ]
    return not with_epoch or any(
        epochs.epoch_for_offset(max(header.base_offset, log_start_offset))
        == header.partition_leader_epoch
        for header in with_epoch
    )


def are_witnessed(segments: LogSegments, segment: LogSegment, end_offset: int) -> bool:
    """Whether the batches say the same of the aborted transactions of `segment`, which ends at
    `end_offset`, as its index.
    """
    entries = segment.transaction_index.entries
    return entries[-1].last_offset < end_offset and all(
        _is_witnessed(segments, aborted) for aborted in entries[-_MAX_WITNESSED:]
    )


def _is_witnessed(segments: LogSegments, aborted: AbortedTxn) -> bool:
    """Whether the producer has a transaction from that first offset to that marker.

    What was removed or is damaged contradicts nothing, nor does a transaction that is too long to
    be walked through.
    """
    start_offset = max(aborted.first_offset - _OFFSETS_BEFORE, segments[0].base_offset)
    open_since: int | None = None
    is_ended = False
    count = 0
    for header in _headers(segments, start_offset, aborted.last_offset):
        count += 1
        if count > _MAX_BATCHES:
            return open_since is None or open_since <= aborted.first_offset
        if header.producer_id != aborted.producer_id:
            continue
        if not header.is_control:
            if open_since is None and header.is_transactional:
                open_since = header.base_offset
        elif header.base_offset == aborted.last_offset:
            is_ended = True
        else:
            open_since = None
    touched = segments.between(start_offset, aborted.last_offset + 1)
    if any(segment.damages for segment in touched):
        return True
    if not is_ended:
        return _is_gone(segments, aborted.last_offset)
    if open_since is not None and open_since > aborted.first_offset:
        return _is_gone(segments, aborted.first_offset)  # the cleaner took the first batches
    return open_since in (None, aborted.first_offset)


def _headers(segments: LogSegments, start_offset: int, last_offset: int) -> Iterator[BatchHeader]:
    for segment in segments.between(start_offset, last_offset + 1):
        for _, header in segment.sound_headers(start_offset):
            if header.base_offset > last_offset:
                return
            yield header


def _is_gone(segments: LogSegments, offset: int) -> bool:
    """Whether no batch with `offset` can be read any more."""
    try:
        found = segments[max(segments.floor_index(offset), 0)].translate_offset(offset)
    except DamagedBatchError:
        return True
    return found is None or found[1].base_offset > offset
