"""The coordinator as handlers see it: joins, commits, restarts, leadership."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable
from typing import TypeVar

import pytest

from kbroker.coordinator.group.coordinated_group import Committer
from kbroker.coordinator.group.offsets import CommittedOffset
from kbroker.coordinator.group.records import GroupMetadataKey, OffsetCommitKey, read_key
from kbroker.coordinator.runtime.coordinator_finder import CoordinatorType
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import GROUP_METADATA_TOPIC, TopicPartition
from kbroker.protocol.messages.heartbeat import HeartbeatRequest
from kbroker.protocol.messages.leave_group import LeaveGroupRequest
from tests.fakes.brokers.group_broker import GroupBroker, OffsetsLog
from tests.fakes.clusters.replication import Replication
from tests.fakes.running.loop_turns import until_idle

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)
DAY_MS = 24 * 60 * 60 * 1000
ResultT = TypeVar("ResultT")


def at_once(outcome: ResultT | Awaitable[ResultT]) -> ResultT:
    assert not inspect.isawaitable(outcome), "was expected without waiting"
    return outcome


def offset(value: int, **fields: object) -> CommittedOffset:
    return CommittedOffset(offset=value, commit_timestamp_ms=1_700_000_000_000, **fields)


def commit(
    broker: GroupBroker, value: int, group_id: str = "g", **committer: object
) -> list[ErrorCode]:
    return at_once(
        broker.groups.offsets.commit(Committer(group_id, **committer), [(T0, offset(value))])
    )


def committed(broker: GroupBroker, group_id: str = "g") -> dict[TopicPartition, int]:
    fetched = broker.groups.offsets.fetch(group_id, None, False)
    return {partition: value.offset for partition, value in fetched}


def heartbeat(broker: GroupBroker, member_id: str, generation_id: int = 1) -> ErrorCode:
    return broker.groups.heartbeat(
        HeartbeatRequest(group_id="g", member_id=member_id, generation_id=generation_id)
    )


# ---- joining


def test_first_join_of_a_new_client_is_given_a_member_id() -> None:
    broker = GroupBroker()

    response = at_once(broker.join(version=4))

    assert response.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert response.member_id == "c-00000000-0000-0000-0000-000000000001"
    assert response.generation_id == -1


def test_a_single_member_joins_and_syncs_without_waiting() -> None:
    broker = GroupBroker()
    member_id = at_once(broker.join(version=9)).member_id

    joined = at_once(broker.join(member_id=member_id))
    synced = at_once(broker.sync(member_id, joined.generation_id, assignments={member_id: b"mine"}))

    assert (joined.error_code, joined.generation_id, joined.leader) == (0, 1, member_id)
    assert [member.member_id for member in joined.members] == [member_id]
    assert (synced.error_code, synced.assignment) == (0, b"mine")


def test_join_is_refused_by_group_id_session_timeout_or_unknown_member() -> None:
    broker = GroupBroker()

    codes = [
        at_once(broker.join("")).error_code,
        at_once(broker.join(session_timeout_ms=1)).error_code,
        at_once(broker.join(session_timeout_ms=1_800_001)).error_code,
        at_once(broker.join(member_id="nobody")).error_code,
        at_once(broker.join(protocols=())).error_code,
        at_once(broker.join(protocol_type="")).error_code,
    ]

    assert codes == [
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.INVALID_SESSION_TIMEOUT,
        ErrorCode.INVALID_SESSION_TIMEOUT,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    ]
    assert broker.groups.list_groups([], []) == (ErrorCode.NONE, [])


async def test_second_member_waits_until_the_first_rejoins() -> None:
    broker = GroupBroker(mode=Replication.IMMEDIATE)
    first = broker.stable_member().member_id

    second = broker.join(version=3)
    assert heartbeat(broker, first) is ErrorCode.REBALANCE_IN_PROGRESS
    assert commit(broker, 5, member_id=first, generation_id=1) == [ErrorCode.NONE]
    assert at_once(broker.sync(first, 1)).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    again = at_once(broker.join(member_id=first))

    answered = await second
    assert (again.generation_id, answered.generation_id) == (2, 2)
    assert answered.leader == first
    assert len(again.members) == 2
    assert answered.members == []
    code = commit(broker, 6, member_id=first, generation_id=2)
    assert code == [ErrorCode.REBALANCE_IN_PROGRESS]


async def test_member_that_does_not_rejoin_in_time_is_removed() -> None:
    broker = GroupBroker()
    broker.stable_member(session_timeout_ms=300_000)
    second = broker.join(version=3)

    broker.time.advance(60_000)

    answered = await second
    assert answered.leader == answered.member_id
    assert len(answered.members) == 1


async def test_initial_delay_lets_several_members_into_the_first_generation() -> None:
    broker = GroupBroker(group_initial_rebalance_delay_ms=3000)
    first = broker.join(version=3)
    broker.time.advance(2999)
    second = broker.join(version=3)

    broker.time.advance(3001)

    assert (await first).generation_id == (await second).generation_id == 1


async def test_member_joins_after_the_first_one_left_during_the_initial_delay() -> None:
    broker = GroupBroker(group_initial_rebalance_delay_ms=3000)
    first = broker.join(version=3)
    [member_id] = broker.groups.store.find("g").group.members
    broker.groups.leave_group("g", [LeaveGroupRequest.MemberIdentity(member_id=member_id)])

    second = broker.join(version=3, protocols=("sticky",))
    broker.time.advance(6000)

    assert (await first).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    joined = await second
    assert (joined.error_code, joined.protocol_name) == (0, "sticky")


def test_session_ends_without_heartbeats_and_lasts_with_them() -> None:
    broker = GroupBroker()
    member_id = broker.stable_member().member_id

    broker.time.advance(9_999)
    alive = heartbeat(broker, member_id)
    broker.time.advance(9_999)
    still_alive = heartbeat(broker, member_id)
    broker.time.advance(10_001)
    dead = heartbeat(broker, member_id)

    assert (alive, still_alive, dead) == (
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
    )


def test_heartbeats_set_no_timers() -> None:
    broker = GroupBroker()
    member_id = broker.stable_member().member_id
    armed = broker.time.armed()

    heartbeat(broker, member_id)
    broker.time.advance(5000)
    heartbeat(broker, member_id)

    assert broker.time.armed() == armed


def test_static_member_comes_back_without_a_rebalance_and_fences_the_old_process() -> None:
    broker = GroupBroker()
    first = broker.stable_member(group_instance_id="i")

    second = at_once(broker.join(version=9, group_instance_id="i"))

    old = HeartbeatRequest(
        group_id="g", member_id=first.member_id, generation_id=1, group_instance_id="i"
    )
    assert (second.error_code, second.generation_id, second.skip_assignment) == (0, 1, True)
    assert second.member_id.startswith("i-")
    assert second.member_id != first.member_id
    assert broker.groups.heartbeat(old) is ErrorCode.FENCED_INSTANCE_ID
    fenced = commit(broker, 1, member_id=first.member_id, generation_id=1, group_instance_id="i")
    assert fenced == [ErrorCode.FENCED_INSTANCE_ID]
    assert at_once(broker.sync(second.member_id, 1)).assignment == b"all"


def test_before_version_9_a_returning_static_leader_is_shown_the_old_leader_id() -> None:
    broker = GroupBroker()
    first = broker.stable_member(group_instance_id="i")

    second = at_once(broker.join(version=8, group_instance_id="i"))

    assert second.leader == first.member_id
    assert second.members == []


def test_full_group_refuses_another_member() -> None:
    broker = GroupBroker(group_max_size=1)
    broker.stable_member()

    assert at_once(broker.join(version=3)).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


# ---- leaving, describing, listing, deleting


def test_last_member_leaves_an_empty_group_that_is_written_down() -> None:
    broker = GroupBroker()
    member_id = broker.stable_member().member_id

    left = broker.groups.leave_group("g", [LeaveGroupRequest.MemberIdentity(member_id=member_id)])

    assert left == (ErrorCode.NONE, [ErrorCode.NONE])
    _, described = broker.groups.describe_group("g")
    assert (described.group_state, described.protocol_type, described.members) == (
        "Empty",
        "consumer",
        [],
    )
    _, after_restart = broker.restarted().groups.describe_group("g")
    assert after_restart.group_state == "Empty"


def test_administrator_removes_a_static_member_by_instance_id() -> None:
    broker = GroupBroker()
    broker.stable_member(group_instance_id="i")
    leaving = [
        LeaveGroupRequest.MemberIdentity(member_id="", group_instance_id="i"),
        LeaveGroupRequest.MemberIdentity(member_id="", group_instance_id="other"),
        LeaveGroupRequest.MemberIdentity(member_id="nobody"),
    ]

    _, codes = broker.groups.leave_group("g", leaving)

    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert codes == [ErrorCode.NONE, unknown, unknown]


def test_list_filters_by_state_and_type() -> None:
    broker = GroupBroker()
    broker.stable_member("live")
    commit(broker, 1, "offsets-only")

    def listed(states: list[str], types: list[str]) -> list[str]:
        return [group.group_id for group in broker.groups.list_groups(states, types)[1]]

    assert listed([], []) == ["live", "offsets-only"]
    assert listed(["stable"], []) == ["live"]
    assert listed([], ["classic"]) == ["live", "offsets-only"]
    assert listed([], ["consumer"]) == []
    assert listed(["nostate"], []) == []


def test_delete_refuses_live_and_unknown_groups_and_forgets_empty_ones() -> None:
    broker = GroupBroker()
    broker.stable_member("live")
    commit(broker, 1, "old")

    codes = [broker.groups.delete_group(group_id) for group_id in ("live", "nothing", "old")]

    assert codes == [ErrorCode.NON_EMPTY_GROUP, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.NONE]
    assert committed(broker.restarted(), "old") == {}


# ---- offsets


def test_commit_without_a_group_makes_one_but_not_with_a_generation() -> None:
    broker = GroupBroker()

    refused = commit(broker, 1, "g5", generation_id=5)
    stored = commit(broker, -5)

    assert (refused, stored) == ([ErrorCode.GROUP_ID_NOT_FOUND], [ErrorCode.NONE])
    assert committed(broker) == {T0: -5}


def test_commits_of_strangers_and_old_generations_are_refused() -> None:
    broker = GroupBroker()
    member_id = broker.stable_member().member_id

    codes = [
        commit(broker, 1, member_id="nobody", generation_id=1),
        commit(broker, 1, member_id=member_id, generation_id=0),
        commit(broker, 1),
        commit(broker, 1, member_id=member_id, generation_id=1),
    ]

    assert codes == [
        [ErrorCode.UNKNOWN_MEMBER_ID],
        [ErrorCode.ILLEGAL_GENERATION],
        [ErrorCode.UNKNOWN_MEMBER_ID],
        [ErrorCode.NONE],
    ]


def test_commit_of_nothing_makes_no_group() -> None:
    broker = GroupBroker()

    assert at_once(broker.groups.offsets.commit(Committer("g"), [])) == []

    assert broker.groups.list_groups([], []) == (ErrorCode.NONE, [])


def test_too_long_metadata_is_refused_by_itself() -> None:
    broker = GroupBroker()
    offsets = [(T0, offset(1, metadata="x" * 4097)), (T1, offset(2, metadata="x" * 4096))]

    codes = at_once(broker.groups.offsets.commit(Committer("g"), offsets))

    assert codes == [ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.NONE]
    assert committed(broker) == {T1: 2}


def test_one_request_is_one_batch() -> None:
    broker = GroupBroker()

    broker.groups.offsets.commit(Committer("g"), [(T0, offset(1)), (T1, offset(2))])

    [(base_sequence, records)] = broker.log().batches()
    assert (base_sequence, len(records)) == (0, 2)


async def test_commit_is_answered_when_the_replicas_have_it_and_unstable_until_then() -> None:
    broker = GroupBroker(mode=Replication.IMMEDIATE)
    commit(broker, 1)
    broker.replicas.holds = True
    waiting = asyncio.ensure_future(broker.groups.offsets.commit(Committer("g"), [(T0, offset(2))]))
    await asyncio.sleep(0)

    [(_, stable)] = broker.groups.offsets.fetch("g", [T0], True)
    [(_, unstable)] = broker.groups.offsets.fetch("g", [T0], False)
    assert stable.error is ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert unstable.offset == 1
    assert not waiting.done()

    broker.replicas.release()
    assert await waiting == [ErrorCode.NONE]
    assert committed(broker) == {T0: 2}


@pytest.mark.parametrize(
    ("from_log", "to_client"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REQUEST_TIMED_OUT),
    ],
)
def test_failed_commit_leaves_the_old_offset(from_log: ErrorCode, to_client: ErrorCode) -> None:
    broker = GroupBroker()
    commit(broker, 1)
    broker.replicas.error = from_log

    assert commit(broker, 2) == [to_client]
    assert committed(broker) == {T0: 1}
    [(_, stable)] = broker.groups.offsets.fetch("g", [T0], True)
    assert stable.offset == 1


def test_offsets_of_an_empty_group_expire_after_their_retention() -> None:
    broker = GroupBroker(offsets_retention_minutes=24 * 60)
    broker.groups.start()
    member_id = broker.stable_member().member_id
    commit(broker, 7, member_id=member_id, generation_id=1)
    broker.groups.leave_group("g", [LeaveGroupRequest.MemberIdentity(member_id=member_id)])

    broker.time.advance(DAY_MS - 1)
    kept = committed(broker)
    broker.time.advance(600_000)

    assert kept == {T0: 7}
    assert committed(broker) == {}
    assert broker.groups.describe_group("g")[0] is ErrorCode.GROUP_ID_NOT_FOUND
    tombstones = [read_key(r.key or b"") for r in broker.log().batches()[-1][1] if r.value is None]
    assert {type(key) for key in tombstones} == {OffsetCommitKey, GroupMetadataKey}


def test_live_group_keeps_offsets_of_topics_it_follows() -> None:
    broker = GroupBroker(offsets_retention_minutes=1)
    member_id = broker.stable_member(session_timeout_ms=1_800_000).member_id
    other = TopicPartition("other", 0)
    committer = Committer("g", member_id, None, 1)
    at_once(broker.groups.offsets.commit(committer, [(T0, offset(1)), (other, offset(2))]))

    broker.time.advance(60_000)
    for _ in broker.groups.offsets.expire():
        pass

    assert committed(broker) == {T0: 1}


def test_group_that_goes_while_offsets_expire_is_left_alone() -> None:
    broker = GroupBroker(offsets_retention_minutes=1)
    commit(broker, 1, "a")
    commit(broker, 2, "b")
    broker.time.advance(60_000)

    expiring = broker.groups.offsets.expire()
    next(expiring)
    broker.groups.delete_group("b")
    written = len(broker.log().batches())
    rest = list(expiring)

    assert len(rest) == 1
    assert len(broker.log().batches()) == written


def test_deleted_topic_takes_its_offsets_along() -> None:
    broker = GroupBroker()
    at_once(broker.groups.offsets.commit(Committer("g"), [(T0, offset(1)), (T1, offset(2))]))

    broker.groups.on_partitions_deleted([T0])

    assert committed(broker) == {T1: 2}
    assert committed(broker.restarted()) == {T1: 2}


async def test_deleted_topic_takes_commits_on_their_way_along() -> None:
    broker = GroupBroker()
    broker.replicas.holds = True
    waiting = broker.groups.offsets.commit(Committer("g"), [(T0, offset(1))])

    broker.groups.on_partitions_deleted([T0])
    broker.replicas.release()

    assert await waiting == [ErrorCode.NONE]
    assert broker.restarted().groups.describe_group("g")[0] is ErrorCode.GROUP_ID_NOT_FOUND


# ---- restart and leadership


def test_everything_is_there_again_after_a_restart() -> None:
    broker = GroupBroker(partitions=3)
    member = broker.stable_member("live")
    commit(broker, 41, "a")
    commit(broker, 42, "a")
    commit(broker, 43, "b")

    other = broker.restarted()

    assert committed(other, "a") == {T0: 42}
    assert committed(other, "b") == {T0: 43}
    synced = at_once(other.sync(member.member_id, 1, "live"))
    assert synced.assignment == b"all"


def test_members_read_from_the_log_have_a_session_to_show_up() -> None:
    broker = GroupBroker()
    member_id = broker.stable_member().member_id
    other = broker.restarted()

    other.time.advance(9_000)
    alive = heartbeat(other, member_id)
    other.time.advance(10_001)

    assert alive is ErrorCode.NONE
    assert heartbeat(other, member_id) is ErrorCode.UNKNOWN_MEMBER_ID


def test_requests_before_leadership_are_for_another_coordinator() -> None:
    broker = GroupBroker(lead=False)

    assert commit(broker, 1) == [ErrorCode.NOT_COORDINATOR]
    assert heartbeat(broker, "m") is ErrorCode.NOT_COORDINATOR
    assert at_once(broker.join()).error_code == ErrorCode.NOT_COORDINATOR
    with pytest.raises(KafkaError) as refused:
        broker.groups.offsets.fetch("g", [T0], False)
    assert refused.value.code is ErrorCode.NOT_COORDINATOR


async def test_resigning_sends_waiting_members_to_the_new_coordinator() -> None:
    broker = GroupBroker()
    broker.stable_member()
    waiting = broker.join(version=3)

    broker.resign()

    assert (await waiting).error_code == ErrorCode.NOT_COORDINATOR
    assert broker.time.armed() == 0


def test_coordinator_that_stops_refuses_instead_of_telling_that_nothing_is_committed() -> None:
    broker = GroupBroker()
    commit(broker, 5)

    broker.groups.shutdown()

    with pytest.raises(KafkaError) as refused:
        committed(broker)
    assert refused.value.code is ErrorCode.NOT_COORDINATOR
    assert commit(broker, 6) == [ErrorCode.NOT_COORDINATOR]
    assert len(broker.log().batches()) == 1


async def test_partitions_are_loaded_one_after_the_other() -> None:
    writer = GroupBroker(partitions=2, mode=Replication.IMMEDIATE)
    for value in range(50):
        commit(writer, value, "a")
        commit(writer, value, "b")
    logs = [OffsetsLog(bytes(log.data)) for log in writer.replicas.logs.values()]
    broker = GroupBroker(partitions=2, lead=False)
    broker.time.monotonic_ms = make_busy(broker.time.monotonic_ms)  # type: ignore[method-assign]

    broker.lead(*logs)
    await asyncio.sleep(0)

    assert [log.reads for log in logs] == [1, 0]
    await until_idle(1_000)
    assert committed(broker, "a") == committed(broker, "b") == {T0: 49}


async def test_loading_ends_when_the_partition_is_given_up() -> None:
    writer = GroupBroker(mode=Replication.IMMEDIATE)
    for value in range(50):
        commit(writer, value)
    log = OffsetsLog(bytes(writer.log().data))
    broker = GroupBroker(lead=False)
    broker.time.monotonic_ms = make_busy(broker.time.monotonic_ms)  # type: ignore[method-assign]
    broker.lead(log)

    broker.resign()
    broker.lead(OffsetsLog())
    for _ in range(100):
        await asyncio.sleep(0)

    assert committed(broker) == {}
    assert broker.groups.list_groups([], []) == (ErrorCode.NONE, [])


def test_log_that_fails_in_an_unforeseen_way_leaves_a_coordinator_that_answers() -> None:
    log = OffsetsLog(bytes(a_commit().data))
    broker = GroupBroker(lead=False)
    log.read = closed_file  # type: ignore[method-assign]

    broker.lead(log)

    assert commit(broker, 1) == [ErrorCode.NONE]


def a_commit() -> OffsetsLog:
    writer = GroupBroker()
    commit(writer, 1)
    return writer.log()


def closed_file(*_args: object) -> None:
    raise ValueError("read of closed file")


async def test_large_log_is_loaded_in_slices_and_refuses_meanwhile() -> None:
    writer = GroupBroker(mode=Replication.IMMEDIATE)
    for value in range(200):
        commit(writer, value)
    broker = GroupBroker(lead=False)
    broker.time.monotonic_ms = make_busy(broker.time.monotonic_ms)  # type: ignore[method-assign]

    broker.lead(OffsetsLog(bytes(writer.log().data)))

    assert commit(broker, 1) == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    assert heartbeat(broker, "m") is ErrorCode.NONE
    assert at_once(broker.sync("m", 1)).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert broker.groups.list_groups([], [])[0] is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    for _ in range(300):
        await asyncio.sleep(0)
    assert committed(broker) == {T0: 199}


def make_busy(monotonic_ms: object) -> object:
    """A clock that goes on by itself, as if each look at it took 3 ms."""
    passed = [0.0]

    def look() -> float:
        passed[0] += 3.0
        return passed[0]

    return look


# ---- finding the coordinator


async def test_finding_a_coordinator_makes_the_topic_once_and_waits_for_it() -> None:
    broker = GroupBroker(lead=False, partitions=5)

    found = await asyncio.gather(
        *(broker.groups.find_coordinator(CoordinatorType.GROUP, f"g{i}") for i in range(3))
    )

    assert found == [0, 0, 0]
    assert broker.created == [GROUP_METADATA_TOPIC]
    assert at_once(broker.groups.find_coordinator(CoordinatorType.GROUP, "g")) == 0


async def test_topic_that_cannot_be_made_is_tried_for_five_seconds_and_then_named() -> None:
    broker = GroupBroker(lead=False)
    broker.creation_error = ErrorCode.INVALID_REPLICATION_FACTOR
    finding = asyncio.ensure_future(broker.groups.find_coordinator(CoordinatorType.GROUP, "g"))

    while not finding.done():
        await asyncio.sleep(0)
        broker.time.advance(10)

    with pytest.raises(KafkaError, match="INVALID_REPLICATION_FACTOR") as refused:
        await finding
    assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert 5000 <= broker.time.monotonic_ms() < 5200
    assert len(broker.created) > 10


def test_group_is_kept_where_its_java_hash_code_says() -> None:
    broker = GroupBroker(partitions=50)

    # String.hashCode of "polygenelubricants" is Integer.MIN_VALUE, which counts as 0.
    assert broker.groups.partition_for("") == 0
    assert broker.groups.partition_for("a") == 97 % 50
    assert broker.groups.partition_for("polygenelubricants") == 0
    assert broker.groups.partition_for("hello") == 99162322 % 50
