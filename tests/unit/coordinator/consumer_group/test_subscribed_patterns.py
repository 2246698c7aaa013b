"""Patterns of topics that members subscribe to: when they are resolved, and what comes of it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import pytest

from kbroker.coordinator.group.coordinated_consumer_group import CoordinatedConsumerGroup
from kbroker.errors import ErrorCode
from tests.fakes.brokers.beside import Beside, turns
from tests.fakes.brokers.consumer_groups import MemberOf, consumer_groups, refusal, topic
from tests.fakes.brokers.group_broker import TOPIC_ID, GroupBroker, OffsetsReplicas
from tests.fakes.clusters.replication import Replication

pytest.importorskip("re2")
APART_MS = 10_001
BY_PATTERN: dict[str, Any] = {"subscribed_topic_names": None, "subscribed_topic_regex": "t.*"}


@pytest.fixture(autouse=True)
def immediate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OffsetsReplicas, "default_mode", Replication.IMMEDIATE)


@pytest.fixture
def broker() -> GroupBroker:
    return GroupBroker(consumer_groups=consumer_groups())


@pytest.fixture
def beside(broker: GroupBroker) -> Beside:
    broker.groups.store.beside = found = Beside()
    return found


def group(broker: GroupBroker) -> Any:
    found = broker.groups.store.find("g")
    assert isinstance(found, CoordinatedConsumerGroup)
    return found.group


def resolved(broker: GroupBroker) -> dict[str, list[str]]:
    return {pattern: sorted(each.topics) for pattern, each in group(broker).resolved.items()}


async def joined(broker: GroupBroker, beside: Beside, name: str = "m1", **fields: Any) -> MemberOf:
    """A member whose pattern is resolved."""
    member = MemberOf(broker, name)
    member.join(**{**BY_PATTERN, **fields})
    await turns()
    await beside.finish()
    return member


async def test_a_member_with_a_new_pattern_reads_nothing_until_it_is_resolved(
    broker: GroupBroker, beside: Beside
) -> None:
    member = MemberOf(broker, "m1")
    answer = member.join(**BY_PATTERN)
    await turns()

    assert (answer.error_code, answer.member_epoch, member.told) == (0, 1, [])
    assert member.beat([]).member_epoch == 1
    await turns()
    assert len(beside.waiting) == 1

    await beside.finish()

    assert resolved(broker) == {"t.*": ["t"]}
    assert member.beat([]).member_epoch == 2
    assert member.told == [0, 1, 2, 3]


async def test_names_and_a_pattern_go_together(broker: GroupBroker, beside: Beside) -> None:
    broker.metadata.update(topic("other", UUID(int=5), 1))
    member = await joined(broker, beside, subscribed_topic_names=["other"])

    answer = member.beat([])

    assert answer.assignment is not None
    ids = {each.topic_id for each in answer.assignment.topic_partitions}
    assert ids == {TOPIC_ID, UUID(int=5)}


@pytest.mark.parametrize("is_there", [True, False])
def test_a_pattern_that_cannot_be_used_is_refused_and_nothing_is_written(
    broker: GroupBroker, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    if not is_there:
        monkeypatch.setitem(sys.modules, "re2", None)

    answer = MemberOf(broker, "m1").join(**{**BY_PATTERN, "subscribed_topic_regex": "t("})

    code, sentence = refusal(answer)
    assert code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert ("missing closing )" if is_there else "needs google-re2") in str(sentence)
    assert len(broker.groups.store) == 0


async def test_the_first_pattern_waits_for_the_import(
    broker: GroupBroker, beside: Beside, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "re2")
    member = MemberOf(broker, "m1")
    asked = asyncio.ensure_future(member.sent(**{**member.first(), **BY_PATTERN}))
    await turns()
    assert len(broker.groups.store) == 0

    await beside.finish()

    assert (await asked).error_code == 0
    assert group(broker).pattern_counts == {"t.*": 1}


async def test_topics_that_come_are_looked_for_ten_seconds_after_the_last_time(
    broker: GroupBroker, beside: Beside
) -> None:
    member = await joined(broker, beside)
    member.beat([])
    broker.metadata.update(topic("t2", UUID(int=5), 1))

    member.beat()
    await turns()
    assert beside.waiting == []

    broker.time.advance(APART_MS)
    member.beat()
    await turns()
    await beside.finish()

    assert resolved(broker) == {"t.*": ["t", "t2"]}
    assert member.beat().member_epoch == 3


async def test_a_classic_member_that_joins_has_new_topics_looked_for_that_it_may_see() -> None:
    broker = GroupBroker(consumer_groups=consumer_groups(migration_policy="bidirectional"))
    broker.groups.store.beside = beside = Beside()
    member = await joined(broker, beside)
    member.beat([])
    for number, name in enumerate(("t2", "t3"), 5):
        broker.metadata.update(topic(name, UUID(int=number), 1))
    broker.time.advance(APART_MS)

    async def visible(found: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
        return {pattern: topics - {"t3"} for pattern, topics in found.items()}

    assert broker.join(version=3, visible=visible).error_code == 0
    await turns()
    await beside.finish()

    assert resolved(broker) == {"t.*": ["t", "t2"]}


async def test_topics_that_grow_or_go_are_no_cause_to_look_for_more(
    broker: GroupBroker, beside: Beside
) -> None:
    member = await joined(broker, beside)
    member.beat([])
    broker.metadata.update(topic("t", TOPIC_ID, 5))
    broker.time.advance(APART_MS)

    assert member.beat().member_epoch == 3
    await turns()

    assert member.told == [0, 1, 2, 3, 4]
    assert beside.waiting == []


async def test_patterns_are_resolved_again_when_the_interval_is_over(
    broker: GroupBroker, beside: Beside
) -> None:
    member = await joined(broker, beside)
    member.beat([])
    began = group(broker).resolved["t.*"].timestamp_ms
    for _ in range(20):
        broker.time.advance(30_000)
        member.beat()
    await turns()
    assert beside.waiting == []

    broker.time.advance(1)
    member.beat()
    await turns()
    await beside.finish()

    assert group(broker).resolved["t.*"].timestamp_ms == began + 600_001
    assert member.beat().member_epoch == 2


async def test_a_second_pattern_waits_its_ten_seconds_and_one_that_is_known_does_not(
    broker: GroupBroker, beside: Beside
) -> None:
    first = await joined(broker, beside)
    first.beat([])
    second, third = MemberOf(broker, "m2"), MemberOf(broker, "m3")
    second.join(subscribed_topic_names=None, subscribed_topic_regex="nothing")
    third.join(**BY_PATTERN)
    await turns()

    assert beside.waiting == []
    assert group(broker).epoch == 3
    assert third.epoch == 3

    broker.time.advance(APART_MS)
    second.beat([])
    await turns()
    await beside.finish()
    assert resolved(broker) == {"t.*": ["t"], "nothing": []}
    assert group(broker).epoch == 3


async def test_another_pattern_takes_the_topics_of_the_former_at_once(
    broker: GroupBroker, beside: Beside
) -> None:
    member = await joined(broker, beside)
    member.beat([])

    member.send(subscribed_topic_regex="u.*")
    await turns()

    assert resolved(broker) == {}
    assert member.told == []
    assert beside.waiting == []  # ten seconds after the last time, which is forgotten then
    member.beat([])
    await turns()
    await beside.finish()
    assert resolved(broker) == {"u.*": []}
    assert member.beat([]).member_epoch == 3
    assert group(broker).metadata.metadata_hash == 0


async def test_a_pattern_that_is_emptied_brings_a_new_epoch(
    broker: GroupBroker, beside: Beside
) -> None:
    member = await joined(broker, beside)
    member.beat([])

    answer = member.send(subscribed_topic_regex="", topic_partitions=[])

    assert (answer.member_epoch, member.told, resolved(broker)) == (3, [], {})
    assert group(broker).metadata.metadata_hash == 0
    assert group(broker).topics() == frozenset()


async def test_the_last_member_with_a_pattern_takes_its_record_along(
    broker: GroupBroker, beside: Beside
) -> None:
    first, second = await joined(broker, beside), MemberOf(broker, "m2")
    second.join(**BY_PATTERN)

    first.send(member_epoch=-1)
    assert resolved(broker) == {"t.*": ["t"]}
    second.send(member_epoch=-1)

    assert resolved(broker) == {}
    assert group(broker).topics() == frozenset()


async def test_what_nobody_subscribes_to_any_more_does_not_count(
    broker: GroupBroker, beside: Beside
) -> None:
    member = MemberOf(broker, "m1")
    member.join(**BY_PATTERN)
    await turns()
    member.send(subscribed_topic_regex="u.*")

    await beside.finish()

    assert resolved(broker) == {}
    assert group(broker).epoch == 1


async def test_a_resolution_that_fails_is_tried_again_ten_seconds_later(
    broker: GroupBroker, beside: Beside, caplog: pytest.LogCaptureFixture
) -> None:
    member = MemberOf(broker, "m1")
    member.join(**BY_PATTERN)
    await turns()
    _, future = beside.waiting.pop()
    future.set_exception(RuntimeError("they are too slow"))
    await turns()
    assert "Group g: they are too slow" in caplog.text

    member.beat([])
    await turns()
    assert beside.waiting == []
    broker.time.advance(APART_MS)
    member.beat([])
    await turns()
    await beside.finish()

    assert resolved(broker) == {"t.*": ["t"]}


async def test_a_resolution_that_the_log_refuses_is_tried_again_ten_seconds_later(
    broker: GroupBroker, beside: Beside
) -> None:
    member = MemberOf(broker, "m1")
    member.join(**BY_PATTERN)
    await turns()
    broker.replicas.error = ErrorCode.MESSAGE_TOO_LARGE
    await beside.finish()
    broker.replicas.error = ErrorCode.NONE
    assert resolved(broker) == {}

    member.beat([])
    await turns()
    assert beside.waiting == []
    broker.time.advance(APART_MS)
    member.beat([])
    await turns()
    await beside.finish()

    assert resolved(broker) == {"t.*": ["t"]}
    assert member.beat([]).member_epoch == 2


async def test_only_topics_that_the_member_may_see_are_found(
    broker: GroupBroker, beside: Beside
) -> None:
    broker.metadata.update(topic("t2", UUID(int=5), 1))

    async def visible(found: Mapping[str, frozenset[str]]) -> Mapping[str, frozenset[str]]:
        return {pattern: topics - {"t2"} for pattern, topics in found.items()}

    member = MemberOf(broker, "m1", visible=visible)
    member.join(**BY_PATTERN)
    await turns()
    await beside.finish()

    assert resolved(broker) == {"t.*": ["t"]}


async def test_a_load_goes_on_with_resolved_patterns(broker: GroupBroker, beside: Beside) -> None:
    member = await joined(broker, beside)
    member.beat([])

    member.broker = other = broker.restarted(consumer_groups=consumer_groups())
    other.groups.store.beside = beside
    other.time.advance(APART_MS)

    assert resolved(other) == {"t.*": ["t"]}
    assert member.beat().member_epoch == 2
    await turns()
    await beside.finish()  # topics may have come meanwhile
    assert member.beat().member_epoch == 2
