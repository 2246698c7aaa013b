"""The places of metrics on a page: under which names and labels they are shown.

Pure. A dialect is a function from a metric to its places; those of each dialect are a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import NamedTuple

from kbroker.counters import Kind, Metric


class Part(Enum):
    """The part of a metric that a place shows."""

    VALUE = "value"
    COUNT = "count"  # of a histogram: how many values
    QUANTILES = "quantiles"
    BUCKETS = "buckets"  # with sum and count


class Place(NamedTuple):
    """A family of a page, and the labels that a metric has there: names in the order of its tags,
    "" for a tag that is left out; then labels that are the same for all.
    """

    family: str  # without _total
    kind: Kind
    labels: tuple[str, ...]
    part: Part = Part.VALUE
    fixed: tuple[tuple[str, str], ...] = ()


Dialect = Callable[[Metric, tuple[str, ...]], Iterable[Place]]
"""(metric, names of its tags): its places, none if it is not shown."""
