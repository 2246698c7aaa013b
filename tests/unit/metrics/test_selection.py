from __future__ import annotations

from collections.abc import Iterator

from kbroker.counters import Kind, Metric, MetricName, Sample, Table
from kbroker.metrics.selection import Selection

SIZE = Metric(MetricName("kafka.log", "Log", "Size"), Kind.GAUGE)
NONE: Iterator[None] = iter(())
PARTITIONS = Table((SIZE,), ("topic", "partition"), lambda: NONE)
TOPICS = Table((SIZE,), ("topic",), lambda: NONE)
BROKER = Table((SIZE,), (), lambda: NONE)


def samples() -> Iterator[Sample | None]:
    yield BROKER, (), (0,)
    for topic in ("orders", "orders-eu", "other"):
        yield None
        yield TOPICS, (topic,), (1,)
    for topic in ("orders", "orders-eu", "other"):
        for partition in "01":
            yield PARTITIONS, (topic, partition), (1,)


def shown(selection: Selection) -> tuple[list[tuple[str, ...]], object]:
    """The tags of what is shown, and how many partitions are left out."""
    *found, (_, _, (left_out,)) = selection.of(samples())
    return [tags for _, tags, _ in found], left_out


def test_all_is_shown_if_nothing_is_asked_for() -> None:
    tags, left_out = shown(Selection())

    assert (len(tags), left_out) == (10, 0)


def test_topics_are_asked_for_by_name() -> None:
    tags, _ = shown(Selection(["orders"]))

    assert tags == [(), ("orders",), ("orders", "0"), ("orders", "1")]


def test_topics_are_asked_for_by_the_beginning_of_their_names() -> None:
    tags, _ = shown(Selection(["ord*", "missing"]))

    assert {tag[0] for tag in tags if tag} == {"orders", "orders-eu"}


def test_partitions_beyond_the_limit_are_left_out_and_counted() -> None:
    tags, left_out = shown(Selection(partitions=2))

    assert [tag for tag in tags if len(tag) == 2] == [("orders", "0"), ("orders", "1")]
    assert left_out == 4


def test_the_limit_is_one_of_what_was_asked_for() -> None:
    tags, left_out = shown(Selection(["other"], partitions=2))

    assert [tag for tag in tags if len(tag) == 2] == [("other", "0"), ("other", "1")]
    assert left_out == 0
