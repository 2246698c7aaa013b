"""Finds the oldest segments of a log that may go: by age, by size, by the log start offset.

Law: segments are deleted from the oldest on without a gap, only below the high watermark, and never
an empty active one. The log start moves past them first, so that no reader is promised an offset
that is gone. A log with a cut to finish waits for that: its segments do not end where it does.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence

from kbroker.config.topic_config import TopicConfig
from kbroker.log.partition.log_offsets import LogOffsets
from kbroker.log.segments.log_segment import LogSegment
from kbroker.log.segments.log_segments import LogSegments

Breaches = Callable[[LogSegment, int], bool]  # (segment, its end offset) -> it may go


def before_start(segments: LogSegments, log_start_offset: int) -> list[LogSegment]:
    """The segments that are before the log start as a whole, the oldest first."""
    count = bisect_right(segments.base_offsets[1:], log_start_offset)
    return list(segments)[:count]


def deletable_segments(
    segments: Sequence[LogSegment], config: TopicConfig, offsets: LogOffsets, now_ms: int
) -> int:
    """How many of the oldest segments may go under any of the topic's limits. Compacted topics
    without the policy `delete` lose segments only to the log start offset.
    """
    limits: list[Breaches] = [lambda _, end_offset: end_offset <= offsets.log_start_offset]
    if config.is_deleted:
        if config.retention_ms >= 0:
            limits.append(lambda segment, _: now_ms - segment.newest_ms > config.retention_ms)
        if config.retention_bytes >= 0:
            limits.append(_above_size(segments, config.retention_bytes))
    return max(_leading(segments, offsets, breaches) for breaches in limits)


def _above_size(segments: Sequence[LogSegment], retention_bytes: int) -> Breaches:
    surplus = sum(segment.size_bytes for segment in segments) - retention_bytes

    def breaches(segment: LogSegment, _: int) -> bool:
        nonlocal surplus
        if surplus < segment.size_bytes or surplus <= 0:
            return False
        surplus -= segment.size_bytes
        return True

    return breaches


def _leading(segments: Sequence[LogSegment], offsets: LogOffsets, breaches: Breaches) -> int:
    count = 0
    last = len(segments) - 1
    for index, segment in enumerate(segments):
        is_last = index == last
        end_offset = offsets.log_end_offset if is_last else segments[index + 1].base_offset
        if end_offset > offsets.high_watermark or (is_last and not segment.size_bytes):
            break
        if not breaches(segment, end_offset):
            break
        count += 1
    return count
