"""Why groups rebalance: provoked in all ways that there are, each with its reason in the log and in
the group's history.
"""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Callable

import pytest

from kbroker.cli.broker.log_format import JsonFormatter
from kbroker.errors import ErrorCode
from kbroker.protocol.messages.leave_group import LeaveGroupRequest
from tests.fakes.brokers.group_broker import GroupBroker
from tests.fakes.running.loop_turns import until_idle

OTHER_TOPIC = b"\x00\x00\x00\x00\x00\x01\x00\x01u\xff\xff\xff\xff"


def leave(broker: GroupBroker, member_id: str, **fields: object) -> None:
    member = LeaveGroupRequest.MemberIdentity(member_id=member_id, **fields)
    broker.groups.leave_group("g", [member])


def rejoin(broker: GroupBroker, member_id: str, **fields: object) -> None:
    outcome = broker.join(member_id=member_id, **fields)
    assert not inspect.isawaitable(outcome)


def new_member(broker: GroupBroker, _first: str) -> None:
    broker.join(version=3, reason="rolled out")


def member_left(broker: GroupBroker, first: str) -> None:
    leave(broker, first, reason="the consumer is being closed")


def removed_by_admin(broker: GroupBroker, _first: str) -> None:
    leave(broker, "", group_instance_id="i", reason="not needed")


def session_expired(broker: GroupBroker, _first: str) -> None:
    broker.time.advance(10_000)


def sync_timeout(broker: GroupBroker, first: str) -> None:
    rejoin(broker, first, session_timeout_ms=300_000)
    broker.time.advance(60_000)


def metadata_changed(broker: GroupBroker, first: str) -> None:
    rejoin(broker, first, metadata=OTHER_TOPIC)


def protocols_changed(broker: GroupBroker, first: str) -> None:
    rejoin(broker, first, protocols=("roundrobin", "range"))


def leader_rejoined(broker: GroupBroker, first: str) -> None:
    rejoin(broker, first, reason="metadata of topics has changed")


def static_member_replaced(broker: GroupBroker, _first: str) -> None:
    broker.join(group_instance_id="i", protocols=("roundrobin", "range"))


def not_stored(broker: GroupBroker, first: str) -> None:
    rejoin(broker, first)
    broker.replicas.error = ErrorCode.NOT_ENOUGH_REPLICAS
    broker.sync(first, 2, assignments={first: b""})


WAYS = (
    (new_member, None, "joined; its reason: 'rolled out'"),
    (member_left, None, "left; its reason: 'the consumer is being closed'"),
    (removed_by_admin, "i", "was removed by an administrator; its reason: 'not needed'"),
    (session_expired, None, "sent no heartbeat for 10,000 ms (session.timeout.ms)"),
    (sync_timeout, None, "did not fetch its assignment within 60,000 ms (rebalance timeout)"),
    (metadata_changed, None, "joined again with other metadata, for instance other topics"),
    (protocols_changed, None, "joined again with other protocols: 'roundrobin', 'range'"),
    (leader_rejoined, None, "asked for it by joining again; its reason: 'metadata of topics has"),
    (static_member_replaced, "i", "came back as another process, with other protocols"),
    (not_stored, None, "the assignments could not be stored: COORDINATOR_NOT_AVAILABLE"),
)


@pytest.mark.parametrize(
    ("provoke", "instance", "reason"), WAYS, ids=[way[0].__name__ for way in WAYS]
)
async def test_a_rebalance_has_its_reason_in_the_log_and_in_the_history(
    provoke: Callable[[GroupBroker, str], None],
    instance: str | None,
    reason: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker = GroupBroker()
    first = broker.stable_member(group_instance_id=instance).member_id
    await until_idle(100)
    before = len(broker.events.of_group("g"))

    with caplog.at_level(logging.INFO, "kbroker.events"):
        provoke(broker, first)
        await until_idle(100)

    cause = provoke.__name__
    noted = [each.event for each in broker.events.of_group("g")[before:]]
    causes = [event.cause for event in noted if event.name == "rebalance"]
    assert causes[-1] == cause
    assert causes.count(cause) == 1
    lines = [json.loads(JsonFormatter().format(record)) for record in caplog.records]
    of_cause = [line for line in lines if (line["event"], line["cause"]) == ("rebalance", cause)]
    assert [line["group"] for line in of_cause] == ["g"]
    assert reason in of_cause[0]["message"]
    if cause != "not_stored":
        assert of_cause[0]["client_id"] == "c"
        assert "(client 'c' at 127.0.0.1)" in of_cause[0]["message"]


async def test_a_group_that_was_loaded_says_whose_members_it_has_and_which_are_too_many() -> None:
    broker = GroupBroker()
    first = broker.stable_member().member_id
    second = broker.join(version=3)
    broker.join(member_id=first)
    member = (await second).member_id
    broker.sync(member, 2)
    broker.sync(first, 2, assignments={first: b"", member: b""})

    other = broker.restarted(group_max_size=1)
    await until_idle(100)

    told = [each.event for each in other.events.of_group("g")]
    assert [(event.name, event.cause) for event in told] == [
        ("coordinator_moved", "loaded"),
        ("rebalance", "group_too_large"),
    ]
    assert "group.max.size=1" in told[1].sentence()


async def test_a_group_that_goes_to_another_broker_says_so() -> None:
    broker = GroupBroker()
    broker.stable_member()

    broker.resign()
    await until_idle(100)

    last = broker.events.of_group("g")[-1].event
    assert (last.name, last.cause) == ("coordinator_moved", "resigned")


async def test_members_that_are_late_are_named_with_the_time_that_they_had() -> None:
    broker = GroupBroker()
    broker.stable_member(session_timeout_ms=300_000)
    await until_idle(100)
    second = broker.join(version=3)

    broker.time.advance(60_000)
    await second

    late = [each.event for each in broker.events.of_group("g") if each.event.name != "rebalance"]
    assert [(event.name, event.cause) for event in late] == [
        ("group_stable", "assigned"),
        ("member_expired", "join_timeout"),
    ]
    assert "did not join again within 60,000 ms" in late[1].sentence()


async def test_a_static_member_that_returns_is_named_with_the_one_it_fences() -> None:
    broker = GroupBroker()
    former = broker.stable_member(group_instance_id="i").member_id
    await until_idle(100)

    broker.join(group_instance_id="i")
    await until_idle(100)

    last = broker.events.of_group("g")[-1].event
    assert (last.name, last.cause) == ("member_replaced", "static_member")
    assert "static member 'i' as 'i-" in last.sentence()
    assert last.sentence().endswith(f"came back as another process, and '{former}' is fenced")


async def test_a_client_that_is_given_a_member_id_and_never_joins_is_named_as_late() -> None:
    broker = GroupBroker()
    broker.stable_member(session_timeout_ms=300_000)

    answer = broker.join(version=9)
    broker.time.advance(10_000)

    assert not inspect.isawaitable(answer)
    last = broker.events.of_group("g")[-1].event
    assert (last.name, last.cause) == ("member_expired", "never_joined")
    assert last.fields()["member_id"] == answer.member_id
