"""Where the replicas of a broker go that is drained."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from kbroker.client.drain_plan import plan_drain
from kbroker.model import TopicPartition


def orders(*replicas: tuple[int, ...]) -> dict[TopicPartition, tuple[int, ...]]:
    return {TopicPartition("orders", number): each for number, each in enumerate(replicas)}


def plain(*brokers: int) -> dict[int, str | None]:
    return dict.fromkeys(brokers)


def test_only_partitions_of_the_broker_move_and_their_other_replicas_stay() -> None:
    plan = plan_drain(1, orders((2, 1), (2, 3)), plain(1, 2, 3))

    assert (plan.targets, plan.stuck) == (orders((2, 3)), [])


def test_replicas_go_where_the_fewest_are() -> None:
    plan = plan_drain(1, orders((1,), (1,), (1,), (2,), (2,), (3,)), plain(1, 2, 3))

    assert plan.targets == orders((3,), (2,), (3,))


def test_racks_that_the_partition_is_not_in_come_first() -> None:
    brokers = {1: "a", 2: "b", 3: "a", 4: "b"}
    held_by_3 = {TopicPartition("held", number): (3,) for number in range(5)}

    plan = plan_drain(1, orders((2, 1)) | held_by_3, brokers)

    assert plan.targets == orders((2, 3))


def test_a_rack_is_used_twice_where_there_is_no_other() -> None:
    plan = plan_drain(1, orders((2, 1)), {1: "a", 2: "b", 4: "b"})

    assert plan.targets == orders((2, 4))


def test_the_preferred_leader_is_the_broker_that_is_preferred_least() -> None:
    plan = plan_drain(1, orders((1, 2), (1, 2), (1, 3), (3, 2)), plain(1, 2, 3))

    assert [target[0] for target in plan.targets.values()] == [2, 3, 2]
    assert [set(target) for target in plan.targets.values()] == [{2, 3}] * 3


def test_a_follower_that_moves_leaves_the_preferred_leader_as_it_is() -> None:
    plan = plan_drain(1, orders((2, 1), (2, 1), (2, 1)), plain(1, 2, 3))

    assert set(plan.targets.values()) == {(2, 3)}


def test_a_partition_that_is_on_all_brokers_is_stuck() -> None:
    plan = plan_drain(1, orders((1, 2, 3), (1, 2)), plain(1, 2, 3))

    assert plan.stuck == [TopicPartition("orders", 0)]
    assert set(plan.targets) == {TopicPartition("orders", 1)}


def test_a_broker_that_is_away_gets_nothing_and_can_be_drained() -> None:
    plan = plan_drain(1, orders((1, 2), (4, 2)), plain(2, 3))

    assert {frozenset(each) for each in plan.targets.values()} == {frozenset({2, 3})}


@pytest.mark.parametrize("seed", range(100))
def test_a_plan_keeps_the_number_of_replicas_and_names_no_broker_twice(seed: int) -> None:
    random = Random(seed)
    factor = random.randint(1, 4)
    racks = [random.choice([None, "a", "b"]) for _ in range(5)]
    count = random.randint(0, 40)
    replicas = orders(*(tuple(random.sample(range(5), factor)) for _ in range(count)))

    plan = plan_drain(0, replicas, dict(enumerate(racks)))

    assert plan.stuck == []
    assert set(plan.targets) == {place for place, each in replicas.items() if 0 in each}
    for place, target in plan.targets.items():
        assert len(set(target)) == len(target) == len(replicas[place])
        assert 0 not in target
        assert len(set(target) - set(replicas[place])) == 1


@pytest.mark.parametrize("count", [12, 13])
def test_a_drained_broker_is_spread_evenly(count: int) -> None:
    plan = plan_drain(0, orders(*[(0,)] * count), plain(0, 1, 2, 3))

    held = Counter(target[0] for target in plan.targets.values())
    assert max(held.values()) - min(held.values()) <= 1
    assert sum(held.values()) == count
