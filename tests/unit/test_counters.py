from __future__ import annotations

import pytest

from kbroker.counters import Counter, CounterRegistry, MetricName

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
