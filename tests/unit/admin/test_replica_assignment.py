"""New partitions are spread as Kafka spreads them."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.admin.replica_assignment import (
    SpreadStart,
    alternate_racks,
    assign_replicas,
    shared_assignments,
)
from kbroker.errors import ErrorCode, KafkaError


def test_without_racks_the_example_of_kafkas_documentation_comes_out() -> None:
    brokers = dict.fromkeys(range(5))
    assignment = assign_replicas(brokers, 10, 3, SpreadStart(0, 0))
    assert list(assignment.values()) == [
        [0, 1, 2],
        [1, 2, 3],
        [2, 3, 4],
        [3, 4, 0],
        [4, 0, 1],
        [0, 2, 3],
        [1, 3, 4],
        [2, 4, 0],
        [3, 0, 1],
        [4, 1, 2],
    ]


def test_brokers_are_ordered_with_alternating_racks() -> None:
    racks = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}
    assert alternate_racks(racks) == [0, 3, 1, 5, 4, 2]


@given(st.integers(1, 40), st.integers(0, 5), st.integers(0, 5))
def test_with_racks_every_partition_is_in_every_rack_and_leaders_are_even(
    partitions: int, start: int, shift: int
) -> None:
    brokers = {0: "a", 1: "c", 2: "c", 3: "b", 4: "b", 5: "a"}
    assignment = assign_replicas(brokers, partitions, 3, SpreadStart(start, shift))
    assert all({brokers[b] for b in r} == {"a", "b", "c"} for r in assignment.values())
    leaders = Counter(replicas[0] for replicas in assignment.values())
    assert max(leaders.values()) - min(leaders.get(b, 0) for b in brokers) <= 1


@given(st.integers(1, 7), st.integers(1, 30), st.integers(0, 9), st.data())
def test_replicas_of_a_partition_are_on_different_brokers(
    brokers: int, partitions: int, first: int, data: st.DataObject
) -> None:
    factor = data.draw(st.integers(1, brokers))
    choices: list[list[str | None]] = [[None], ["a"], ["a", "b"]]
    racks = data.draw(st.sampled_from(choices))
    known = {b: racks[b % len(racks)] for b in range(brokers)}
    spread = SpreadStart(data.draw(st.integers(0, brokers - 1)), data.draw(st.integers(0, 5)))
    assignment = assign_replicas(known, partitions, factor, spread, first)
    assert list(assignment) == list(range(first, first + partitions))
    assert all(len(set(replicas)) == factor for replicas in assignment.values())


def test_brokers_without_rack_share_one_where_others_have_racks() -> None:
    brokers = {0: "a", 1: None, 2: "a", 3: None}
    assignment = assign_replicas(brokers, 8, 2, SpreadStart(0, 0))
    leaders = sorted(replicas[0] for replicas in assignment.values())
    assert leaders == [0, 0, 1, 1, 2, 2, 3, 3]
    assert all(
        (brokers[first] is None) != (brokers[second] is None)
        for first, second in assignment.values()
    )


def test_a_topic_too_large_for_any_cluster_is_refused_before_it_is_spread() -> None:
    with pytest.raises(KafkaError) as raised:
        assign_replicas({1: None}, 2**31 - 1, 1, SpreadStart(0, 0))
    assert raised.value.code is ErrorCode.POLICY_VIOLATION


def test_partitions_with_the_same_replicas_share_one_assignment() -> None:
    layout = assign_replicas(dict.fromkeys(range(3)), 1_000, 2, SpreadStart(0, 0))

    made = shared_assignments(dict(reversed(layout.items())))

    assert list(made) == list(layout)
    assert {p: list(each.replicas) for p, each in made.items()} == layout
    assert len({id(each) for each in made.values()}) == 6
