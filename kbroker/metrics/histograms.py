"""Times counted by their highest bit, as buckets with bounds in seconds, and as quantiles.

Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import accumulate

from kbroker.counters import Histogram

QUANTILES = ("0.50", "0.75", "0.95", "0.98", "0.99", "0.999")
"""The quantiles of Kafka's histograms, as its JMX rules write them."""

_FIRST_BITS = 14  # below 16 µs
_LAST_BITS = 36  # below 69 s
_NS_PER_S = 1_000_000_000
_NS_PER_MS = 1_000_000


def buckets(histogram: Histogram) -> Iterator[tuple[str, int]]:
    """Yield upper bounds in seconds, as text, with how many times were not longer."""
    counts = list(accumulate(histogram.counts))
    for bits in range(_FIRST_BITS, _LAST_BITS + 1):
        yield f"{(1 << bits) / _NS_PER_S!r}", counts[bits]
    yield "+Inf", counts[-1]


def quantile_ms(histogram: Histogram, quantile: float) -> float:
    """Return the time that this share of all did not exceed, in milliseconds, as if times were
    spread evenly between two bounds; NaN if there are none.

    >>> quantile_ms(Histogram([0, 0, 0, 4], 20), 0.5) * 1_000_000
    6.0
    """
    wanted = quantile * sum(histogram.counts)
    if not wanted:
        return math.nan
    below = 0
    for bits, count in enumerate(histogram.counts):
        if below + count >= wanted:
            low, high = (1 << bits) >> 1, 1 << bits if bits else 0
            return (low + (high - low) * (wanted - below) / count) / _NS_PER_MS
        below += count
    return math.nan
