"""Computes how far the time of an input has come, and which windows are over. Pure; in
microseconds.

The watermark is the time of the newest event, less the delay that the rules allow. A partition that
is behind holds it back: one with records still to be read, or one that had some a moment ago.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PartitionTime:
    """The time of a partition's newest event, and when that was read."""

    newest_us: int
    read_us: int


def watermark(
    before_us: int | None,
    partitions: Mapping[str, PartitionTime],
    behind: Collection[str],
    now_us: int,
    *,
    delay_us: int,
    idle_us: int,
) -> int | None:
    """Return the watermark after a batch; partitions in `behind` have records to be read."""
    if any(name not in partitions for name in behind):
        return before_us
    holding = [
        each.newest_us
        for name, each in partitions.items()
        if name in behind or now_us - each.read_us < idle_us
    ]
    newest = min(holding) if holding else max((p.newest_us for p in partitions.values()), default=0)
    if not partitions:
        return before_us
    found = newest - delay_us
    return found if before_us is None else max(found, before_us)


@dataclass(frozen=True, slots=True)
class Closing:
    """Windows whose end is after `after_us` (None: all) and at most `until_us`."""

    after_us: int | None
    until_us: int
    window_us: int
    slide_us: int

    @property
    def is_empty(self) -> bool:
        """Return whether no window can end there."""
        return self.after_us is not None and self._number(self.until_us) <= self._number(
            self.after_us
        )

    @property
    def first_row_us(self) -> int | None:
        """Return the time before which no row is in one of the windows; None: any may be."""
        return None if self.after_us is None else self.after_us - self.window_us

    def _number(self, end_us: int) -> int:
        return (end_us - self.window_us) // self.slide_us


def last_end_us(newest_us: int, window_us: int, slide_us: int) -> int:
    """Return the end of the last window that an event of this time is in."""
    return newest_us // slide_us * slide_us + window_us
