"""Assignors: balance, what stays where it was, and the order of members."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.coordinator.consumer_group.assignors.assignor import (
    Assignment,
    AssignorError,
    GroupSpec,
    MemberSpec,
    SubscriptionType,
    Topics,
)
from kbroker.coordinator.consumer_group.assignors.range import RangeAssignor
from kbroker.coordinator.consumer_group.assignors.uniform import UniformAssignor
from tests.fakes.generated_groups import Asked, history, play
from tests.integration.assignments import ASSIGNORS, RECORDED_SEEDS, ours, recorded

A, B, C = (UUID(int=number) for number in (1, 2, 3))
EQUAL, DIFFERENT = SubscriptionType.HOMOGENEOUS, SubscriptionType.HETEROGENEOUS
seeds = st.integers(0, 2**32).map(history)


def member(*topic_ids: UUID, instance: str | None = None, **had: set[int]) -> MemberSpec:
    """`had`: by topics in lower case."""
    names = {"a": A, "b": B, "c": C}
    assigned = {names[name]: frozenset(partitions) for name, partitions in had.items()}
    return MemberSpec(instance, None, frozenset(topic_ids), assigned)


def sizes(targets: dict[str, Assignment]) -> list[int]:
    return sorted(sum(map(len, target.values())) for target in targets.values())


def held(asked: Asked) -> list[tuple[UUID, int]]:
    return [
        (topic_id, partition)
        for target in asked.targets.values()
        for topic_id, partitions in target.items()
        for partition in partitions
    ]


def test_targets_are_those_of_apache_kafka() -> None:
    for seed, theirs in zip(RECORDED_SEEDS, recorded(), strict=True):
        for mine, other in zip(ours(history(seed)), theirs, strict=True):
            assert list(mine.items()) == list(other.items()), f"group {seed}"


@given(seeds)
def test_each_partition_that_somebody_reads_has_one_owner_who_reads_it(steps: list) -> None:
    for asked in play(steps, ASSIGNORS):
        read = {one for spec in asked.spec.members.values() for one in spec.topic_ids}
        assert sorted(held(asked)) == sorted(
            (topic_id, partition)
            for topic_id in read
            for partition in range(asked.topics.partition_count(topic_id))
        )
        for member_id, spec in asked.spec.members.items():
            assert asked.targets[member_id].keys() <= spec.topic_ids


@given(seeds)
def test_members_who_read_the_same_are_one_partition_apart_at_most(steps: list) -> None:
    for asked in play(steps, ASSIGNORS):
        if asked.spec.subscription_type is EQUAL:
            if asked.step.assignor == "uniform":
                counts = sizes(asked.targets)
                assert counts[-1] - counts[0] <= 1
            for topic_id in asked.step.topics if asked.step.assignor == "range" else ():
                counts = sorted(len(its.get(topic_id, ())) for its in asked.targets.values())
                assert counts[-1] - counts[0] <= 1


@given(seeds)
def test_what_is_assigned_stays_when_nothing_has_changed(steps: list) -> None:
    for asked in play(steps, ASSIGNORS):
        members = {
            one: spec._replace(assigned=asked.targets[one])
            for one, spec in asked.spec.members.items()
        }
        again = asked.spec._replace(members=members)
        if asked.step.assignor == "range" or asked.spec.subscription_type is EQUAL:
            assert ASSIGNORS[asked.step.assignor].assign(again, asked.topics) == asked.targets


def test_a_member_that_comes_takes_its_share_and_no_more_moves() -> None:
    members = {"m1": member(A, a={0, 1, 2, 3, 4, 5}), "m2": member(A)}
    targets = UniformAssignor().assign(GroupSpec(members, EQUAL), Topics({A: 6}))

    assert targets == {"m1": {A: frozenset({0, 1, 2})}, "m2": {A: frozenset({3, 4, 5})}}


def test_who_has_one_more_keeps_it_wherever_it_stands() -> None:
    members = {"m1": member(A, a={0}), "m2": member(A, a={1, 2})}
    targets = UniformAssignor().assign(GroupSpec(members, EQUAL), Topics({A: 3}))

    assert targets == {one: spec.assigned for one, spec in members.items()}


def test_partitions_move_from_who_reads_two_topics_to_who_reads_one() -> None:
    members = {"m1": member(A, B, a={0, 1, 2}, b={0}), "m2": member(A)}
    targets = UniformAssignor().assign(GroupSpec(members, DIFFERENT), Topics({A: 3, B: 1}))

    assert sizes(targets) == [2, 2]
    assert targets["m1"][B] == {0}


@pytest.mark.parametrize("kind", [EQUAL, DIFFERENT])
def test_what_damaged_records_gave_twice_or_beyond_the_topic_has_one_owner(
    kind: SubscriptionType,
) -> None:
    members = {"m1": member(A, a={0, 1, 7}), "m2": member(A, a={1, 2, -1})}
    targets = UniformAssignor().assign(GroupSpec(members, kind), Topics({A: 4}))

    assert sorted(p for target in targets.values() for p in target[A]) == [0, 1, 2, 3]
    assert targets["m1"][A] == {0, 1}


def test_ranges_of_topics_with_as_many_partitions_go_together() -> None:
    members = {"m2": member(A, B, C), "m1": member(A, B, C)}
    targets = RangeAssignor().assign(GroupSpec(members, EQUAL), Topics({A: 3, B: 3, C: 2}))

    assert targets == {
        "m1": {A: frozenset({0, 1}), B: frozenset({0, 1}), C: frozenset({0})},
        "m2": {A: frozenset({2}), B: frozenset({2}), C: frozenset({1})},
    }


def test_ranges_go_to_static_members_first_by_what_utf_16_makes_of_their_ids() -> None:
    ids = {"z": "\N{GRINNING FACE}", "y": "\N{HALFWIDTH KATAKANA LETTER A}", "a": None}
    members = {one: member(A, instance=instance) for one, instance in ids.items()}
    targets = RangeAssignor().assign(GroupSpec(members, EQUAL), Topics({A: 2}))

    assert targets == {"z": {A: frozenset({0})}, "y": {A: frozenset({1})}, "a": {}}


@pytest.mark.parametrize("kind", [EQUAL, DIFFERENT])
def test_a_topic_that_is_not_there_is_an_error_with_a_sentence(kind: SubscriptionType) -> None:
    spec = GroupSpec({"m1": member(A)}, kind)

    with pytest.raises(AssignorError, match="topic AAAAAAAAAAAAAAAAAAAAAQ which doesn't exist"):
        UniformAssignor().assign(spec, Topics({}))
    with pytest.raises(AssignorError, match="Member is subscribed to a non-existent topic"):
        RangeAssignor().assign(spec, Topics({}))


@pytest.mark.parametrize("assignor", ASSIGNORS.values(), ids=ASSIGNORS)
def test_nobody_and_members_who_read_nothing_get_nothing(assignor: UniformAssignor) -> None:
    assert assignor.assign(GroupSpec({}, EQUAL), Topics({A: 1})) == {}
    members = {"m1": member(a={0})}
    assert assignor.assign(GroupSpec(members, EQUAL), Topics({A: 1})) == {"m1": {}}


def test_racks_are_known_by_partition() -> None:
    topics = Topics({A: 2}, {A: (frozenset({"r1"}), frozenset({"r1", "r2"}))})

    assert topics.racks(A, 1) == {"r1", "r2"}
    assert topics.racks(A, 2) == topics.racks(B, 0) == frozenset()
