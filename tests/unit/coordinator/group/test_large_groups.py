"""Groups of very many members, and very many groups: what one member does costs no more for all the
others, and what concerns all of them is done in parts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from kbroker.coordinator.group.coordinated_group import Committer
from kbroker.coordinator.group.group_state import GroupState
from kbroker.coordinator.group.offsets import CommittedOffset
from kbroker.coordinator.transaction.producer import Producer
from kbroker.errors import ErrorCode
from kbroker.model import TopicPartition
from kbroker.record.record_batch import ControlRecord
from tests.fakes.brokers.group_broker import GroupBroker
from tests.fakes.clusters.replication import Replication
from tests.fakes.running.counted_steps import growth, steps_of
from tests.fakes.running.virtual_time import VirtualTime

NONE = ErrorCode.NONE
DAY_MS = 24 * 3_600_000
MEMBERS = 150
LINEAR = 2.2  # times the steps for twice as much
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture(autouse=True)
def replication() -> None:
    """The replicas answer at once."""


class PassingTime(VirtualTime):
    """Each look at the clock finds a slice of sliced work used up."""

    def monotonic_ms(self) -> float:
        self._elapsed_ms += 5.0
        return self._elapsed_ms


def new_broker(**settings: object) -> GroupBroker:
    return GroupBroker(mode=Replication.IMMEDIATE, **settings)


# ---- members


def joins(count: int, *, is_static: bool) -> tuple[GroupBroker, list[Any]]:
    broker = new_broker(group_initial_rebalance_delay_ms=3000)
    return broker, [
        broker.join(version=3, **({"group_instance_id": f"i{each}"} if is_static else {}))
        for each in range(count)
    ]


@pytest.mark.parametrize("is_static", [False, True])
async def test_twice_as_many_members_that_join_are_twice_the_work(is_static: bool) -> None:
    assert growth(lambda count: lambda: joins(count, is_static=is_static), MEMBERS) < LINEAR


async def test_twice_as_many_members_that_come_back_are_twice_the_work() -> None:
    def work(count: int) -> Callable[[], object]:
        broker, _ = joins(count, is_static=False)
        broker.time.advance(6_000)
        group = broker.groups.store.find("g").group
        broker.sync(group.leader_id, group.generation_id)
        assert group.state is GroupState.STABLE
        return lambda: [broker.join("g", each, version=3) for each in list(group.members)[:-1]]

    assert growth(work, MEMBERS) < LINEAR


async def test_members_of_a_large_group_are_answered_a_few_in_each_turn() -> None:
    broker, waiting = joins(200, is_static=False)
    broker.time.advance(6_000)
    counts = [sum(each.done() for each in waiting)]
    while counts[-1] < len(waiting):
        await asyncio.sleep(0)
        counts.append(sum(each.done() for each in waiting))

    assert max(after - before for before, after in pairwise([0, *counts])) == 64


async def test_members_of_a_large_group_are_answered_where_the_coordinator_stops() -> None:
    broker, waiting = joins(200, is_static=False)

    broker.groups.shutdown()

    codes = {(await each).error_code for each in waiting}
    assert codes == {int(ErrorCode.NOT_COORDINATOR)}


# ---- groups


def commit(broker: GroupBroker, group_id: str, offset: int, *partitions: TopicPartition) -> None:
    now_ms = broker.time.now_ms()
    rows = [(p, CommittedOffset(offset=offset, commit_timestamp_ms=now_ms)) for p in partitions]
    assert set(broker.groups.offsets.commit(Committer(group_id), rows)) <= {NONE}


def fetched(broker: GroupBroker, group_id: str) -> dict[TopicPartition, int]:
    found = broker.groups.offsets.fetch(group_id, None, False)
    return {partition: value.offset for partition, value in found}


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_the_news_of_a_deleted_topic_looks_at_no_offset() -> None:
    def steps(offsets_each: int) -> int:
        broker = new_broker(time=PassingTime())
        partitions = [TopicPartition("t", each) for each in range(offsets_each)]
        for number in range(20):
            commit(broker, f"g{number}", 1, *partitions)
        gone = [TopicPartition("gone", 0)]
        return steps_of(lambda: broker.groups.on_partitions_deleted(gone))

    assert steps(10) == steps(100)


async def test_a_transaction_with_a_deleted_topic_holds_up_no_stable_read() -> None:
    broker = new_broker(time=PassingTime())
    offsets = broker.groups.offsets
    for group_id in ("a", "b"):
        value = CommittedOffset(offset=1, commit_timestamp_ms=0)
        offsets.commit_in_transaction(Committer(group_id), Producer(4, 0), [(T0, value)])
    assert offsets.fetch("b", [T0], True)[0][1].error is ErrorCode.UNSTABLE_OFFSET_COMMIT

    broker.groups.on_partitions_deleted([T0])  # of "b" in a later turn

    found = offsets.fetch("b", [T0], True)
    await turns()
    broker.groups.end_transaction(0, Producer(4, 0), ControlRecord(True, 0))
    found += offsets.fetch("b", [T0], True)
    assert [(value.offset, value.error) for _, value in found] == [(-1, NONE), (-1, NONE)]


async def test_a_topic_that_is_deleted_again_while_the_first_is_forgotten_leaves_nothing() -> None:
    broker, groups = new_broker(time=PassingTime()), ("a", "b", "c")
    for group_id in groups:
        commit(broker, group_id, 1, T0, T1)
    broker.groups.on_partitions_deleted([T0])
    commit(broker, "a", 2, T0)  # which was forgotten of "a" already

    broker.groups.on_partitions_deleted([T0])
    await turns()

    for each in (broker, broker.restarted()):
        assert [fetched(each, group_id) for group_id in groups] == [{T1: 1}] * 3


def test_offsets_expire_in_parts_and_what_is_committed_in_between_stays() -> None:
    broker = new_broker()
    partitions = [TopicPartition("t", each) for each in range(1200)]
    commit(broker, "g", 1, *partitions)
    broker.time.advance(8 * DAY_MS)

    expiring = broker.groups.offsets.expire()
    next(expiring)
    left = len(fetched(broker, "g"))
    commit(broker, "g", 2, partitions[-1])
    parts = sum(1 for _ in expiring)

    assert (left, parts) == (700, 2)
    for each in (broker, broker.restarted()):
        assert fetched(each, "g") == {partitions[-1]: 2}


async def test_a_large_batch_of_offsets_is_replayed_in_parts() -> None:
    partitions = [TopicPartition("t", each) for each in range(1000)]
    broker = new_broker()
    commit(broker, "g", 1, *partitions)

    other = GroupBroker(lead=False, mode=Replication.IMMEDIATE, time=PassingTime())
    other.lead(broker.log())
    waited = 0
    while other.groups.describe_group("g")[0] is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        await asyncio.sleep(0)
        waited += 1

    assert waited >= 5
    assert fetched(other, "g") == dict.fromkeys(partitions, 1)


async def test_very_many_groups_are_given_up_at_once_and_their_members_told_in_parts() -> None:
    broker = new_broker(group_initial_rebalance_delay_ms=3000)
    waiting = [broker.join(f"g{each}", version=3) for each in range(1_000)]

    assert steps_of(broker.resign) < 40 * len(waiting)  # 78 for a group whose member is told

    assert broker.groups.list_groups([], []) == (ErrorCode.NONE, [])
    for answer in waiting:
        assert (await answer).error_code == ErrorCode.NOT_COORDINATOR
    assert broker.time.armed() == 0
