"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup in all their versions."""

from __future__ import annotations

import pytest

from kbroker.errors import ErrorCode
from kbroker.protocol.messages.heartbeat import HeartbeatRequest
from kbroker.protocol.messages.join_group import JoinGroupRequest
from kbroker.protocol.messages.leave_group import LeaveGroupRequest
from kbroker.protocol.messages.sync_group import SyncGroupRequest
from tests.fakes.brokers.group_caller import GroupCaller


def join_request(member_id: str = "", **fields: object) -> JoinGroupRequest:
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"meta")
    values = {"protocol_type": "consumer", "protocols": [protocol], "session_timeout_ms": 10_000}
    return JoinGroupRequest(group_id="g", member_id=member_id, **{**values, **fields})


def member_of(call: GroupCaller) -> str:
    joined = call(join_request(), 3)
    given = SyncGroupRequest.SyncGroupRequestAssignment(
        member_id=joined.member_id, assignment=b"all"
    )
    call(
        SyncGroupRequest(
            group_id="g", member_id=joined.member_id, generation_id=1, assignments=[given]
        ),
        3,
    )
    return joined.member_id


@pytest.mark.parametrize("version", range(4))
def test_old_clients_join_in_one_step(version: int) -> None:
    response = GroupCaller()(join_request(), version)

    assert (response.error_code, response.generation_id) == (0, 1)
    assert (response.leader, response.protocol_name) == (response.member_id, "range")
    assert [(each.member_id, each.metadata) for each in response.members] == [
        (response.member_id, b"meta")
    ]


@pytest.mark.parametrize("version", range(4, 10))
def test_newer_clients_are_given_an_id_first(version: int) -> None:
    call = GroupCaller()

    refused = call(join_request(), version)
    joined = call(join_request(refused.member_id), version)

    assert refused.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert refused.member_id.startswith("raw-")
    assert refused.protocol_name == (None if version >= 7 else "")
    assert (joined.error_code, joined.member_id) == (0, refused.member_id)
    assert joined.protocol_type == ("consumer" if version >= 7 else None)


def test_version_0_has_one_timeout_for_both() -> None:
    call = GroupCaller()

    call(join_request(), 0)

    [member] = call.broker.groups.store.find("g").group.members.values()
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (10_000, 10_000)
    assert (member.client_id, member.client_host) == ("raw", "/127.0.0.1")


@pytest.mark.parametrize("version", range(6))
def test_sync_gives_the_assignment_again(version: int) -> None:
    call = GroupCaller()
    request = SyncGroupRequest(
        group_id="g",
        member_id=member_of(call),
        generation_id=1,
        protocol_type="consumer",
        protocol_name="range",
    )

    assert call(request, version).assignment == b"all"


def test_sync_is_refused_for_unknown_members_wrong_generations_and_protocols() -> None:
    call = GroupCaller()
    member_id = member_of(call)

    def code(**fields: object) -> int:
        values = {"member_id": member_id, "generation_id": 1, "protocol_type": "consumer"}
        request = SyncGroupRequest(group_id="g", **{**values, "protocol_name": "range", **fields})
        return call(request, 5).error_code

    assert code() == 0
    assert code(member_id="nobody") == ErrorCode.UNKNOWN_MEMBER_ID
    assert code(generation_id=7) == ErrorCode.ILLEGAL_GENERATION
    assert code(protocol_name="other") == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert code(protocol_type=None) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("version", range(5))
def test_heartbeat_says_what_is_wrong(version: int) -> None:
    call = GroupCaller()
    member_id = member_of(call)

    def code(group_id: str, member: str, generation_id: int) -> int:
        request = HeartbeatRequest(group_id=group_id, member_id=member, generation_id=generation_id)
        return call(request, version).error_code

    assert [
        code("unknown", member_id, 1),
        code("g", "nobody", 1),
        code("g", member_id, 9),
        code("g", member_id, 1),
        code("", member_id, 1),
    ] == [
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.NONE,
        ErrorCode.INVALID_GROUP_ID,
    ]


@pytest.mark.parametrize("version", range(3))
def test_one_member_leaves_and_its_error_is_the_requests(version: int) -> None:
    call = GroupCaller()
    request = LeaveGroupRequest(group_id="g", member_id=member_of(call))

    assert call(request, version).error_code == 0
    assert call(request, version).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", range(3, 6))
def test_several_members_leave_each_with_its_error(version: int) -> None:
    call = GroupCaller()
    members = [
        LeaveGroupRequest.MemberIdentity(member_id=each) for each in (member_of(call), "nobody")
    ]

    response = call(LeaveGroupRequest(group_id="g", members=members), version)

    assert response.error_code == 0
    assert [each.error_code for each in response.members] == [0, ErrorCode.UNKNOWN_MEMBER_ID]
