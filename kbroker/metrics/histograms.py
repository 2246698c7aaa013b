"""Times counted by their highest bit, as buckets with bounds in seconds, and as quantiles.

Pure.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import Final

from kbroker.counters import Histogram

_FIRST_BITS = 14  # below 16 µs
_LAST_BITS = 36  # below 69 s
_NS_PER_S = 1_000_000_000
_NS_PER_MS = 1_000_000
_BOUNDS: Final = tuple(
    (f"{(1 << bits) / _NS_PER_S!r}", bits) for bits in range(_FIRST_BITS, _LAST_BITS + 1)
)
_QUANTILES: Final = tuple(
    (text, float(text)) for text in ("0.50", "0.75", "0.95", "0.98", "0.99", "0.999")
)  # of Kafka's histograms, as its JMX rules write them


def buckets(histogram: Histogram) -> list[tuple[str, int]]:
    """Return upper bounds in seconds, as text, with how many times were not longer."""
    counts = list(accumulate(histogram.counts))
    return [*((text, counts[bits]) for text, bits in _BOUNDS), ("+Inf", counts[-1])]


def quantiles_ms(histogram: Histogram) -> list[tuple[str, float]]:
    """Return the times that these shares of all did not exceed, in milliseconds, as if times were
    spread evenly between two bounds; none if there are no times. Shares are texts.

    >>> quantiles_ms(Histogram([0, 0, 0, 4], 20))[:2]
    [('0.50', 6e-06), ('0.75', 7e-06)]
    """
    ends = list(accumulate(histogram.counts))
    return [(text, _at(ends, share * ends[-1])) for text, share in _QUANTILES if ends[-1]]


def _at(ends: list[int], wanted: float) -> float:
    """The time of the value with this number; `ends` are numbers of the last ones of all boxes."""
    bits = bisect_left(ends, wanted)
    below = ends[bits - 1] if bits else 0
    low, high = (1 << bits) >> 1, 1 << bits if bits else 0
    return (low + (high - low) * (wanted - below) / (ends[bits] - below)) / _NS_PER_MS
