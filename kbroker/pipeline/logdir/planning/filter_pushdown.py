"""Filters that Spark offers to a source (pyspark 4.1 and later), as far as they spare reading.

Law: a filter is only a hint here, and every one is given back to Spark, which applies it again: so
what is read may be more than what is wanted, never less. Filters are told apart by the names of
their classes, which older versions of pyspark do not have.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from kbroker.model import TopicPartition

_LOWER, _UPPER = ("GreaterThan", "GreaterThanOrEqual"), ("LessThan", "LessThanOrEqual")


@dataclass(frozen=True, slots=True)
class Hints:
    """The bounds that all wanted rows keep; None: nothing is known. Bounds inclusive."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    first_offset: int | None = None
    last_offset: int | None = None
    min_timestamp_ms: int | None = None
    max_timestamp_ms: int | None = None

    def may_hold(self, topic_partition: TopicPartition) -> bool:
        """False for a partition that holds no wanted row."""
        topic, partition = topic_partition
        return (self.topics is None or topic in self.topics) and (
            self.partitions is None or partition in self.partitions
        )


def hints_of(filters: Iterable[Any]) -> Hints:
    """Return the bounds of the rows that pass all these filters."""
    hints = Hints()
    for each in filters:
        path: tuple[str, ...] = getattr(each, "attribute", ())
        value = getattr(each, "value", None)
        if len(path) == 1 and value is not None:
            hints = _narrowed(hints, path[0].lower(), type(each).__name__, value)
    return hints


def _narrowed(hints: Hints, column: str, kind: str, value: Any) -> Hints:
    if column in ("topic", "partition"):
        values = _values(kind, value)
        if values is None:
            return hints
        name = f"{column}s"
        known = getattr(hints, name)
        narrowed: dict[str, Any] = {name: values if known is None else known & values}
        return replace(hints, **narrowed)
    if column == "offset":
        return _bounded(hints, ("first_offset", "last_offset"), kind, value)
    if column == "timestamp":
        milliseconds = _unix_ms(kind, value)
        names = ("min_timestamp_ms", "max_timestamp_ms")
        return hints if milliseconds is None else _bounded(hints, names, kind, milliseconds)
    return hints


def _values(kind: str, value: Any) -> frozenset[Any] | None:
    if kind in ("EqualTo", "EqualNullSafe"):
        return frozenset({value})
    return frozenset(value) if kind == "In" else None


def _bounded(hints: Hints, names: tuple[str, str], kind: str, value: Any) -> Hints:
    """Set both bounds, inclusive: if Spark excludes one, a row more is read than wanted."""
    lower, upper = names
    if kind == "In":
        least, most = min(value, default=None), max(value, default=None)
    elif kind in ("EqualTo", "EqualNullSafe"):
        least = most = value
    else:
        least = value if kind in _LOWER else None
        most = value if kind in _UPPER else None
    known_least, known_most = getattr(hints, lower), getattr(hints, upper)
    if least is not None:
        hints = replace(hints, **{lower: least if known_least is None else max(known_least, least)})
    if most is not None:
        hints = replace(hints, **{upper: most if known_most is None else min(known_most, most)})
    return hints


def _unix_ms(kind: str, value: Any) -> Any:
    """Unix ms of a time, or of each; None if it is not a time with a zone."""
    if kind == "In":
        found = [_unix_ms("EqualTo", each) for each in value]
        return None if None in found else found
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    since = value - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000
