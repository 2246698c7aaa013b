"""The classic group protocol: joining, syncing, heartbeats, leaving, and what tools see of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from compat_tests.wire.group_member import Member, commit, subscription
from compat_tests.wire.wire_client import (
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    FIND_COORDINATOR,
    JOIN_GROUP,
    LEAVE_GROUP,
    LIST_GROUPS,
    OFFSET_DELETE,
    SYNC_GROUP,
    WireClient,
    code,
)

UNKNOWN_MEMBER, ILLEGAL_GENERATION = "25 UNKNOWN_MEMBER_ID", "22 ILLEGAL_GENERATION"
INCONSISTENT, REBALANCING = "23 INCONSISTENT_GROUP_PROTOCOL", "27 REBALANCE_IN_PROGRESS"
UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"


@pytest.fixture(scope="module", autouse=True)
def served(bootstrap: str) -> None:
    """Groups are served."""
    wire = WireClient(bootstrap)
    wire.wait_for_coordinator("any")
    wire.close()


@pytest.fixture
def new(connect: Callable[[], WireClient], group: str) -> Member:
    """A member that has not joined yet."""
    return Member(connect(), group)


@pytest.fixture
def member(connect: Callable[[], WireClient], group: str) -> Member:
    """The only, stable member of a group."""
    return Member(connect(), group).join_and_sync()


def join_once(member: Member, **values: Any) -> str:
    return code(member.wire.call(JOIN_GROUP, 5, **member.join_fields(**values)).error_code)


@pytest.mark.row(149)
def test_heartbeats_of_strangers_are_refused(member: Member, topic: str) -> None:
    assert member.heartbeat(group_id=topic) == UNKNOWN_MEMBER
    assert member.heartbeat(member_id="nobody") == UNKNOWN_MEMBER
    assert member.heartbeat(generation_id=member.generation + 1) == ILLEGAL_GENERATION
    assert member.heartbeat() == "0"


@pytest.mark.row(150)
def test_a_member_that_left_is_unknown(member: Member) -> None:
    assert member.leave() == "0"
    assert member.heartbeat() == UNKNOWN_MEMBER


@pytest.mark.row(151)
def test_members_hear_of_a_rebalance_by_heartbeat(
    member: Member, connect: Callable[[], WireClient], wire: WireClient
) -> None:
    topic = wire.create_topic()
    second = Member(connect(), member.group)
    joining = second.start_joining()
    # The two connections are served in any order, so the news may take a few heartbeats.
    assert any(member.heartbeat() == REBALANCING for _ in range(1_000))
    assert member.commit(topic) == "0"
    assert member.sync() == REBALANCING

    assert code(member.join().error_code) == "0"
    joined = second.wire.receive(JOIN_GROUP, 5, joining)
    assert (code(joined.error_code), joined.generation_id) == ("0", member.generation)
    assert member.generation == 2


def test_an_id_that_was_handed_out_is_that_of_a_dynamic_member(new: Member) -> None:
    member_id = new.wire.call(JOIN_GROUP, 5, **new.join_fields()).member_id
    fields = new.join_fields(member_id=member_id, group_instance_id="i")
    refused = new.wire.call(JOIN_GROUP, 5, **fields)

    assert (code(refused.error_code), refused.member_id) == ("-1 UNKNOWN_SERVER_ERROR", "")
    assert (
        join_once(new, group_id=f"{new.group}-2", member_id=member_id, group_instance_id="i")
        == UNKNOWN_MEMBER
    )
    assert join_once(new, member_id=member_id) == "0"


@pytest.mark.row(152)
def test_a_new_member_is_given_an_id_first(new: Member) -> None:
    answer = new.wire.call(JOIN_GROUP, 5, **new.join_fields())
    assert code(answer.error_code) == "79 MEMBER_ID_REQUIRED"
    assert re.fullmatch(f"raw-{UUID}", answer.member_id)
    assert (answer.generation_id, answer.leader, answer.protocol_name) == (-1, "", "")


@pytest.mark.row(153)
def test_a_new_member_joins_at_once_before_version_4(new: Member) -> None:
    fields = new.join_fields()
    del fields["group_instance_id"]
    answer = new.wire.call(JOIN_GROUP, 3, **fields)
    assert (code(answer.error_code), answer.generation_id) == ("0", 1)
    assert [m.member_id for m in answer.members] == [answer.member_id] == [answer.leader]


@pytest.mark.row(154)
def test_an_unknown_member_id_may_not_join(new: Member, topic: str, member: Member) -> None:
    assert join_once(new, member_id="nobody", group_id=topic) == UNKNOWN_MEMBER
    assert join_once(new, member_id="nobody") == UNKNOWN_MEMBER


@pytest.mark.row(155)
def test_an_empty_group_id_may_not_join(new: Member) -> None:
    assert join_once(new, group_id="") == "24 INVALID_GROUP_ID"


@pytest.mark.row(156)
@pytest.mark.parametrize("session_timeout_ms", [1, 1_800_001])
def test_the_session_timeout_has_bounds(new: Member, session_timeout_ms: int) -> None:
    refused = join_once(new, session_timeout=session_timeout_ms)
    assert refused == "26 INVALID_SESSION_TIMEOUT"


@pytest.mark.row(157)
def test_a_second_member_must_share_type_and_a_protocol(member: Member, new: Member) -> None:
    assert join_once(new, protocol_type="connect") == INCONSISTENT
    assert join_once(new, protocols=[{"name": "other", "metadata": b""}]) == INCONSISTENT


@pytest.mark.row(158)
def test_a_new_group_needs_a_protocol_and_a_type(new: Member) -> None:
    assert join_once(new, protocols=[]) == INCONSISTENT
    assert join_once(new, protocol_type="") == INCONSISTENT


@pytest.mark.row(159)
def test_a_second_process_with_the_same_instance_id_replaces_the_first(
    connect: Callable[[], WireClient], group: str, wire: WireClient
) -> None:
    topic = wire.create_topic()
    first = Member(connect(), group, instance="i").join_and_sync()
    second = Member(connect(), group, instance="i")
    joined = second.join()
    assert (code(joined.error_code), joined.generation_id) == ("0", 1)
    assert joined.member_id != first.member_id
    assert re.fullmatch(f"i-{UUID}", joined.member_id)
    assert first.heartbeat() == "82 FENCED_INSTANCE_ID"
    assert first.commit(topic) == "82 FENCED_INSTANCE_ID"


@pytest.mark.row(160)
def test_an_unknown_instance_id_is_an_unknown_member(member: Member) -> None:
    assert member.heartbeat(group_instance_id="other") == UNKNOWN_MEMBER


@pytest.mark.row(161)
def test_sync_checks_member_generation_and_protocol(member: Member) -> None:
    assert member.sync(member_id="nobody") == UNKNOWN_MEMBER
    assert member.sync(generation_id=member.generation + 1) == ILLEGAL_GENERATION
    fields = {**member.identity(), "protocol_type": "consumer", "protocol_name": "other"}
    assert code(member.wire.call(SYNC_GROUP, 5, **fields).error_code) == INCONSISTENT


@pytest.mark.row(162)
def test_a_stable_member_may_sync_again(member: Member) -> None:
    fields = member.identity()
    first, second = (member.wire.call(SYNC_GROUP, 3, **fields) for _ in range(2))
    assert code(second.error_code) == "0"
    assert first.assignment == second.assignment != b""


@pytest.mark.row(163)
def test_a_stranger_cannot_leave(member: Member) -> None:
    one = member.wire.call(LEAVE_GROUP, 1, group_id=member.group, member_id="nobody")
    assert code(one.error_code) == UNKNOWN_MEMBER
    members = [{"member_id": "nobody", "group_instance_id": None}]
    several = member.wire.call(LEAVE_GROUP, 3, group_id=member.group, members=members)
    assert code(several.error_code) == "0"
    assert code(several.members[0].error_code) == UNKNOWN_MEMBER


@pytest.mark.row(164)
def test_an_unknown_group_is_dead(wire: WireClient, group: str) -> None:
    old = wire.call(DESCRIBE_GROUPS, 5, groups=[group]).groups[0]
    assert (code(old.error_code), old.group_state, old.protocol_type) == ("0", "Dead", "")
    new = wire.call(DESCRIBE_GROUPS, 6, groups=[group]).groups[0]
    assert (
        code(new.error_code, new.error_message)
        == f"69 GROUP_ID_NOT_FOUND (Group {group} not found.)"
    )
    assert new.group_state == "Dead"


@pytest.mark.row(165)
def test_a_group_goes_through_its_states(new: Member) -> None:
    assert code(new.join().error_code) == "0"
    assert new.describe() == "CompletingRebalance protocol='' members=1"
    assert new.sync() == "0"
    assert new.describe() == "Stable protocol='range' members=1"
    assert new.leave() == "0"
    assert new.describe() == "Empty protocol='' members=0"


@pytest.mark.row(166)
def test_only_an_empty_group_can_be_deleted(wire: WireClient, member: Member, topic: str) -> None:
    empty = f"{topic}-empty"
    assert commit(wire, empty, wire.create_topic()) == "0"
    answer = wire.call(DELETE_GROUPS, 1, groups_names=[topic, member.group, empty])
    assert {r.group_id: code(r.error_code) for r in answer.results} == {
        topic: "69 GROUP_ID_NOT_FOUND",
        member.group: "68 NON_EMPTY_GROUP",
        empty: "0",
    }


@pytest.mark.row(167)
def test_a_group_loses_offsets_of_topics_that_its_members_do_not_follow(
    wire: WireClient, new: Member, topic: str
) -> None:
    followed, other = wire.create_topic(), wire.create_topic()
    protocol = {"name": "range", "metadata": subscription(followed)}
    assert code(new.join(protocols=[protocol]).error_code) == "0"
    assert new.sync() == "0"
    for name in (followed, other):
        assert new.commit(name) == "0"

    def deleted(group: str) -> tuple[str, dict[str, list[str]]]:
        partitions = [{"partition_index": 0}]
        topics = [{"name": name, "partitions": partitions} for name in (followed, other)]
        answer = wire.call(OFFSET_DELETE, 0, group_id=group, topics=topics)
        rows = {t.name: [code(p.error_code) for p in t.partitions] for t in answer.topics}
        return code(answer.error_code), rows

    assert deleted(topic) == ("69 GROUP_ID_NOT_FOUND", {})
    assert deleted(new.group) == ("0", {followed: ["86 GROUP_SUBSCRIBED_TO_TOPIC"], other: ["0"]})


@pytest.mark.row(168)
def test_a_key_type_that_does_not_exist_is_refused(wire: WireClient) -> None:
    answer = wire.call(FIND_COORDINATOR, 1, key="x", key_type=7)
    assert code(answer.error_code) == "42 INVALID_REQUEST"


@pytest.mark.row(168)
def test_an_empty_key_has_a_coordinator(wire: WireClient) -> None:
    found = wire.call(FIND_COORDINATOR, 4, key_type=0, coordinator_keys=[""]).coordinators[0]
    assert (code(found.error_code), found.node_id) == ("0", wire.node_id())


@pytest.mark.row(169)
def test_groups_are_listed_by_state(wire: WireClient, member: Member) -> None:
    listed = wire.call(LIST_GROUPS, 4, states_filter=["Stable"]).groups
    assert member.group in {g.group_id for g in listed}
    assert {g.group_state for g in listed} == {"Stable"}


@pytest.mark.row(169)
def test_groups_are_listed_by_type(wire: WireClient, member: Member) -> None:
    consumer = wire.call(LIST_GROUPS, 5, types_filter=["consumer"]).groups
    assert member.group not in {g.group_id for g in consumer}
    assert {g.group_type for g in consumer} <= {"consumer"}
    classic = wire.call(LIST_GROUPS, 5, types_filter=["classic"]).groups
    assert (member.group, "classic") in {(g.group_id, g.group_type) for g in classic}


@pytest.mark.row(169)
def test_an_unknown_state_lists_nothing(wire: WireClient, member: Member) -> None:
    answer = wire.call(LIST_GROUPS, 4, states_filter=["Nope"])
    assert (code(answer.error_code), answer.groups) == ("0", ())
