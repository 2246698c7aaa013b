"""Which of a log's oldest segments may go: by age, by size, by the log start offset. Values in, a
count out.

Law: segments go from the oldest on without a gap, only below the high watermark, and never an empty
active one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kbroker.config.topic_config import TopicConfig
from kbroker.log.log_segment import LogSegment

Breaches = Callable[[LogSegment, int], bool]  # (segment, its end offset) -> it may go


class RetentionBounds:
    """Where a log starts and ends for its readers; offsets."""

    __slots__ = ("high_watermark", "log_end_offset", "log_start_offset")

    def __init__(self, log_start_offset: int, high_watermark: int, log_end_offset: int) -> None:
        self.log_start_offset = log_start_offset
        self.high_watermark = high_watermark
        self.log_end_offset = log_end_offset


def deletable_segments(
    segments: Sequence[LogSegment],
    config: TopicConfig,
    bounds: RetentionBounds,
    age_ms: Callable[[LogSegment], int],
) -> int:
    """How many of the oldest segments may go under any of the topic's limits.

    Compacted topics without the policy `delete` lose segments only to the log start offset.
    """
    limits: list[Breaches] = [lambda _, end_offset: end_offset <= bounds.log_start_offset]
    if config.is_deleted:
        if config.retention_ms >= 0:
            limits.append(lambda segment, _: age_ms(segment) > config.retention_ms)
        if config.retention_bytes >= 0:
            limits.append(_above_size(segments, config.retention_bytes))
    return max(_leading(segments, bounds, breaches) for breaches in limits)


def _above_size(segments: Sequence[LogSegment], retention_bytes: int) -> Breaches:
    surplus = sum(segment.size_bytes for segment in segments) - retention_bytes

    def breaches(segment: LogSegment, _: int) -> bool:
        nonlocal surplus
        if surplus < segment.size_bytes or surplus <= 0:
            return False
        surplus -= segment.size_bytes
        return True

    return breaches


def _leading(segments: Sequence[LogSegment], bounds: RetentionBounds, breaches: Breaches) -> int:
    count = 0
    last = len(segments) - 1
    for index, segment in enumerate(segments):
        is_last = index == last
        end_offset = bounds.log_end_offset if is_last else segments[index + 1].base_offset
        if end_offset > bounds.high_watermark or (is_last and not segment.size_bytes):
            break
        if not breaches(segment, end_offset):
            break
        count += 1
    return count
