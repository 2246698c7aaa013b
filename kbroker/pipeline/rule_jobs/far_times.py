"""Reports records whose time a TIMESTAMP cannot hold, such as nanoseconds taken for milliseconds.

Only `exact_kafka_rows` reads such records, with null for their `_timestamp`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kbroker.model import TopicPartition
from kbroker.pipeline.spark_job import functions as f

_First = tuple[int, int]  # offset and time in Unix ms


class FarTimes:
    """The records of one step, by partition: inputs may have a topic in common."""

    def __init__(self) -> None:
        self._found: dict[TopicPartition, dict[str, tuple[_First, int]]] = {}

    def take(self, input_name: str, place: TopicPartition, facts: Sequence[Any]) -> None:
        """Add those among some rows of an input: the values of `far_time_facts`."""
        first, count = facts
        if count:
            of_place = self._found.setdefault(place, {})
            known, more = of_place.get(input_name, (tuple(first), 0))
            of_place[input_name] = (min(known, tuple(first)), more + count)

    def notes(self) -> list[str]:
        """Return a sentence for each partition."""
        return [
            _sentence(place, *next(iter(by_input.values())))
            for place, by_input in sorted(self._found.items())
        ]


def far_time_facts() -> list[Any]:
    """Return aggregates over rows of `InputRows`: the first one's offset and time, and a count."""
    is_far = f.col("_timestamp").isNull()
    place = f.struct("_offset", "_raw.timestamp_ms")
    return [f.min(f.when(is_far, place)), f.count(f.when(is_far, 1))]


def _sentence(place: TopicPartition, first: _First, count: int) -> str:
    offset, time_ms = first
    more = f", and {count - 1:,} more of this batch," if count > 1 else ""
    return (
        f"{place}: the record at offset {offset}{more} has a time that a TIMESTAMP cannot hold, "
        f"{time_ms} ms (are these nanoseconds?): its _timestamp is null"
    )
