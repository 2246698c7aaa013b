"""Targets of consumer groups: computed beside the loop when they are large; assignors that fail."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kbroker.coordinator.consumer_group.assignors.assignor import AssignorError
from kbroker.errors import ErrorCode, KafkaError
from tests.fakes.brokers.beside import Beside, turns
from tests.fakes.brokers.consumer_groups import (
    REBALANCE_MS,
    MemberOf,
    consumer_groups,
    refusal,
    topic,
)
from tests.fakes.brokers.group_broker import TOPIC_ID, GroupBroker, OffsetsReplicas
from tests.fakes.clusters.replication import Replication


@pytest.fixture(autouse=True)
def immediate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OffsetsReplicas, "default_mode", Replication.IMMEDIATE)


@pytest.fixture
def broker() -> GroupBroker:
    return GroupBroker(consumer_groups=consumer_groups(large_target=1))


@pytest.fixture
def beside(broker: GroupBroker) -> Beside:
    broker.groups.store.beside = found = Beside()
    return found


async def test_members_keep_their_last_target_until_a_large_one_is_there(
    broker: GroupBroker, beside: Beside
) -> None:
    member = MemberOf(broker, "m1")
    assert member.join().member_epoch == 1
    await turns()
    member.beat([])
    assert len(beside.waiting) == 1

    await beside.finish()

    assert member.beat([]).member_epoch == 2
    assert member.told == [0, 1, 2, 3]


async def test_a_target_of_an_epoch_that_is_over_does_not_count(
    broker: GroupBroker, beside: Beside
) -> None:
    first, second = MemberOf(broker, "m1"), MemberOf(broker, "m2")
    first.join()
    await turns()
    second.join()
    await beside.finish()
    assert first.beat([]).member_epoch == 1

    await beside.finish()

    assert first.beat([]).member_epoch == 3
    assert second.beat([]).member_epoch == 3
    assert sorted(first.told + second.told) == [0, 1, 2, 3]
    assert beside.waiting == []


async def test_a_target_that_fails_beside_the_loop_is_computed_again_later_and_later(
    broker: GroupBroker, beside: Beside, caplog: pytest.LogCaptureFixture
) -> None:
    member = MemberOf(broker, "m1")
    member.join()
    await turns()
    for wait_ms in (1_000, 2_000):
        _, future = beside.waiting.pop()
        future.set_exception(AssignorError("it fails"))
        await turns()
        broker.time.advance(wait_ms - 1)
        answer = member.beat([])
        assert refusal(answer) == (
            ErrorCode.UNKNOWN_SERVER_ERROR,
            "Failed to compute a new target assignment for epoch 2: its assignor has failed",
        )
        broker.time.advance(1)
        assert member.beat([]).error_code == 0
        await turns()
    assert caplog.messages == ["Group g: it fails"]

    await beside.finish()

    assert member.beat([]).member_epoch == 2


async def test_a_target_that_no_batch_holds_refuses_those_alone_who_have_none(
    broker: GroupBroker, beside: Beside, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = MemberOf(broker, "m1"), MemberOf(broker, "m2")
    first.join()
    await turns()
    await beside.finish()
    first.beat([])
    second.join()
    await turns()
    broker.replicas.error = ErrorCode.MESSAGE_TOO_LARGE
    await beside.finish()
    broker.replicas.error = ErrorCode.NONE

    assert first.beat(first.told).member_epoch == 2
    assert refusal(second.beat([])) == (
        ErrorCode.UNKNOWN_SERVER_ERROR,
        "Failed to compute a new target assignment for epoch 3: it is larger than a batch of the"
        " log may be",
    )
    assert beside.waiting == []
    assert caplog.messages == ["Group g: what it has decided was not stored: MESSAGE_TOO_LARGE"]

    broker.time.advance(1_000)
    second.beat([])
    await turns()
    await beside.finish()
    assert second.beat([]).member_epoch == 3
    assert broker.groups.store.find("g").attendance.failed is None


async def test_a_target_that_the_log_refuses_for_now_refuses_nobody(
    broker: GroupBroker, beside: Beside
) -> None:
    member = MemberOf(broker, "m1")
    member.join()
    await turns()
    broker.replicas.error = ErrorCode.NOT_ENOUGH_REPLICAS
    await beside.finish()
    broker.replicas.error = ErrorCode.NONE

    assert member.beat([]).error_code == 0
    await turns()
    assert beside.waiting == []
    broker.time.advance(1_000)
    member.beat([])
    await turns()
    await beside.finish()

    assert member.beat([]).member_epoch == 2


def test_members_choose_the_assignor() -> None:
    broker = GroupBroker(consumer_groups=consumer_groups())
    MemberOf(broker, "m1").join(server_assignor="range")

    assert broker.groups.consumer_groups.describe("g").group.assignor_name == "range"


def test_of_two_assignors_with_as_many_members_the_one_that_kafka_shows_is_shown() -> None:
    broker = GroupBroker(consumer_groups=consumer_groups())
    MemberOf(broker, "m1").join(server_assignor="range")
    MemberOf(broker, "m2").join(server_assignor="uniform")

    assert broker.groups.consumer_groups.describe("g").group.assignor_name == "uniform"


def test_a_refused_first_heartbeat_leaves_no_group() -> None:
    broker = GroupBroker(consumer_groups=consumer_groups())
    broker.replicas.error = ErrorCode.NOT_ENOUGH_REPLICAS

    answer = MemberOf(broker, "m1").join()

    assert ErrorCode(answer.error_code) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert len(broker.groups.store) == 0


def test_a_session_that_ends_while_the_log_refuses_ends_soon_after() -> None:
    broker = GroupBroker(consumer_groups=consumer_groups())
    MemberOf(broker, "m1").join()
    broker.replicas.error = ErrorCode.NOT_ENOUGH_REPLICAS
    broker.time.advance(60_000)
    group = broker.groups.store.find("g").group
    assert list(group.members) == ["m1"]

    broker.replicas.error = ErrorCode.NONE
    broker.time.advance(1_000)

    assert list(group.members) == []


async def test_an_answer_that_writes_nothing_waits_for_what_it_rests_on() -> None:
    broker = GroupBroker(consumer_groups=consumer_groups())
    member = MemberOf(broker, "m1")
    member.join()
    broker.metadata.update(topic("t", TOPIC_ID, 5))
    broker.replicas.holds = True
    beats = [asyncio.ensure_future(as_awaitable(broker, "m1", epoch)) for epoch in (2, 3)]
    await turns()
    assert not any(each.done() for each in beats)

    broker.replicas.release()
    await turns()

    assert [each.result().member_epoch for each in beats] == [3, 3]


async def test_a_group_is_seen_once_it_is_stored() -> None:
    broker = GroupBroker(consumer_groups=consumer_groups())
    broker.groups.store.create("g")  # an empty one of the classic protocol
    broker.replicas.holds = True
    first = {"rebalance_timeout_ms": REBALANCE_MS, "subscribed_topic_names": ["t"]}
    joins = [
        asyncio.ensure_future(as_awaitable(broker, "m1", 0, group_id, topic_partitions=[], **first))
        for group_id in ("g", "new")
    ]
    await turns()

    assert seen(broker) == [
        ("g", "classic", "Empty", "Group g is not a consumer group."),
        ("new", "Group new not found."),
    ]
    broker.replicas.release()
    await turns()

    assert [each.result().error_code for each in joins] == [0, 0]
    assert seen(broker) == [("g", "consumer", "Stable", "m1"), ("new", "consumer", "Stable", "m1")]


def seen(broker: GroupBroker) -> list[tuple[str, ...]]:
    """How two groups are listed and described."""
    _, listed = broker.groups.list_groups([], [])
    kinds = {each.group_id: (each.group_type, each.group_state) for each in listed}
    return [(name, *kinds.get(name, ()), members_of(broker, name)) for name in ("g", "new")]


def members_of(broker: GroupBroker, group_id: str) -> str:
    try:
        members = broker.groups.consumer_groups.describe(group_id).members()
    except KafkaError as refused:
        return refused.reason
    return ",".join(member.member_id for member in members)


async def as_awaitable(
    broker: GroupBroker, member_id: str, epoch: int, group_id: str = "g", **fields: Any
) -> Any:
    from kbroker.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

    request = ConsumerGroupHeartbeatRequest(
        group_id=group_id, member_id=member_id, member_epoch=epoch, **fields
    )
    return await broker.groups.consumer_groups.heartbeat(
        request, api_version=1, client_id="c", client_host="/127.0.0.1"
    )
