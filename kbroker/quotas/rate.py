"""Rates over the last windows, and buckets of tokens, as Kafka has them for quotas.

A burst is paid for afterwards: its client pauses until the rate over all windows is within the
limit again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

LONGEST_THROTTLE_MS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows over which a rate is measured: how many, with the current one, and how long."""

    count: int = 11
    length_ms: int = 1_000


class SampledRate:
    """The sum of what was recorded in the last windows, and the time that it stands for.

    A sample begins with the first value after the last sample's window, and expires when its last
    value is as old as all windows together. The time goes from the oldest sample until now, and is
    never shorter than all windows but the current one.
    """

    __slots__ = (
        "_at",
        "_expire_ms",
        "_full_windows",
        "_lasts",
        "_length_ms",
        "_look_at_ms",
        "_oldest_ms",
        "_starts",
        "_values",
        "total",
    )

    def __init__(self, windows: Windows) -> None:
        self._length_ms = windows.length_ms
        self._full_windows = windows.count - 1
        self._expire_ms = windows.count * windows.length_ms
        # A ring, with one sample more than windows: one of them reaches into the oldest window.
        self._starts: list[float] = []
        self._lasts: list[float] = []
        self._values: list[float] = []
        self._at = 0
        self._oldest_ms = 0.0
        self._look_at_ms = math.inf  # no sample expires before
        self.total: float = 0
        """The sum of all samples."""

    def record(self, value: float, now_ms: float) -> None:
        """Count a value; a negative one takes back what was counted."""
        if not self._starts:
            self._begin(now_ms)
        at = self._at
        if now_ms - self._starts[at] >= self._length_ms:
            at = self._advance(now_ms)
        self._values[at] += value
        self._lasts[at] = now_ms
        self.total += value

    def window_ms(self, now_ms: float) -> float:
        """The time that `total` stands for, once what has expired is taken out of it."""
        if now_ms >= self._look_at_ms:
            self._purge(now_ms)
        elif not self._starts:
            self._begin(now_ms)
        length_ms = self._length_ms
        elapsed_ms = now_ms - self._oldest_ms
        missing = self._full_windows - elapsed_ms // length_ms
        if missing > 0:
            elapsed_ms += missing * length_ms
        return elapsed_ms if elapsed_ms > 1 else 1

    def per_s(self, now_ms: float) -> float:
        """The rate at this moment."""
        window_ms = self.window_ms(now_ms)
        return self.total * 1000 / window_ms

    def _begin(self, now_ms: float) -> None:
        self._starts.append(now_ms)
        self._lasts.append(now_ms)
        self._values.append(0)
        self._looked()

    def _advance(self, now_ms: float) -> int:
        at = self._at = (self._at + 1) % (self._full_windows + 2)
        if at == len(self._starts):
            self._begin(now_ms)
        else:
            self._reset(at, now_ms)
            self._looked()
        return at

    def _reset(self, at: int, now_ms: float) -> None:
        self._starts[at] = self._lasts[at] = now_ms
        self._values[at] = 0

    def _purge(self, now_ms: float) -> None:
        for at, last_ms in enumerate(self._lasts):
            if now_ms - last_ms >= self._expire_ms:
                self._reset(at, now_ms)
        self._looked()

    def _looked(self) -> None:
        self.total = sum(self._values)  # again, or fractions would leave a rest
        self._oldest_ms = min(self._starts)
        self._look_at_ms = min(self._lasts) + self._expire_ms


def rounded_ms(delay_ms: float) -> int:
    """The delay in whole milliseconds, halves upwards; as long as an answer can say at most."""
    if delay_ms >= LONGEST_THROTTLE_MS:
        return LONGEST_THROTTLE_MS
    return math.floor(delay_ms + 0.5)


class TokenBucket:
    """Tokens that come at a rate, up to what all windows bring. What takes more than there are is
    let through, and the next has to wait until the debt is paid.
    """

    __slots__ = ("_at_ms", "_limit", "_tokens", "_windows")

    def __init__(self, windows: Windows, limit: float, now_ms: float) -> None:
        """`limit` is the number of tokens that come in a second; the bucket is full."""
        self._windows = windows
        self._limit = limit
        self._tokens = self._burst()
        self._at_ms = now_ms

    def set_limit(self, limit: float) -> None:
        """Let tokens come at another rate from now on; those that are there stay."""
        self._limit = limit

    def tokens(self, now_ms: float) -> float:
        """The tokens that are there; negative if more were taken."""
        came = 0.0 if math.isinf(self._limit) else (now_ms - self._at_ms) / 1000 * self._limit
        self._tokens = min(self._burst(), self._tokens + came)
        self._at_ms = now_ms
        return self._tokens

    def take(self, tokens: float, now_ms: float) -> None:
        """Take tokens, also those that are not there."""
        self._tokens = min(self._burst(), self.tokens(now_ms) - tokens)

    def throttle_ms(self, now_ms: float) -> int:
        """How long it takes until the debt is paid; 0 if there is none."""
        tokens = self.tokens(now_ms)
        if tokens >= 0:
            return 0
        if self._limit <= 0:
            return self._windows.count * self._windows.length_ms
        return rounded_ms(-tokens / self._limit * 1000)

    def _burst(self) -> float:
        return self._windows.count * self._windows.length_ms / 1000 * self._limit
