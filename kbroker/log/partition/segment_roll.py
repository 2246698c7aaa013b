"""When a segment rolls: whether records belong into a new one, and what starting that does.

Law: a segment is left when it is full, old, or cannot say an offset any more; an empty one is never
too old. Ages are counted in the records' own time, if they have one, so that a follower rolls where
its leader did. (Retention and cuts roll, too.)
"""

from __future__ import annotations

from typing import NamedTuple

from kbroker.log.disk.file_system import StorageError
from kbroker.log.disk.format import MAX_RELATIVE_OFFSET
from kbroker.log.partition.log_parts import LogParts
from kbroker.log.segments.log_segment import LogSegment


class RollParams(NamedTuple):
    """The records to append, and the limits of the segment."""

    max_segment_ms: int
    max_segment_bytes: int
    max_timestamp: int  # of the records to append
    max_offset: int  # of the records to append
    size_bytes: int  # of the records to append
    now_ms: int


def should_roll(segment: LogSegment, params: RollParams) -> bool:
    """Return whether the records belong into a new segment: size, full index, far offset, age."""
    # Runs for every append, so it takes its parameters apart at once and calls nothing.
    max_segment_ms, max_segment_bytes, max_timestamp, max_offset, size_bytes, now_ms = params
    size = segment.records.size_bytes
    if (
        size > max_segment_bytes - size_bytes
        or (segment.offset_index.room <= 0 and segment.offset_index.is_full)
        or (segment.time_index.room <= 0 and segment.time_index.is_full)
        or not 0 <= max_offset - segment.base_offset <= MAX_RELATIVE_OFFSET
    ):
        return True
    if not size:
        return False
    first = segment.known_first_timestamp
    if first is None:
        first = segment.first_batch_timestamp
    undated_ms = now_ms - segment.created_ms
    age_ms = undated_ms if first is None or first < 0 else max_timestamp - first
    return age_ms > max_segment_ms - segment.roll_jitter_ms


def start_segment(parts: LogParts, now_ms: int, base_offset: int) -> LogSegment:
    """Start the next segment there, unless the active one is empty and does. StorageError."""
    active = parts.files.segments.active
    if active.base_offset == base_offset and not active.size_bytes:
        return active
    parts.directory.before_roll()
    parts.producers.begin_segment(base_offset)
    return parts.files.roll(base_offset, now_ms)


def start_segment_if_there_is_room(parts: LogParts, now_ms: int) -> bool:
    """Start one at the log end; False if there is no room. KafkaError(KAFKA_STORAGE_ERROR)."""
    with parts.directory.refusals():
        try:
            start_segment(parts, now_ms, parts.offsets.log_end_offset)
        except StorageError as error:
            if error.is_passing:
                return False
            raise
    return True
