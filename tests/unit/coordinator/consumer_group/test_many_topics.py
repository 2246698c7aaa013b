"""Members of very many topics: what they ask for is done in turns, and records are made beside."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kbroker.coordinator.group.consumer_group_requests import MOST_STRANGE
from kbroker.errors import ErrorCode
from kbroker.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.fakes.brokers.beside import Beside, turns
from tests.fakes.brokers.consumer_groups import MemberOf, consumer_groups
from tests.fakes.brokers.group_broker import GroupBroker, OffsetsReplicas, metadata_of
from tests.fakes.clusters.replication import Replication
from tests.faults.loop_holds import Calls

COUNT = 3_000
Owned = ConsumerGroupHeartbeatRequest.TopicPartitions


@pytest.fixture(autouse=True)
def immediate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OffsetsReplicas, "default_mode", Replication.IMMEDIATE)


def broker_with_topics(count: int, **services: Any) -> tuple[GroupBroker, list[str]]:
    broker = GroupBroker(consumer_groups=consumer_groups(**services))
    names = [f"topic-{number}" for number in range(count)]
    broker.metadata.update(metadata_of(dict.fromkeys(names, 1)))
    return broker, names


async def test_a_member_of_many_topics_is_let_in_and_told_over_many_turns() -> None:
    broker, names = broker_with_topics(COUNT, large_target=COUNT, large_write=COUNT)
    await MemberOf(broker, "m0").later(**MemberOf(broker, "m0").first())  # imports what it needs
    member, calls = MemberOf(broker, "m1", names, group_id="g2"), Calls()

    with calls.counted():
        answer = await asyncio.ensure_future(member.later(**member.first()))
        while not answer.assignment or not answer.assignment.topic_partitions:
            await asyncio.sleep(0)
            answer = await asyncio.ensure_future(member.later(topic_partitions=[]))

        mine = [
            Owned(topic_id=each.topic_id, partitions=list(each.partitions))
            for each in answer.assignment.topic_partitions
        ]
        assert (await member.later(topic_partitions=mine)).error_code == 0

    assert len(answer.assignment.topic_partitions) == COUNT
    assert calls.most < calls.total / 3


async def test_more_names_than_there_can_be_topics_are_refused() -> None:
    broker, names = broker_with_topics(20)
    member = MemberOf(broker, "m1", [*names, *(f"strange-{each}" for each in range(MOST_STRANGE))])

    assert (await member.later(**member.first())).error_code == 0
    member.topics = [*member.topics, "1", "2", "3"]
    assert (await member.later(**member.first())).error_code == ErrorCode.INVALID_REQUEST


async def test_topics_that_change_while_they_are_looked_up_count_as_they_are_then() -> None:
    broker, names = broker_with_topics(COUNT)
    member = MemberOf(broker, "m1", names)
    asked = asyncio.ensure_future(member.later(**member.first()))
    await asyncio.sleep(0)
    broker.metadata.update(metadata_of({"topic-0": 2}))

    answer = await asked

    told = {each.topic_id: each.partitions for each in answer.assignment.topic_partitions}
    assert sorted(told[broker.metadata.topic_id("topic-0")]) == [0, 1]
    found = broker.groups.store.find("g")
    topics = found.given.topics
    assert found.group.metadata.metadata_hash == topics.metadata_hash(names)
    assert (await member.later()).member_epoch == answer.member_epoch


async def test_names_of_no_topics_are_not_kept_when_a_member_has_asked_for_them() -> None:
    broker, names = broker_with_topics(COUNT)
    topics = broker.groups.consumer_groups.groups.given.topics
    strange = [f"{name}-" for name in names]
    asked = frozenset([*names, *strange])

    await MemberOf(broker, "m1", asked).later(**MemberOf(broker, "m1", asked).first())

    assert topics.topic_ids(asked) == topics.topic_ids(frozenset(names))
    assert topics.topic_ids(asked) is not topics.topic_ids(asked)
    assert topics.topic_ids(frozenset(names)) is topics.topic_ids(frozenset(names))


async def test_who_comes_after_a_large_write_waits_for_it_and_follows_it_in_the_log() -> None:
    broker, names = broker_with_topics(20, large_write=20)
    broker.groups.store.making = beside = Beside()
    large, small = MemberOf(broker, "large", names), MemberOf(broker, "small", group_id="h")
    asked = [asyncio.ensure_future(each.later(**each.first())) for each in (large, small)]
    await turns()
    assert not any(each.done() for each in asked)
    assert broker.log().batches() == []

    await beside.finish()

    assert [(await each).error_code for each in asked] == [0, 0]
    groups = [
        record.key[2:].split(b"large")[0] for _, batch in broker.log().batches() for record in batch
    ]
    assert b"g" in groups[0]
    assert b"h" in groups[-1]
    loaded = broker.restarted(consumer_groups=consumer_groups()).groups.store
    assert {each.group_id: each.member_count for each in loaded} == {"g": 1, "h": 1}


async def test_a_large_write_whose_records_cannot_be_made_lets_nobody_in() -> None:
    broker, names = broker_with_topics(20, large_write=20)
    broker.groups.store.making = beside = Beside()
    member = MemberOf(broker, "large", names)
    asked = asyncio.ensure_future(member.later(**member.first()))
    await turns()
    [(_, future)] = beside.waiting

    future.set_exception(MemoryError())
    answer = await asked

    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert len(broker.groups.store) == 0
    assert member.broker.log().batches() == []
