"""What a group looks like when its record cannot be stored: too large, no disk, no replicas."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from kbroker.coordinator.group.coordinated_group import Committer
from kbroker.coordinator.group.group_state import GroupState
from kbroker.coordinator.group.offsets import CommittedOffset
from kbroker.coordinator.group_coordinator import Caller
from kbroker.errors import ErrorCode
from kbroker.model import GROUP_METADATA_TOPIC, TopicPartition
from kbroker.protocol.messages.heartbeat import HeartbeatRequest
from kbroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kbroker.record.record_batch import read_header
from kbroker.replication.partitions.produce_result import AppendOutcome, PartitionProduceResult
from tests.fakes.brokers.disk_offsets_log import DiskOffsetsLog
from tests.fakes.brokers.group_broker import SUBSCRIPTION, GroupBroker
from tests.fakes.clusters.replication import Replication
from tests.fakes.logs.log_maker import NOW_MS, open_log

CALLER = Caller(client_id="c", client_host="/127.0.0.1", api_version=3)
MAX_BYTES = 2000
HUGE = b"x" * MAX_BYTES
HOME = TopicPartition(GROUP_METADATA_TOPIC, 0)
REFUSALS = {
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.REQUEST_TIMED_OUT,
}


@pytest.fixture
def broker(tmp_path: Path) -> GroupBroker:
    made = GroupBroker(lead=False)
    made.lead(DiskOffsetsLog(open_log(tmp_path / "log", max_message_bytes=MAX_BYTES)))
    return made


def commit(broker: GroupBroker, count: int, metadata: str, group: str = "g") -> Any:
    return broker.groups.offsets.commit(
        Committer(group),
        [
            (
                TopicPartition("t", index),
                CommittedOffset(offset=7, metadata=metadata, commit_timestamp_ms=NOW_MS),
            )
            for index in range(count)
        ],
    )


def committed(broker: GroupBroker, count: int, group: str = "g") -> list[tuple[int, ErrorCode]]:
    partitions = [TopicPartition("t", index) for index in range(count)]
    fetched = broker.groups.offsets.fetch(group, partitions, True)
    return [(value.offset, value.error) for _, value in fetched]


def heartbeat(broker: GroupBroker, joined: JoinGroupResponse, **fields: Any) -> ErrorCode:
    return broker.groups.heartbeat(
        HeartbeatRequest(
            group_id="g",
            member_id=joined.member_id,
            generation_id=joined.generation_id,
            **fields,
        )
    )


def described(broker: GroupBroker, group: str = "g") -> tuple[str, list[int]]:
    _, found = broker.groups.describe_group(group)
    return found.group_state, [len(member.member_metadata) for member in found.members]


# ---- commits


def test_a_commit_too_large_for_one_batch_is_refused_and_leaves_nothing(
    broker: GroupBroker,
) -> None:
    codes = commit(broker, 4, "m" * 600)

    assert codes == [ErrorCode.INVALID_COMMIT_OFFSET_SIZE] * 4
    assert committed(broker, 4) == [(-1, ErrorCode.NONE)] * 4
    assert described(broker) == (GroupState.DEAD.value, [])
    assert broker.log().log_end_offset == 0


def test_a_commit_that_no_batch_can_hold_is_not_even_offered_to_the_log(
    broker: GroupBroker,
) -> None:
    with patch.object(broker.replicas, "append_records") as offered:
        codes = commit(broker, 4, "m" * 600)

    assert codes == [ErrorCode.INVALID_COMMIT_OFFSET_SIZE] * 4
    assert not offered.called


def test_metadata_too_long_keeps_its_own_code(broker: GroupBroker) -> None:
    value = CommittedOffset(offset=1, metadata="m" * 4097, commit_timestamp_ms=NOW_MS)
    large = CommittedOffset(offset=1, metadata="m" * 4096, commit_timestamp_ms=NOW_MS)

    codes = broker.groups.offsets.commit(
        Committer("g"), [(TopicPartition("t", 0), value), (TopicPartition("t", 1), large)]
    )

    wanted = [ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE]
    assert codes == wanted


@pytest.mark.parametrize(("refusal", "told"), REFUSALS.items())
def test_a_refused_commit_leaves_the_one_before(
    broker: GroupBroker, refusal: ErrorCode, told: ErrorCode
) -> None:
    assert commit(broker, 2, "m") == [ErrorCode.NONE] * 2
    broker.replicas.error = refusal

    codes = commit(broker, 3, "n")

    assert codes == [told] * 3
    assert [offset for offset, _ in committed(broker, 3)] == [7, 7, -1]
    assert {error for _, error in committed(broker, 3)} == {ErrorCode.NONE}


def test_a_commit_that_fails_in_an_unforeseen_way_is_answered(broker: GroupBroker) -> None:
    def fails(*_args: object) -> None:
        raise RuntimeError("bug")

    broker.replicas.append_records = fails  # type: ignore[method-assign, assignment]

    assert commit(broker, 1, "m") == [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert committed(broker, 1) == [(-1, ErrorCode.NONE)]


def test_many_tombstones_go_into_several_batches(broker: GroupBroker, tmp_path: Path) -> None:
    for first in range(0, 60, 10):
        codes = broker.groups.offsets.commit(
            Committer("g"),
            [
                (TopicPartition("t", at), CommittedOffset(offset=7, commit_timestamp_ms=NOW_MS))
                for at in range(first, first + 10)
            ],
        )
        assert codes == [ErrorCode.NONE] * 10
    before = broker.log().log_end_offset

    assert broker.groups.delete_group("g") is ErrorCode.NONE

    assert broker.log().log_end_offset == before + 60
    broker.log().close()
    after = GroupBroker(lead=False)
    after.lead(DiskOffsetsLog(open_log(tmp_path / "log", recovery_point=before + 60)))
    assert committed(after, 60) == [(-1, ErrorCode.NONE)] * 60


def test_a_group_whose_end_cannot_be_written_is_not_deleted(broker: GroupBroker) -> None:
    assert commit(broker, 2, "m") == [ErrorCode.NONE] * 2
    broker.replicas.error = ErrorCode.KAFKA_STORAGE_ERROR

    assert broker.groups.delete_group("g") is ErrorCode.NOT_COORDINATOR

    assert committed(broker, 2) == [(7, ErrorCode.NONE)] * 2
    broker.replicas.error = ErrorCode.NONE
    assert broker.groups.delete_group("g") is ErrorCode.NONE
    assert described(broker)[0] == GroupState.DEAD.value


@pytest.mark.parametrize("refused", [0, 1])
def test_a_group_of_which_only_a_part_can_be_deleted_is_what_the_next_load_finds(
    refused: int,
) -> None:
    broker = GroupBroker(mode=Replication.IMMEDIATE)
    assert commit(broker, 4, "m") == [ErrorCode.NONE] * 4
    append, parts = broker.replicas.append_records, []

    def fills_up(entries: Any, *rest: Any) -> Any:
        count = read_header(entries[0][1]).record_count
        error = ErrorCode.MESSAGE_TOO_LARGE
        if count <= 2:
            parts.append(count)
            if len(parts) != refused + 1:
                return append(entries, *rest)
            error = ErrorCode.KAFKA_STORAGE_ERROR
        return AppendOutcome([PartitionProduceResult(HOME, error)])

    with patch.object(broker.replicas, "append_records", fills_up):
        assert broker.groups.delete_group("g") is ErrorCode.NOT_COORDINATOR

    left = [7, 7, -1, -1] if refused == 0 else [-1, -1, 7, 7]
    assert [offset for offset, _ in committed(broker, 4)] == left
    assert committed(broker.restarted(), 4) == committed(broker, 4)
    assert broker.groups.delete_group("g") is ErrorCode.NONE
    assert described(broker.restarted())[0] == GroupState.DEAD.value


@pytest.mark.parametrize(
    ("is_refused", "told"),
    [(True, ErrorCode.COORDINATOR_NOT_AVAILABLE), (False, ErrorCode.NOT_COORDINATOR)],
    ids=["refused", "resigned"],
)
def test_a_group_is_not_called_deleted_before_that_is_in_the_log(
    is_refused: bool, told: ErrorCode
) -> None:
    async def scenario() -> None:
        broker = GroupBroker(mode=Replication.IMMEDIATE)
        replicas, checked = broker.replicas, asyncio.get_running_loop().create_future()
        assert commit(broker, 2, "m") == [ErrorCode.NONE] * 2
        with patch.object(replicas, "append_records", lambda *_: AppendOutcome([], checked)):
            committing = commit(broker, 1, "on a thread", "h")

            deleted = broker.groups.delete_group("g")

        if is_refused:
            refusal = ErrorCode.KAFKA_STORAGE_ERROR
            checked.set_result([PartitionProduceResult(HOME, refusal)])
        else:
            broker.resign()
        assert await committing == [ErrorCode.NOT_COORDINATOR]
        assert await deleted is told  # type: ignore[misc]
        after = broker.restarted()
        assert committed(after, 2) == [(7, ErrorCode.NONE)] * 2
        assert after.groups.delete_group("g") is ErrorCode.NONE

    asyncio.run(scenario())


def test_a_group_whose_end_is_refused_behind_a_commit_has_not_expired() -> None:
    async def scenario() -> None:
        broker = GroupBroker(mode=Replication.IMMEDIATE, offsets_retention_minutes=1)
        replicas, checked = broker.replicas, asyncio.get_running_loop().create_future()
        assert commit(broker, 1, "m") == [ErrorCode.NONE]
        with patch.object(replicas, "append_records", lambda *_: AppendOutcome([], checked)):
            committing = commit(broker, 1, "on a thread", "h")
            broker.time.advance(60_000)
            list(broker.groups.offsets.expire())
        replicas.error = ErrorCode.KAFKA_STORAGE_ERROR
        checked.set_result([PartitionProduceResult(HOME, replicas.error)])

        assert await committing == [ErrorCode.NOT_COORDINATOR]
        assert committed(broker, 1) == [(7, ErrorCode.NONE)]
        replicas.error = ErrorCode.NONE
        list(broker.groups.offsets.expire())
        assert described(broker)[0] == GroupState.DEAD.value

    asyncio.run(scenario())


# ---- assignments and members


@pytest.mark.parametrize("is_subscription", [True, False], ids=["metadata", "assignment"])
def test_a_group_too_large_for_a_record_rebalances(
    broker: GroupBroker, is_subscription: bool
) -> None:
    protocols = [JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=HUGE)]
    given = {"protocols": protocols} if is_subscription else {}
    joined = join(broker, **given)

    refused = broker.sync(
        joined.member_id,
        joined.generation_id,
        assignments={joined.member_id: b"" if is_subscription else HUGE},
    )

    assert refused.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert refused.assignment == b""
    assert heartbeat(broker, joined) is ErrorCode.REBALANCE_IN_PROGRESS
    assert described(broker)[0] == GroupState.PREPARING_REBALANCE.value
    again = join(broker, joined.member_id)
    synced = broker.sync(
        again.member_id, again.generation_id, assignments={again.member_id: b"all"}
    )
    assert (again.generation_id, synced.assignment) == (2, b"all")
    assert described(broker) == (GroupState.STABLE.value, [len(SUBSCRIPTION)])


def join(broker: GroupBroker, member_id: str = "", **fields: Any) -> JoinGroupResponse:
    protocols = [JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)]
    request = {
        "group_id": "g",
        "member_id": member_id,
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "protocol_type": "consumer",
        "protocols": protocols,
        **fields,
    }
    answer = broker.groups.join_group(JoinGroupRequest(**request), CALLER)
    assert isinstance(answer, JoinGroupResponse)
    return answer


def test_a_static_member_that_cannot_be_stored_keeps_its_old_self(broker: GroupBroker) -> None:
    first = join(broker, group_instance_id="i")
    broker.sync(first.member_id, 1, group_instance_id="i", assignments={first.member_id: b"all"})
    protocols = [JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=HUGE)]

    refused = join(broker, group_instance_id="i", protocols=protocols)

    assert refused.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert (refused.generation_id, refused.protocol_name) == (1, "range")
    assert (refused.leader, refused.member_id, refused.members) == (first.member_id, "", [])
    assert heartbeat(broker, first, group_instance_id="i") is ErrorCode.NONE
    assert described(broker) == (GroupState.STABLE.value, [len(SUBSCRIPTION)])


@pytest.mark.parametrize(("refusal", "told"), REFUSALS.items())
@pytest.mark.parametrize("is_held", [True, False])
async def test_whoever_waits_for_an_assignment_is_told_and_can_go_on(
    broker: GroupBroker, refusal: ErrorCode, told: ErrorCode, is_held: bool
) -> None:
    joined = join(broker)
    replicas = broker.replicas
    replicas.mode = Replication.IMMEDIATE  # apart from what is held
    replicas.holds = is_held
    replicas.error = ErrorCode.NONE if is_held else refusal
    answer = broker.sync(joined.member_id, 1, assignments={joined.member_id: b"all"})
    if is_held:
        replicas.release(refusal)
        answer = await answer  # type: ignore[misc]
    wanted = {ErrorCode.REQUEST_TIMED_OUT: ErrorCode.REBALANCE_IN_PROGRESS}.get(told, told)
    assert answer.error_code == wanted  # type: ignore[union-attr]
    replicas.holds, replicas.error = False, ErrorCode.NONE

    again = join(broker, joined.member_id)
    synced = broker.sync(again.member_id, 2, assignments={again.member_id: b"all"})

    assert synced.assignment == b"all"  # type: ignore[union-attr]
    assert described(broker)[0] == GroupState.STABLE.value


# ---- names


@pytest.mark.parametrize(
    "fields",
    [
        {"group_instance_id": "i" * 32_740},
        {"group_id": "�" * 20_000},
        {"protocol_type": "�" * 20_000},
        {"protocols": [JoinGroupRequest.JoinGroupRequestProtocol(name="�" * 20_000)]},
    ],
    ids=["member id", "group", "type", "protocol"],
)
def test_a_name_that_no_record_can_hold_lets_nobody_in(
    broker: GroupBroker, fields: dict[str, Any]
) -> None:
    refused = join(broker, **fields)

    assert refused.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert broker.groups.list_groups([], [])[1] == []


def test_a_commit_of_a_group_that_no_record_can_hold_is_refused(broker: GroupBroker) -> None:
    assert commit(broker, 2, "m", "�" * 20_000) == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2
    assert broker.groups.list_groups([], [])[1] == []


# ---- answers that wait for the replicas


async def test_a_static_member_is_taken_in_when_its_record_is_stored(broker: GroupBroker) -> None:
    broker.replicas.mode = Replication.IMMEDIATE
    first = join(broker, group_instance_id="i")
    assigned = {first.member_id: b"all"}
    broker.sync(first.member_id, 1, group_instance_id="i", assignments=assigned)
    broker.replicas.holds = True
    answer = broker.join(version=9, group_instance_id="i")

    assert heartbeat(broker, first, group_instance_id="i") is ErrorCode.NONE
    broker.replicas.release()
    second = await answer  # type: ignore[misc]

    assert (second.error_code, second.generation_id, second.skip_assignment) == (0, 1, True)
    fenced = heartbeat(broker, first, group_instance_id="i")
    assert fenced is ErrorCode.FENCED_INSTANCE_ID


async def test_a_static_member_stored_after_the_group_went_on_joins_as_the_group_is_then(
    broker: GroupBroker,
) -> None:
    broker.replicas.mode = Replication.IMMEDIATE
    first = join(broker, group_instance_id="i")
    assigned = {first.member_id: b"all"}
    broker.sync(first.member_id, 1, group_instance_id="i", assignments=assigned)
    broker.replicas.holds = True
    static = asyncio.ensure_future(broker.join(version=9, group_instance_id="i"))
    other = broker.join(version=3)

    broker.replicas.release()
    replaced, joined = await static, await other  # type: ignore[misc]

    assert (replaced.generation_id, joined.generation_id) == (2, 2)
    assert replaced.member_id not in (first.member_id, joined.member_id)
    fenced = heartbeat(broker, first, group_instance_id="i")
    assert fenced is ErrorCode.FENCED_INSTANCE_ID


async def two_static_members(broker: GroupBroker, **fields: Any) -> JoinGroupResponse:
    """`i` and `j` in a stable group; the answer to the leader, `i`."""
    first = broker.stable_member(group_instance_id="i", **fields)
    waiting = broker.join(version=9, group_instance_id="j", **fields)
    leader = broker.join("g", first.member_id, group_instance_id="i", **fields)
    second = await waiting  # type: ignore[misc]
    assert isinstance(leader, JoinGroupResponse)
    given = {first.member_id: b"one", second.member_id: b"two"}
    broker.sync(first.member_id, leader.generation_id, group_instance_id="i", assignments=given)
    return leader


@pytest.mark.parametrize("refusal", [ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT])
async def test_static_members_that_come_back_together_are_all_known_to_the_next_coordinator(
    refusal: ErrorCode,
) -> None:
    broker = GroupBroker(mode=Replication.IMMEDIATE)
    leader = await two_static_members(broker)
    replicas = broker.replicas
    replicas.holds = True
    returning = [broker.join(version=9, group_instance_id=name) for name in "ij"]
    (first, *rest), replicas.held = replicas.held, []
    replicas.held = [first]
    replicas.release(refusal)
    replicas.held = rest
    replicas.release()
    replicas.holds = False
    members = [await each for each in returning]  # type: ignore[misc]
    if refusal is not ErrorCode.NONE:
        members[0] = broker.join(version=9, group_instance_id="i")

    after = broker.restarted()

    for name, member in zip("ij", members, strict=True):
        assert member.generation_id == leader.generation_id
        assert heartbeat(after, member, group_instance_id=name) is ErrorCode.NONE


def member_ids(broker: GroupBroker) -> list[str]:
    _, found = broker.groups.describe_group("g")
    return [member.member_id for member in found.members]


@pytest.mark.parametrize(
    ("late", "told"),
    [
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REBALANCE_IN_PROGRESS),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
async def test_a_static_member_not_confirmed_in_time_is_the_one_that_the_next_load_finds(
    late: ErrorCode, told: ErrorCode
) -> None:
    broker = GroupBroker(mode=Replication.IMMEDIATE)
    first = broker.stable_member(group_instance_id="i")
    broker.replicas.holds = True
    joining = broker.join(version=9, group_instance_id="i")
    broker.replicas.release(late)
    broker.replicas.holds = False

    answer = await joining  # type: ignore[misc]

    assert (answer.error_code, answer.member_id) == (told, "")
    (replaced,) = member_ids(broker)
    assert replaced != first.member_id
    assert member_ids(broker.restarted()) == [replaced]
    again = broker.join(version=9, group_instance_id="i")
    assert (again.error_code, again.generation_id) == (0, 1)  # type: ignore[union-attr]
    assert member_ids(broker) == [again.member_id]  # type: ignore[union-attr]
    assert member_ids(broker.restarted()) == member_ids(broker)


async def test_a_static_member_whose_turn_at_the_log_never_came_keeps_its_old_self() -> None:
    broker = GroupBroker(mode=Replication.IMMEDIATE)
    first = broker.stable_member(group_instance_id="i")
    waiting = asyncio.get_running_loop().create_future()
    with patch.object(broker.replicas, "append_records", lambda *_: AppendOutcome([], waiting)):
        joining = broker.join(version=9, group_instance_id="i")
    waiting.set_result([PartitionProduceResult(HOME, ErrorCode.REQUEST_TIMED_OUT)])

    refused = await joining  # type: ignore[misc]

    assert refused.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert member_ids(broker) == member_ids(broker.restarted()) == [first.member_id]


async def test_a_static_member_not_confirmed_behind_a_refused_one_is_written_anew() -> None:
    broker = GroupBroker(mode=Replication.IMMEDIATE)
    leader = await two_static_members(broker)
    replicas, checked = broker.replicas, asyncio.get_running_loop().create_future()
    with patch.object(replicas, "append_records", lambda *_: AppendOutcome([], checked)):
        first, second = (broker.join(version=9, group_instance_id=name) for name in "ij")
    replicas.holds = True
    checked.set_result([PartitionProduceResult(HOME, ErrorCode.NOT_ENOUGH_REPLICAS)])
    assert (await first).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE  # type: ignore[misc]
    replicas.release(ErrorCode.REQUEST_TIMED_OUT)
    await asyncio.sleep(0)
    replicas.release()

    joined = await second  # type: ignore[misc]

    assert (joined.error_code, joined.generation_id) == (0, leader.generation_id)
    assert member_ids(broker) == [leader.member_id, joined.member_id]
    assert member_ids(broker.restarted()) == member_ids(broker)


async def test_static_members_that_come_back_with_no_protocol_in_common_rebalance() -> None:
    broker = GroupBroker(mode=Replication.IMMEDIATE)
    await two_static_members(broker, protocols=("range", "sticky"))
    broker.replicas.holds = True
    first = broker.join(version=9, group_instance_id="i", protocols=("range",))
    second = broker.join(version=9, group_instance_id="j", protocols=("sticky",))
    broker.replicas.release()

    refused = await first  # type: ignore[misc]

    assert refused.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert described(broker)[0] == GroupState.PREPARING_REBALANCE.value
    broker.time.advance(60_000)
    assert (await second).protocol_name == "sticky"  # type: ignore[misc]


async def test_who_waits_for_the_replicas_is_sent_to_the_next_coordinator(
    broker: GroupBroker,
) -> None:
    broker.replicas.mode = Replication.IMMEDIATE
    first = join(broker, group_instance_id="i")
    assigned = {first.member_id: b"all"}
    broker.sync(first.member_id, 1, group_instance_id="i", assignments=assigned)
    broker.replicas.holds = True
    static = broker.join(version=9, group_instance_id="i")
    committing = commit(broker, 2, "m", "other")

    broker.resign()

    assert (await static).error_code == ErrorCode.NOT_COORDINATOR  # type: ignore[misc]
    assert await committing == [ErrorCode.NOT_COORDINATOR] * 2
    broker.replicas.release()  # too late for anybody


async def test_a_commit_confirmed_after_its_time_is_seen_then(broker: GroupBroker) -> None:
    broker.replicas.mode = Replication.IMMEDIATE
    assert commit(broker, 1, "m") == [ErrorCode.NONE]
    broker.replicas.holds = True
    late = broker.groups.offsets.commit(
        Committer("g"),
        [(TopicPartition("t", 0), CommittedOffset(offset=8, commit_timestamp_ms=NOW_MS))],
    )
    broker.replicas.release(ErrorCode.REQUEST_TIMED_OUT)
    assert await late == [ErrorCode.REQUEST_TIMED_OUT]

    assert committed(broker, 1) == [(-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)]
    broker.log().confirm()
    assert committed(broker, 1) == [(8, ErrorCode.NONE)]


@pytest.mark.parametrize("replication", [Replication.FAILING], indirect=True)
def test_what_is_sent_again_until_it_is_stored_is_there_after_a_restart() -> None:
    broker = GroupBroker()
    member = broker.stable_member()
    while heartbeat(broker, member) is not ErrorCode.NONE or described(broker)[0] != "Stable":
        member = broker.join(member_id=member.member_id)
        broker.sync(member.member_id, member.generation_id, assignments={member.member_id: b"all"})
    refused = 0
    for offset in range(20):
        value = CommittedOffset(offset=offset, commit_timestamp_ms=NOW_MS)
        committer = Committer("g", member.member_id, None, member.generation_id)
        while broker.groups.offsets.commit(committer, [(TopicPartition("t", 0), value)]) != [0]:
            refused += 1

    assert refused > 5
    assert committed(broker, 1) == [(19, ErrorCode.NONE)]
    assert committed(broker.restarted(), 1) == [(19, ErrorCode.NONE)]
