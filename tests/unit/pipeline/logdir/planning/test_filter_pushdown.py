from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kbroker.model import TopicPartition
from kbroker.pipeline.logdir.planning.filter_pushdown import Hints, hints_of


@dataclass
class Compared:
    """As the filters of pyspark 4.1 are made."""

    attribute: tuple[str, ...]
    value: Any


class EqualTo(Compared): ...


class In(Compared): ...


class GreaterThan(Compared): ...


class LessThanOrEqual(Compared): ...


class LessThan(Compared): ...


class StringStartsWith(Compared): ...


@dataclass
class Not:
    child: Any


def test_filters_together_leave_what_all_of_them_leave() -> None:
    found = hints_of([
        In(("topic",), ("a", "b")),
        EqualTo(("Topic",), "b"),
        EqualTo(("partition",), 3),
        GreaterThan(("offset",), 10),
        LessThanOrEqual(("offset",), 20),
        LessThan(("offset",), 15),
    ])  # fmt: skip

    assert found == Hints(
        topics=frozenset({"b"}), partitions=frozenset({3}), first_offset=10, last_offset=15
    )


def test_a_list_of_offsets_is_bounded_by_its_ends() -> None:
    found = hints_of([In(("offset",), (7, 3, 5))])

    assert (found.first_offset, found.last_offset) == (3, 7)


def test_times_are_rounded_so_that_nothing_is_lost() -> None:
    time = datetime(2026, 11, 21, 0, 0, 0, 123_999, tzinfo=UTC)
    ms = 1_795_219_200_123

    assert hints_of([GreaterThan(("timestamp",), time)]).min_timestamp_ms == ms
    assert hints_of([LessThan(("timestamp",), time)]).max_timestamp_ms == ms


def test_what_is_not_understood_leaves_everything() -> None:
    filters = [
        Not(EqualTo(("topic",), "a")),
        StringStartsWith(("topic",), "a"),
        EqualTo(("headers", "key"), "a"),
        EqualTo(("value",), b"a"),
        GreaterThan(("partition",), 3),
        GreaterThan(("timestamp",), datetime(2026, 11, 21)),  # in which zone?
        EqualTo(("topic",), None),
    ]

    assert hints_of(filters) == Hints()


def test_hints_tell_which_partitions_may_hold_rows() -> None:
    hints = Hints(topics=frozenset({"a"}), partitions=frozenset({1}))

    assert hints.may_hold(TopicPartition("a", 1))
    assert not hints.may_hold(TopicPartition("a", 2))
    assert not hints.may_hold(TopicPartition("b", 1))
