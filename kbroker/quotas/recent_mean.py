"""RecentMean: the mean of pauses, as metrics show it."""

from __future__ import annotations

import math

_HALF_MS = 30_000


class RecentMean:
    """The mean of what was recorded in the last minute, half of which is let go at once."""

    __slots__ = ("_before", "_since_ms", "_sums")

    def __init__(self) -> None:
        self._since_ms = -math.inf
        self._before = (0.0, 0)
        self._sums = (0.0, 0)

    def record(self, value: float, now_ms: float) -> None:
        """Let a value of this moment count."""
        self._advance(now_ms)
        total, count = self._sums
        self._sums = total + value, count + 1

    def mean(self, now_ms: float) -> float:
        """The mean; 0 without values."""
        self._advance(now_ms)
        count = self._before[1] + self._sums[1]
        return (self._before[0] + self._sums[0]) / count if count else 0.0

    def _advance(self, now_ms: float) -> None:
        age_ms = now_ms - self._since_ms
        if age_ms >= _HALF_MS:
            self._before = self._sums if age_ms < 2 * _HALF_MS else (0.0, 0)
            self._sums, self._since_ms = (0.0, 0), now_ms
