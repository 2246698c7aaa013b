from __future__ import annotations

import pytest

from kbroker.counters import Counter, CounterRegistry, Kind, Metric, MetricName, Table

NAME = MetricName("kafka.network", "Acceptor", "Accepted", (("listener", "A"), ("shard", "1")))


def test_a_name_reads_as_in_jmx() -> None:
    assert str(NAME) == "kafka.network:type=Acceptor,name=Accepted,listener=A,shard=1"


def test_a_counter_and_a_gauge_say_what_they_stand_at_now() -> None:
    registry, counter, waiting = CounterRegistry(), Counter(), [1, 2]
    registry.add(NAME, counter)
    registry.add(NAME._replace(tags=()), lambda: len(waiting))

    counter.value += 3
    waiting.append(3)

    assert [registry.value(name) for name in registry] == [3, 3]
    assert registry.source(NAME) is counter


def test_a_name_is_registered_once() -> None:
    registry = CounterRegistry()
    registry.add(NAME, Counter())
    with pytest.raises(ValueError, match="name=Accepted"):
        registry.add(NAME, Counter())


def test_samples_are_all_values_of_now_with_the_tags_that_tell_them_apart() -> None:
    registry, accepted = CounterRegistry(), Counter()
    registry.add(NAME, accepted)
    registry.add(NAME._replace(name="Open", tags=()), lambda: 7)
    sizes = {"t": (1, 2)}
    size, records = (Metric(MetricName("kafka.log", "Log", name), Kind.GAUGE) for name in "ab")
    registry.add_table(
        Table(
            (size, records),
            ("topic",),
            lambda: (((topic,), values) for topic, values in sizes.items()),
        )
    )
    samples = registry.samples()
    accepted.value += 1

    (table, tags, values), *others = samples
    assert (table.metrics[0].name, table.metrics[0].kind) == (
        NAME._replace(tags=()),
        Kind.COUNTER,
    )
    assert (table.tags, tags, values) == (("listener", "shard"), ("A", "1"), (1,))
    assert [(table.metrics[0].kind, tags, values) for table, tags, values in others] == [
        (Kind.GAUGE, (), (7,)),
        (Kind.GAUGE, ("t",), (1, 2)),
    ]
