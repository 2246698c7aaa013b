"""Offsets that a producer commits within its transaction: pending until a marker is stored."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kbroker.coordinator.group.coordinated_group import Committer
from kbroker.coordinator.group.offsets import CommittedOffset
from kbroker.coordinator.transaction.producer import Producer
from kbroker.errors import ErrorCode
from kbroker.model import TopicPartition
from kbroker.record.record_batch import ControlRecord, read_control, read_header, records
from tests.fakes.brokers.group_broker import GroupBroker
from tests.fakes.brokers.long_appends import LongAppends
from tests.fakes.clusters.replication import Replication

PRODUCER = Producer(41, 3)
OTHER = Producer(42, 0)
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
NONE, UNSTABLE = ErrorCode.NONE, ErrorCode.UNSTABLE_OFFSET_COMMIT
NO_OFFSET = -1


def offset(value: int, time_ms: int = 1_700_000_000_000, metadata: str = "") -> CommittedOffset:
    return CommittedOffset(offset=value, metadata=metadata, commit_timestamp_ms=time_ms)


def commit(
    broker: GroupBroker,
    offsets: dict[TopicPartition, int],
    producer: Producer | None = PRODUCER,
    group_id: str = "g",
    **who: Any,
) -> Any:
    committer = Committer(group_id, **who)
    rows = [(partition, offset(value)) for partition, value in offsets.items()]
    if producer is None:
        return broker.groups.offsets.commit(committer, rows)
    return broker.groups.offsets.commit_in_transaction(committer, producer, rows)


def end(broker: GroupBroker, producer: Producer = PRODUCER, *, is_commit: bool = True) -> Any:
    return broker.groups.end_transaction(0, producer, ControlRecord(is_commit, 5))


def fetch(
    broker: GroupBroker, *partitions: TopicPartition, stable: bool = True, group_id: str = "g"
) -> list[tuple[int, ErrorCode]]:
    found = broker.groups.offsets.fetch(group_id, partitions or (T0,), stable)
    return [(value.offset, value.error) for _, value in found]


def state(broker: GroupBroker, group_id: str = "g") -> str:
    return broker.groups.describe_group(group_id)[1].group_state


# ---- what readers see


def test_offsets_are_unstable_until_the_commit_marker_and_then_count() -> None:
    broker = GroupBroker()
    assert commit(broker, {T0: 7, T1: 8}) == [NONE, NONE]
    assert fetch(broker, T0, T1) == [(NO_OFFSET, UNSTABLE)] * 2
    assert fetch(broker, T0, T1, stable=False) == [(NO_OFFSET, NONE)] * 2

    assert end(broker) is NONE

    assert fetch(broker, T0, T1) == [(7, NONE), (8, NONE)]
    assert fetch(broker.restarted(), T0, T1) == [(7, NONE), (8, NONE)]


def test_an_abort_drops_them() -> None:
    broker = GroupBroker()
    commit(broker, {T0: 3}, None)
    commit(broker, {T0: 7})
    assert fetch(broker) == [(NO_OFFSET, UNSTABLE)]

    assert end(broker, is_commit=False) is NONE

    assert fetch(broker) == [(3, NONE)]
    assert fetch(broker.restarted()) == [(3, NONE)]


def test_a_marker_ends_the_transaction_of_its_producer_in_all_groups_and_no_other() -> None:
    broker = GroupBroker()
    commit(broker, {T0: 1}, group_id="g")
    commit(broker, {T0: 2}, group_id="h")
    commit(broker, {T1: 3}, OTHER, group_id="h")

    end(broker)

    assert fetch(broker) == [(1, NONE)]
    assert fetch(broker, T0, T1, group_id="h") == [(2, NONE), (NO_OFFSET, UNSTABLE)]
    end(broker, OTHER)
    assert fetch(broker, T0, T1, group_id="h") == [(2, NONE), (3, NONE)]


def test_a_marker_of_a_producer_that_is_not_known_is_written_all_the_same() -> None:
    broker = GroupBroker()
    assert end(broker, OTHER) is NONE
    assert read_header(bytes(broker.log().data)).is_control


def test_a_transaction_that_is_open_at_a_load_ends_after_it() -> None:
    broker = GroupBroker()
    commit(broker, {T0: 7})
    after = broker.restarted()
    assert fetch(after) == [(NO_OFFSET, UNSTABLE)]

    assert end(after) is NONE

    assert fetch(after) == [(7, NONE)]
    assert fetch(after.restarted()) == [(7, NONE)]


def test_a_later_commit_outside_wins_over_the_transaction() -> None:
    broker = GroupBroker()
    commit(broker, {T0: 7})
    commit(broker, {T0: 9}, None)

    end(broker)

    assert fetch(broker) == [(9, NONE)]
    assert fetch(broker.restarted()) == [(9, NONE)]


def test_the_next_transaction_of_a_producer_begins_anew() -> None:
    broker = GroupBroker()
    for value, is_commit in ((1, True), (2, False), (3, True), (4, False)):
        commit(broker, {T0: value})
        end(broker, is_commit=is_commit)
    assert fetch(broker) == [(3, NONE)]


# ---- what is written


def test_records_are_those_of_a_commit_in_a_transactional_batch_and_the_marker_is_a_batch() -> None:
    broker = GroupBroker()
    commit(broker, {T0: 7})
    commit(broker, {T0: 7}, None)
    end(broker)

    data = bytes(broker.log().data)
    within = read_header(data)
    outside = read_header(data, within.size_bytes)
    at = within.size_bytes + outside.size_bytes
    marker = read_header(data, at)
    assert (within.producer_id, within.producer_epoch, within.base_sequence) == (41, 3, 0)
    assert within.is_transactional
    assert not within.is_control
    assert [(r.key, r.value) for r in records(data)] == [
        (r.key, r.value) for r in records(data, within.size_bytes)
    ]
    assert (marker.producer_id, marker.producer_epoch, marker.base_sequence) == (41, 3, -1)
    assert marker.is_control
    assert marker.is_transactional
    assert [read_control(record) for record in records(data, at)] == [ControlRecord(True, 5)]


def test_metadata_that_is_too_long_is_refused_and_leaves_no_group() -> None:
    broker = GroupBroker(offset_metadata_max_bytes=3)
    rows = [(T0, offset(1, metadata="long"))]
    codes = broker.groups.offsets.commit_in_transaction(Committer("g"), PRODUCER, rows)
    assert codes == [ErrorCode.OFFSET_METADATA_TOO_LARGE]
    assert state(broker) == "Dead"


# ---- who may


@pytest.mark.parametrize(
    ("member_id", "generation_id", "expected"),
    [
        ("x", 0, ErrorCode.ILLEGAL_GENERATION),
        ("x", 5, ErrorCode.ILLEGAL_GENERATION),
        ("", -1, NONE),
        ("", 0, ErrorCode.ILLEGAL_GENERATION),
        ("", 5, ErrorCode.ILLEGAL_GENERATION),
        ("x", -1, NONE),
    ],
)
def test_a_new_group_is_empty(member_id: str, generation_id: int, expected: ErrorCode) -> None:
    broker = GroupBroker()
    codes = commit(broker, {T0: 1}, member_id=member_id, generation_id=generation_id)
    assert codes == [expected]
    assert state(broker) == ("Empty" if expected is NONE else "Dead")


def test_a_member_is_checked_where_it_is_named() -> None:
    broker = GroupBroker()
    joined = broker.stable_member(group_instance_id="i")
    member_id, generation_id = joined.member_id, joined.generation_id

    def codes(**who: Any) -> list[ErrorCode]:
        return commit(broker, {T0: 1}, **who)

    assert codes() == [NONE]
    assert codes(member_id=member_id, generation_id=generation_id) == [NONE]
    named = {"member_id": member_id, "group_instance_id": "i"}
    assert codes(**named, generation_id=generation_id) == [NONE]
    stale = codes(member_id=member_id, generation_id=generation_id + 1)
    assert stale == [ErrorCode.ILLEGAL_GENERATION]
    assert codes(member_id="x", generation_id=generation_id) == [ErrorCode.UNKNOWN_MEMBER_ID]
    fenced = codes(member_id="x", group_instance_id="i", generation_id=generation_id)
    assert fenced == [ErrorCode.FENCED_INSTANCE_ID]


def test_other_brokers_groups_and_groups_without_a_name_are_refused() -> None:
    broker = GroupBroker(lead=False)
    assert commit(broker, {T0: 1}) == [ErrorCode.NOT_COORDINATOR]
    assert commit(broker, {T0: 1}, group_id="") == [ErrorCode.INVALID_GROUP_ID]
    assert end(broker) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    broker.lead()
    broker.groups.shutdown()
    assert end(broker) is ErrorCode.NOT_LEADER_OR_FOLLOWER


# ---- what is removed


def test_a_group_with_pending_offsets_does_not_expire() -> None:
    broker = GroupBroker(offsets_retention_minutes=1)
    commit(broker, {T1: 3}, None)
    commit(broker, {T0: 7, T1: 8})
    broker.time.advance(3 * 60_000)

    for _ in broker.groups.offsets.expire():
        pass

    assert state(broker) == "Empty"
    assert fetch(broker, T1, stable=False) == [(3, NONE)]
    end(broker, is_commit=False)
    for _ in broker.groups.offsets.expire():
        pass
    assert state(broker) == "Dead"


@pytest.mark.parametrize("is_commit", [True, False])
def test_offsets_that_are_deleted_do_not_come_back_with_the_marker(is_commit: bool) -> None:
    broker = GroupBroker()
    commit(broker, {T0: 7, T1: 8})

    assert broker.groups.delete_offsets("g", [T0]) == {T0: NONE}

    assert fetch(broker, T0, T1) == [(NO_OFFSET, NONE), (NO_OFFSET, UNSTABLE)]
    end(broker, is_commit=is_commit)
    expected = [(NO_OFFSET, NONE), (8 if is_commit else NO_OFFSET, NONE)]
    assert fetch(broker, T0, T1) == expected
    assert fetch(broker.restarted(), T0, T1) == expected


def test_a_group_that_is_deleted_does_not_come_back_with_the_marker() -> None:
    broker = GroupBroker()
    commit(broker, {T0: 3}, None)
    commit(broker, {T0: 7, T1: 8})

    assert broker.groups.delete_group("g") is NONE

    assert state(broker) == "Dead"
    end(broker)
    assert state(broker) == "Dead"
    assert state(broker.restarted()) == "Dead"
    commit(broker, {T0: 9})
    end(broker)
    assert fetch(broker) == [(9, NONE)]


# ---- replicas that are late, or fail


@pytest.fixture
def held(replication: Replication) -> GroupBroker:
    """Replicas answer when they are told to."""
    broker = GroupBroker(mode=Replication.DELAYED)
    broker.replicas.holds = True
    return broker


async def test_nothing_counts_before_the_marker_is_stored(held: GroupBroker) -> None:
    committed = asyncio.ensure_future(commit(held, {T0: 7}))
    held.replicas.release()
    assert await committed == [NONE]
    ended = asyncio.ensure_future(end(held))
    await asyncio.sleep(0)

    assert not ended.done()
    assert fetch(held) == [(NO_OFFSET, UNSTABLE)]
    assert fetch(held, stable=False) == [(NO_OFFSET, NONE)]
    held.replicas.release()
    assert await ended is NONE
    assert fetch(held) == [(7, NONE)]


async def test_a_marker_that_is_not_confirmed_in_time_is_written_again(held: GroupBroker) -> None:
    committed = asyncio.ensure_future(commit(held, {T0: 7}))
    held.replicas.release()
    await committed
    ended = asyncio.ensure_future(end(held))
    held.replicas.release(ErrorCode.REQUEST_TIMED_OUT)
    assert await ended is ErrorCode.REQUEST_TIMED_OUT
    assert fetch(held) == [(NO_OFFSET, UNSTABLE)]

    again = asyncio.ensure_future(end(held))
    held.replicas.release()

    assert await again is NONE
    assert fetch(held) == [(7, NONE)]


async def test_a_marker_that_is_refused_ends_nothing(held: GroupBroker) -> None:
    held.replicas.holds = False
    held.replicas.mode = Replication.IMMEDIATE
    commit(held, {T0: 7})
    held.replicas.error = ErrorCode.NOT_ENOUGH_REPLICAS

    assert end(held) is ErrorCode.NOT_ENOUGH_REPLICAS

    assert fetch(held) == [(NO_OFFSET, UNSTABLE)]
    held.replicas.error = NONE
    assert end(held) is NONE
    assert fetch(held) == [(7, NONE)]


async def test_a_coordinator_that_resigns_answers_those_who_wait(held: GroupBroker) -> None:
    committed = asyncio.ensure_future(commit(held, {T0: 7}))
    ended = asyncio.ensure_future(end(held))
    await asyncio.sleep(0)

    held.resign()

    assert await committed == [ErrorCode.NOT_COORDINATOR]
    assert await ended is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_marker_in_line_behind_a_write_that_is_refused_never_was() -> None:
    broker = GroupBroker(mode=Replication.FAILING)  # the third append is refused, late
    assert await commit(broker, {T1: 3}, None) == [NONE]
    assert await commit(broker, {T0: 7}) == [NONE]
    refused = asyncio.ensure_future(commit(broker, {T0: 1}, None, group_id="h"))
    in_line = asyncio.ensure_future(end(broker))
    behind = asyncio.ensure_future(commit(broker, {T0: 9}))
    await asyncio.sleep(0)
    assert fetch(broker) == [(NO_OFFSET, UNSTABLE)]

    assert await refused == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert await in_line is ErrorCode.NOT_ENOUGH_REPLICAS
    assert await behind == [ErrorCode.COORDINATOR_NOT_AVAILABLE]

    assert fetch(broker) == [(NO_OFFSET, UNSTABLE)]
    assert await end(broker) is NONE
    assert fetch(broker) == [(7, NONE)]
    assert fetch(broker.restarted()) == [(7, NONE)]


async def test_markers_that_stand_in_line_have_a_batch_each() -> None:
    broker = GroupBroker(mode=Replication.IMMEDIATE)
    commit(broker, {T0: 7})
    long = LongAppends(broker.replicas)
    lines = [commit(broker, {T0: 1}, None, "h"), end(broker, OTHER), end(broker, OTHER)]
    long.is_long = False

    await long.finish()

    await asyncio.wait(lines)
    assert [len(rows) for _, rows in broker.log().batches()] == [1, 1, 1, 1]


@pytest.mark.parametrize("on_its_way", [{T0: 7}, {T1: 1}], ids=["the same", "another"])
async def test_of_commits_that_stand_in_line_the_later_one_wins(
    on_its_way: dict[TopicPartition, int],
) -> None:
    broker = GroupBroker(mode=Replication.IMMEDIATE)
    long = LongAppends(broker.replicas)
    commits = [commit(broker, on_its_way), commit(broker, {T0: 8}), commit(broker, {T0: 9}, None)]
    long.is_long = False
    await long.finish()
    assert [await each for each in commits] == [[NONE]] * 3

    assert end(broker) is NONE

    assert fetch(broker) == fetch(broker.restarted()) == [(9, NONE)]


async def test_a_marker_that_found_nothing_to_end_because_of_one_that_never_was_never_was() -> None:
    broker = GroupBroker(mode=Replication.IMMEDIATE)
    commit(broker, {T0: 7})
    long = LongAppends(broker.replicas)
    answers = [commit(broker, {T0: 1}, None, "h"), end(broker), end(broker)]
    long.is_long = False

    await long.finish(ErrorCode.MESSAGE_TOO_LARGE)

    assert [await each for each in answers[1:]] == [ErrorCode.NOT_ENOUGH_REPLICAS] * 2
    assert fetch(broker) == fetch(broker.restarted()) == [(NO_OFFSET, UNSTABLE)]
    assert end(broker) is NONE
    assert fetch(broker) == fetch(broker.restarted()) == [(7, NONE)]
