"""Assignors of operators at a coordinator: members wait for them, and nobody for one that hangs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import pytest

from kbroker.coordinator.consumer_group.assignors.assignor import Assignment, GroupSpec, Topics
from kbroker.coordinator.consumer_group.assignors.uniform import UniformAssignor
from kbroker.coordinator.group.own_targets import OwnTargets
from kbroker.errors import ErrorCode
from tests.fakes.brokers.beside import turns
from tests.fakes.brokers.consumer_groups import MemberOf, consumer_groups, refusal, topic
from tests.fakes.brokers.group_broker import TOPIC_ID, GroupBroker, OffsetsReplicas
from tests.fakes.clusters.replication import Replication

OWN = f"{__name__}:Own"


class Own:
    """Kafka's uniform assignor, or what a test does in its place."""

    name = "own"
    may_go: ClassVar[threading.Event] = threading.Event()
    has_begun: ClassVar[threading.Event] = threading.Event()
    error: ClassVar[Exception | None] = None

    def assign(self, spec: GroupSpec, topics: Topics) -> Mapping[str, Assignment]:
        Own.has_begun.set()
        Own.may_go.wait()
        if Own.error is not None:
            raise Own.error
        return UniformAssignor().assign(spec, topics)


@pytest.fixture(autouse=True)
def own(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Own]]:
    monkeypatch.setattr(OffsetsReplicas, "default_mode", Replication.IMMEDIATE)
    monkeypatch.setattr(Own, "error", None)
    Own.may_go.set()
    Own.has_begun.clear()
    yield Own
    Own.may_go.set()


@pytest.fixture
def broker() -> Iterator[GroupBroker]:
    found = GroupBroker(consumer_groups=consumer_groups(assignors=(OWN, "uniform")))
    yield found
    found.groups.consumer_groups.groups.own_targets.stop()


async def joined(broker: GroupBroker, name: str, **fields: Any) -> MemberOf:
    member = MemberOf(broker, name)
    await member.later(**{**member.first(), **fields})
    return member


async def test_a_member_waits_for_its_target(broker: GroupBroker) -> None:
    first = await joined(broker, "m1")
    assert (first.epoch, first.told) == (2, [0, 1, 2, 3])

    second = await joined(broker, "m2")
    first.beat([0, 1, 2, 3])
    first.beat(first.told)
    second.beat([])

    assert sorted(first.told + second.told) == [0, 1, 2, 3]
    assert len(first.told) == 2


async def test_others_go_on_meanwhile(broker: GroupBroker, own: type[Own]) -> None:
    first = await joined(broker, "m1")
    own.may_go.clear()
    waiting = asyncio.ensure_future(joined(broker, "m2"))
    await turns()

    broker.metadata.update(topic("t", TOPIC_ID, 5))
    assert first.beat().member_epoch == 2
    assert not waiting.done()

    own.may_go.set()
    await waiting
    await first.later()
    assert broker.groups.store.find("g").group.target_metadata.assignment_epoch == 4


async def test_a_target_of_a_group_that_went_on_does_not_count(
    broker: GroupBroker, own: type[Own]
) -> None:
    first = await joined(broker, "m1")
    own.may_go.clear()
    waiting = asyncio.ensure_future(joined(broker, "m2"))
    await turns()
    first.send(member_epoch=-1)

    own.may_go.set()
    second = await waiting
    assert (second.epoch, second.told) == (2, [])
    await second.later(topic_partitions=[])

    assert (second.epoch, second.told) == (4, [0, 1, 2, 3])


async def test_one_that_raises_refuses_and_the_group_lives(
    broker: GroupBroker, own: type[Own], caplog: pytest.LogCaptureFixture
) -> None:
    first = await joined(broker, "m1")
    end = broker.log().log_end_offset
    own.error = KeyError("x")
    member = MemberOf(broker, "m2")

    answers = [await member.later(**member.first()) for _ in range(3)]

    sentence = "Failed to compute a new target assignment for epoch 3: own raised KeyError('x')"
    assert list(map(refusal, answers)) == [(ErrorCode.UNKNOWN_SERVER_ERROR, sentence)] * 3
    assert broker.log().log_end_offset == end
    assert first.beat().member_epoch == 2
    assert caplog.messages == [
        f"Group g gets no target for epoch 3, as {OWN} has failed: own raised KeyError('x')"
    ]

    own.error = None
    assert (await joined(broker, "m2")).epoch == 3


async def test_a_first_member_that_is_refused_leaves_no_group(
    broker: GroupBroker, own: type[Own]
) -> None:
    own.error = KeyError("x")

    await joined(broker, "m1")

    assert len(broker.groups.store) == 0
    assert broker.log().log_end_offset == 0


async def test_nobody_waits_for_one_that_hangs(broker: GroupBroker, own: type[Own]) -> None:
    other = await joined(broker, "m0", server_assignor="uniform")
    broker.groups.consumer_groups.groups.own_targets.stop()
    broker.groups.consumer_groups.groups.own_targets = OwnTargets(
        broker.time.target.monotonic_ms, answer_s=0.01
    )
    own.may_go.clear()
    member = MemberOf(broker, "m1", group_id="h")

    answers = [await member.later(**member.first()) for _ in range(2)]

    assert [str(each.error_message).partition(": ")[2] for each in answers] == [
        "own has not answered within 0.01 s",
        "own is still at a former target",
    ]
    assert other.beat().error_code == 0

    own.may_go.set()
    await asyncio.to_thread(own.has_begun.wait)


async def test_a_group_that_is_of_the_other_protocol_meanwhile_changes_if_it_may(
    broker: GroupBroker, own: type[Own]
) -> None:
    own.may_go.clear()
    member = MemberOf(broker, "m1")
    waiting = asyncio.ensure_future(member.later(**member.first()))
    await turns()
    broker.stable_member()

    own.may_go.set()

    assert refusal(await waiting) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Cannot upgrade classic group g to consumer group because online upgrade is disabled.",
    )


async def test_a_group_that_moves_meanwhile_is_answered_for_by_another(
    broker: GroupBroker, own: type[Own]
) -> None:
    own.may_go.clear()
    member = MemberOf(broker, "m1")
    waiting = asyncio.ensure_future(member.later(**member.first()))
    await turns()

    broker.resign()
    own.may_go.set()

    assert ErrorCode((await waiting).error_code) is ErrorCode.NOT_COORDINATOR


async def test_an_assignor_that_is_not_in_the_list_any_more_is_the_default(
    broker: GroupBroker,
) -> None:
    member = await joined(broker, "m1", server_assignor="own")
    assert member.epoch == 2

    member.broker = other = broker.restarted(consumer_groups=consumer_groups())
    other.metadata.update(topic("t", TOPIC_ID, 5))

    assert member.beat().member_epoch == 3
    assert refusal(member.send(server_assignor="own")) == (
        ErrorCode.UNSUPPORTED_ASSIGNOR,
        "ServerAssignor own is not supported. Supported assignors: uniform, range.",
    )
