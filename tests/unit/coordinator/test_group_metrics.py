from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.coordinator.ends_elsewhere import EndsElsewhere
from kbroker.coordinator.group.coordinated_group import Committer
from kbroker.coordinator.group.offsets import CommittedOffset
from kbroker.coordinator.group_metrics import GroupMetrics, committed_places
from kbroker.counters import CounterRegistry
from kbroker.model import TopicPartition
from kbroker.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from tests.fakes.brokers.consumer_groups import MemberOf, consumer_groups
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


def test_consumer_groups_are_counted_apart() -> None:
    broker = GroupBroker(consumer_groups=consumer_groups())
    counters = CounterRegistry()
    GroupMetrics(broker.groups.target.store, lambda _place: None).register(counters)
    broker.stable_member("old")
    for member_id in ("m1", "m2"):
        MemberOf(broker, member_id, group_id="new").join()
    MemberOf(broker, "m3", group_id="other").join()

    assert counted(counters, "NumGroups") == {(): 1}
    assert counted(counters, "group-count", 1) == {("classic",): 1, ("consumer",): 2}
    assert counted(counters, "consumer-group-count", 1) == {
        ("Empty",): 0,
        ("Assigning",): 0,
        ("Reconciling",): 1,
        ("Stable",): 1,
    }
    assert counted(counters, "consumer-group-rebalance") == {(): 3}


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


class Leader:
    """The other brokers, which lead all partitions but those that are here, and what they are
    asked.
    """

    def __init__(self) -> None:
        self.asked: list[list[tuple[str, int]]] = []
        self.is_silent = False
        self.open = 0

    def partition_state(self, place: TopicPartition) -> Any:
        return SimpleNamespace(leader=place.partition + 1) if place.topic != "gone" else None

    def broker(self, broker_id: int) -> int | None:
        return broker_id if broker_id < 3 else None

    def client(self, _broker: Any) -> Any:
        self.open += 1
        return self

    def close(self) -> None:
        self.open -= 1

    async def send(self, request: ListOffsetsRequest, **_: Any) -> ListOffsetsResponse:
        if self.is_silent:
            raise TimeoutError
        self.asked.append(
            [(t.name, p.partition_index) for t in request.topics for p in t.partitions]
        )
        found = ListOffsetsResponse.ListOffsetsPartitionResponse
        return ListOffsetsResponse(
            topics=[
                ListOffsetsResponse.ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[
                        found(
                            partition_index=p.partition_index,
                            offset=20,
                            error_code=3 * (topic.name == "u"),
                        )
                        for p in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )


async def test_leaders_say_where_partitions_end_that_are_not_here(
    broker: GroupBroker, ends: dict[TopicPartition, int]
) -> None:
    leader: Any = Leader()
    elsewhere = EndsElsewhere(broker.groups.target.store, ends.get, leader, leader.client)
    nowhere, gone = TopicPartition("t", 7), TopicPartition("gone", 0)
    commit(broker, "g", {T0: 3, T1: 5, U0: 8, nowhere: 1, gone: 1})
    commit(broker, "h", {T0: 3, T1: 5})
    ends[T0] = 10
    while len(list(committed_places(broker.groups.target.store))) < 7:  # noqa: ASYNC110
        await asyncio.sleep(0)

    await elsewhere.ask()

    assert sorted(leader.asked) == [[("t", 1)], [("u", 0)]]
    assert [elsewhere.end_of(p) for p in (T0, T1, U0, nowhere, gone)] == [10, 20, None, None, None]
    leader.is_silent = True
    await elsewhere.ask()
    assert [elsewhere.end_of(place) for place in (T0, T1)] == [10, None]
    assert leader.open == 0


def test_a_group_that_is_gone_has_no_metrics(
    broker: GroupBroker, counters: CounterRegistry
) -> None:
    commit(broker, "g", {T0: 3})
    broker.groups.delete_group("g")

    assert counted(counters, "consumergroup_current_offset", 3) == {}
    assert counted(counters, "NumGroups") == {(): 0}
