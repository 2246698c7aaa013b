"""TxnOffsetCommit in all its versions."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest

from kbroker.acl.acl import AclOperation, AclResource, AclResourceType
from kbroker.coordinator.runtime.coordinator_runtime import CoordinatorRuntime
from kbroker.coordinator.transaction.participation import Participation
from kbroker.coordinator.transaction.producer import Producer
from kbroker.errors import ErrorCode
from kbroker.model import TopicPartition
from kbroker.protocol.messages.offset_fetch import OffsetFetchRequest
from kbroker.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from kbroker.record.record_batch import ControlRecord
from kbroker.turns import ENTRIES
from tests.fakes.brokers.group_caller import GroupCaller
from tests.fakes.requests.denying_authorizer import services_without

VERSIONS = range(6)
PRODUCER = Producer(9, 2)


def request(
    offsets: dict[tuple[str, int], int] | None = None, **fields: Any
) -> TxnOffsetCommitRequest:
    """One topic for each offset; version 3 has a member."""
    values = {"transactional_id": "x", "group_id": "g", "producer_id": 9, "producer_epoch": 2}
    topics = [
        TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(
            name=name,
            partitions=[
                TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
                    partition_index=index,
                    committed_offset=offset,
                    committed_leader_epoch=4,
                    committed_metadata=None,
                )
            ],
        )
        for (name, index), offset in (offsets or {("t", 0): 42}).items()
    ]
    return TxnOffsetCommitRequest(**{"topics": topics, **values, **fields})


def codes(response: Any) -> list[int]:
    return [each.error_code for topic in response.topics for each in topic.partitions]


def fetched(call: GroupCaller, *, stable: bool) -> tuple[int, int]:
    topic = OffsetFetchRequest.OffsetFetchRequestTopic(name="t", partition_indexes=[0])
    answer = call(OffsetFetchRequest(group_id="g", topics=[topic], require_stable=stable), 7)
    (row,) = answer.topics[0].partitions
    return row.committed_offset, row.error_code


@pytest.mark.parametrize("version", VERSIONS)
def test_an_offset_counts_once_the_transaction_is_committed(version: int) -> None:
    call = GroupCaller()

    assert codes(call(request(), version)) == [0]

    assert fetched(call, stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert fetched(call, stable=False) == (-1, 0)
    call.broker.groups.end_transaction(0, PRODUCER, ControlRecord(True, 0))
    assert fetched(call, stable=True) == (42, 0)
    stored = call.broker.groups.store.find("g").group.offsets.committed[TopicPartition("t", 0)]
    assert stored.leader_epoch == (4 if version >= 2 else -1)
    assert (stored.metadata, stored.expire_timestamp_ms) == ("", None)
    assert stored.commit_timestamp_ms == call.broker.time.now_ms()


def test_partitions_that_do_not_exist_are_refused_by_themselves() -> None:
    call = GroupCaller()
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    answer = call(request({("t", 9): 1, ("t", 1): 2, ("nope", 0): 3}), 3)

    assert codes(answer) == [unknown, 0, unknown]
    assert [topic.name for topic in answer.topics] == ["t", "t", "nope"]


def test_a_request_of_none_that_exist_makes_no_group() -> None:
    call = GroupCaller()
    call(request({("nope", 0): 3}), 3)
    assert call.broker.groups.store.find("g") is None


@pytest.mark.parametrize(
    ("member_id", "generation_id", "expected"),
    [
        ("x", 5, ErrorCode.ILLEGAL_GENERATION),
        ("", -1, ErrorCode.NONE),
        ("", 5, ErrorCode.ILLEGAL_GENERATION),
    ],
)
def test_members_are_checked_where_they_are_named(
    member_id: str, generation_id: int, expected: ErrorCode
) -> None:
    call = GroupCaller()
    who = {"member_id": member_id, "generation_id_or_member_epoch": generation_id}
    assert codes(call(request(**who), 3)) == [expected]
    assert codes(call(request(), 2)) == [ErrorCode.NONE]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_group_without_a_name_is_none(version: int) -> None:
    assert codes(GroupCaller()(request(group_id=""), version)) == [ErrorCode.INVALID_GROUP_ID]


@pytest.mark.parametrize("version", VERSIONS)
def test_old_producers_are_not_told_of_loading(version: int) -> None:
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    with patch.object(CoordinatorRuntime, "status", return_value=loading):
        answer = GroupCaller()(request(), version)

    assert codes(answer) == [loading if version >= 2 else ErrorCode.COORDINATOR_NOT_AVAILABLE]


@pytest.mark.parametrize(
    ("denied", "expected"),
    [
        (
            (AclOperation.WRITE, AclResource(AclResourceType.TRANSACTIONAL_ID, "x")),
            [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED] * 2,
        ),
        (
            (AclOperation.READ, AclResource(AclResourceType.GROUP, "g")),
            [ErrorCode.GROUP_AUTHORIZATION_FAILED] * 2,
        ),
        (
            (AclOperation.READ, AclResource(AclResourceType.TOPIC, "u")),
            [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED],
        ),
    ],
)
def test_it_needs_transaction_group_and_topics(denied: Any, expected: list[ErrorCode]) -> None:
    call = GroupCaller()
    call.services = services_without(call.services, denied)

    answer = call.through_stages(request({("t", 9): 1, ("u", 9): 2}), 3)

    assert codes(answer) == expected


def test_of_a_partition_that_is_named_twice_the_last_offset_counts() -> None:
    call = GroupCaller()
    asked = request()
    asked.topics += request({("t", 0): 43}).topics

    assert codes(call(asked, 3)) == [0, 0]

    call.broker.groups.end_transaction(0, PRODUCER, ControlRecord(True, 0))
    assert fetched(call, stable=True) == (43, 0)


def test_a_long_request_is_answered_as_a_short_one() -> None:
    call = GroupCaller()
    asked = request()
    asked.topics *= ENTRIES

    assert codes(call(asked, 3)) == [0] * ENTRIES


def test_the_coordinator_is_asked_whether_the_group_takes_part() -> None:
    call = GroupCaller()
    call(request(), 3)

    place = TopicPartition("__consumer_offsets", call.broker.groups.partition_for("g"))
    assert call.transactions.asked == [Participation("x", PRODUCER, (place,))]


@pytest.mark.parametrize(
    ("said", "version", "code"),
    [
        (ErrorCode.TRANSACTION_ABORTABLE, 3, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, 4, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.PRODUCER_FENCED, 3, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, 3, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 3, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.NETWORK_EXCEPTION, 3, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.NETWORK_EXCEPTION, 1, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_COORDINATOR, 3, ErrorCode.NOT_COORDINATOR),
    ],
)
def test_an_offset_outside_of_a_transaction_is_refused(
    said: ErrorCode, version: int, code: ErrorCode
) -> None:
    call = GroupCaller()
    call.transactions.code = said

    assert codes(call(request(), version)) == [code]
    assert fetched(call, stable=True) == (-1, ErrorCode.NONE)
    assert call.broker.groups.store.find("g") is None


def test_a_new_request_adds_the_partition_of_the_group() -> None:
    call = GroupCaller()

    assert codes(call(request(), 5)) == [ErrorCode.NONE]
    (asked,) = call.transactions.asked
    assert asked.adds
