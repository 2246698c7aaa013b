from __future__ import annotations

import pytest

from kbroker.coordinator.group.offsets import CommittedOffset
from kbroker.coordinator.group_metrics import GroupMetrics
from kbroker.coordinator.offsets.offset_commits import Committer
from kbroker.counters import CounterRegistry
from kbroker.model import TopicPartition
from tests.fakes.brokers.group_broker import GroupBroker
from tests.fakes.counted import counted

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


@pytest.fixture
def ends() -> dict[TopicPartition, int]:
    """Where the partitions end that are known here."""
    return {}


@pytest.fixture
def broker() -> GroupBroker:
    return GroupBroker()


@pytest.fixture
def counters(broker: GroupBroker, ends: dict[TopicPartition, int]) -> CounterRegistry:
    counters = CounterRegistry()
    GroupMetrics(broker.groups.target.store, ends.get).register(counters)
    return counters


def commit(broker: GroupBroker, group_id: str, offsets: dict[TopicPartition, int]) -> None:
    values = [
        (place, CommittedOffset(offset=offset, commit_timestamp_ms=1))
        for place, offset in offsets.items()
    ]
    broker.groups.offsets.commit(Committer(group_id), values)


def test_groups_are_counted_by_state(broker: GroupBroker, counters: CounterRegistry) -> None:
    broker.stable_member("g")
    commit(broker, "h", {T0: 1, T1: 2})

    assert counted(counters, "NumGroups") == {(): 2}
    assert counted(counters, "NumGroupsStable") == {(): 1}
    assert counted(counters, "NumGroupsEmpty") == {(): 1}
    assert counted(counters, "NumOffsets") == {(): 2}
    assert counted(counters, "consumergroup_members", 1) == {("g",): 1, ("h",): 0}


def test_the_lag_of_a_group_is_known_for_partitions_that_are_here(
    broker: GroupBroker, counters: CounterRegistry, ends: dict[TopicPartition, int]
) -> None:
    commit(broker, "g", {T0: 3, T1: 5, U0: 8})
    ends.update({T0: 10, U0: 7})  # U0 was cut, or its follower is a moment behind

    assert counted(counters, "consumergroup_current_offset", 3) == {
        ("g", "t", "0"): 3,
        ("g", "t", "1"): 5,
        ("g", "u", "0"): 8,
    }
    assert counted(counters, "consumergroup_lag", 3) == {("g", "t", "0"): 7, ("g", "u", "0"): 0}
    assert counted(counters, "consumergroup_current_offset_sum", 2) == {
        ("g", "t"): 8,
        ("g", "u"): 8,
    }
    assert counted(counters, "consumergroup_lag_sum", 2) == {("g", "t"): 7, ("g", "u"): 0}


def test_a_group_that_is_gone_has_no_metrics(
    broker: GroupBroker, counters: CounterRegistry
) -> None:
    commit(broker, "g", {T0: 3})
    broker.groups.delete_group("g")

    assert counted(counters, "consumergroup_current_offset", 3) == {}
    assert counted(counters, "NumGroups") == {(): 0}
