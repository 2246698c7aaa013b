"""Tries a cluster: a topic of our own, a record through every broker and back, and a group.

Law: what was made is deleted in the end, also after Ctrl-C; what cannot be is named to the person.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from kbroker.cli.doctor.observations import GroupTrial, Trial, WrittenRecord
from kbroker.client.client_error import ClientError
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.cluster_requests import ask_coordinator
from kbroker.client.raw_fetch import fetch_raw, whole_batches
from kbroker.client.topic_changes import deletion_refusal
from kbroker.client.topic_requests import create_topics, delete_topics
from kbroker.client.wall_clock import unix_now_ms
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import NO_LEADER, TopicPartition
from kbroker.protocol.messages.delete_groups import DeleteGroupsRequest
from kbroker.protocol.messages.describe_groups import DescribeGroupsRequest
from kbroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kbroker.protocol.messages.leave_group import LeaveGroupRequest
from kbroker.protocol.messages.produce import ProduceRequest, ProduceResponse
from kbroker.record.bulk_records import body_of, build_from_bodies, read_records
from kbroker.record.record_batch import MAGIC, BatchOptions

_SETTINGS = {
    "message.timestamp.type": "LogAppendTime",
    "min.insync.replicas": "1",
    "retention.ms": "3600000",  # of a topic that nobody deletes: its record goes
}
_WAY_OPEN = (  # codes of a topic that may be made otherwise: by a policy, or by an older broker
    ErrorCode.POLICY_VIOLATION,
    ErrorCode.INVALID_CONFIG,
    ErrorCode.INVALID_REPLICATION_FACTOR,
    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
)
_GONE = (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
_ALL_ACKNOWLEDGE = -1
_ACKS_MS = 4_000
_PATIENCE_S = 5.0
_PAUSE_S = 0.05
_READ_BYTES = 64 * 1024
_NO_TIME = -1
_NO_SUBSCRIPTION = b"\0\0\0\0\0\0\xff\xff\xff\xff"  # version 0, no topics, no data of a user
_REASON = "kbroker doctor tries whether groups can be joined"
_LOST = (OSError, ClientError, KafkaError)


class Session(NamedTuple):
    """Times that the member of a group asks for, in ms."""

    session_ms: int
    rebalance_ms: int


def tried_topic(
    links: ClusterLinks, topic: str, broker_ids: Sequence[int], tell: Callable[[str], None]
) -> Trial:
    """Make a topic with a partition on each broker, write a record to each, read it back, and
    delete the topic. `tell` gets a sentence about what is left after an interruption.
    """
    try:
        trial = _filled(links, topic, broker_ids)
    except BaseException:  # Ctrl-C too
        left = _deleted(links, topic)
        if left is not None:
            tell(f"topic {topic} is left: {left}; kbroker topic delete {topic} deletes it")
        raise
    left = _deleted(links, topic)
    return Trial(topic=topic, refusal=trial.refusal, records=trial.records, left=left)


def asked_group(links: ClusterLinks, group: str) -> GroupTrial:
    """Ask the broker that would coordinate a group for it, without joining."""
    try:
        coordinator, _ = ask_coordinator(links, group, DescribeGroupsRequest(groups=[group]))
    except _LOST as error:
        return GroupTrial(coordinator=None, refusal=_sentence(error))
    return GroupTrial(coordinator=coordinator)


def tried_group(links: ClusterLinks, group: str, times: Session) -> GroupTrial:
    """Join a group as its first member, leave it and delete it."""
    coordinator = None
    try:
        coordinator, answer = _join(links, group, times, "")
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:  # from version 4 on
            coordinator, answer = _join(links, group, times, answer.member_id)
        if answer.error_code:
            code = ErrorCode(answer.error_code)
            return GroupTrial(coordinator=coordinator, refusal=_worded(code))
        _leave(links, group, answer.member_id)
    except _LOST as error:
        return GroupTrial(coordinator=coordinator, refusal=_sentence(error))
    return GroupTrial(coordinator=coordinator)


def _filled(links: ClusterLinks, topic: str, broker_ids: Sequence[int]) -> Trial:
    refusal = _made(links, topic, broker_ids)
    if refusal is not None:
        return Trial(topic=topic, refusal=refusal)
    try:
        view = links.ready_topic(topic)
    except _LOST as error:
        return Trial(topic=topic, refusal=_sentence(error))
    if view is None or not view.is_ready:
        return Trial(topic=topic, refusal=f"it has no leaders within {_PATIENCE_S:g} s")
    return Trial(
        topic=topic,
        records=tuple(
            _written(links, leader, TopicPartition(topic, number))
            for number, leader in view.leaders.items()
            if leader != NO_LEADER
        ),
    )


def _made(links: ClusterLinks, topic: str, broker_ids: Sequence[int]) -> str | None:
    """Make the topic; returns the refusal of every way to do it, None if one worked."""
    replicas = [[broker_id] for broker_id in broker_ids]
    refusal = None
    for wanted, settings in ((replicas, _SETTINGS), ([], _SETTINGS), ([], {})):
        partitions = -1 if wanted else 1
        try:
            (result,) = create_topics(
                links, [topic], settings, partitions=partitions, replicas=wanted
            )
        except _LOST as error:
            return _sentence(error)
        code = ErrorCode(result.error_code)
        if code == ErrorCode.NONE:
            return None
        refusal = refusal or _worded(code, result.error_message)
        if code not in _WAY_OPEN:
            break
    return refusal


def _written(links: ClusterLinks, leader: int, place: TopicPartition) -> WrittenRecord:
    """Write a record to a partition and read it back."""
    value = f"{place} {time.time_ns()}".encode()
    give_up_s = time.monotonic() + _PATIENCE_S
    while True:
        began_ms = unix_now_ms()
        try:
            answer = _produced(links, leader, place, value)
        except _LOST as error:
            return WrittenRecord(node_id=leader, refusal=_sentence(error))
        code = ErrorCode(answer.error_code)
        if code == ErrorCode.NONE:
            break
        if not code.retriable or time.monotonic() > give_up_s:
            return WrittenRecord(node_id=leader, refusal=_worded(code, answer.error_message))
        links.sleep(_PAUSE_S)  # a leader just elected may not know it yet
    ended_ms = unix_now_ms()
    refusal = _unread(links, leader, place, answer.base_offset, value)
    stamped_ms = answer.log_append_time_ms
    return WrittenRecord(
        node_id=leader,
        refusal=refusal,
        ahead_ms=None if stamped_ms == _NO_TIME else stamped_ms - (began_ms + ended_ms) // 2,
        give_ms=(ended_ms - began_ms) // 2 + 1,
    )


def _produced(
    links: ClusterLinks, leader: int, place: TopicPartition, value: bytes
) -> ProduceResponse.PartitionProduceResponse:
    now_ms = unix_now_ms()
    body = body_of(b"kbroker-doctor", value)
    batch = build_from_bodies([body], (), [now_ms], BatchOptions())
    data = ProduceRequest.PartitionProduceData(index=place.partition, records=memoryview(batch))
    request = ProduceRequest(
        transactional_id=None,
        acks=_ALL_ACKNOWLEDGE,
        timeout_ms=_ACKS_MS,
        topic_data=[ProduceRequest.TopicProduceData(name=place.topic, partition_data=[data])],
    )
    answer: ProduceResponse = links.ask(leader, request)
    return answer.responses[0].partition_responses[0]


def _unread(
    links: ClusterLinks, leader: int, place: TopicPartition, offset: int, value: bytes
) -> str | None:
    """Read a record back; returns why that fails, None if it is what was written."""
    give_up_s = time.monotonic() + _PATIENCE_S
    while True:
        try:
            found = fetch_raw(links, leader, {place: offset}, _READ_BYTES, only_committed=False)
            fetched = found[place]
            if value in _values(fetched.records):
                return None
        except _LOST as error:
            return _sentence(error)
        is_over = time.monotonic() > give_up_s
        if fetched.code and (is_over or not fetched.code.retriable):
            return _worded(fetched.code)
        if is_over:
            return f"it was acknowledged at offset {offset} and is not read there"


def _values(data: bytes) -> Iterator[bytes | None]:
    """Yield the values of records, of whatever codec their broker keeps them in."""
    for header, batch in whole_batches(data):
        if header.magic == MAGIC:
            yield from (record.value for record in read_records(header, memoryview(batch)))


def _deleted(links: ClusterLinks, topic: str) -> str | None:
    """Delete the topic; returns why that fails, None if it is gone."""
    try:
        (result,) = delete_topics(links, [topic])
    except _LOST as error:
        return _sentence(error)
    return None if result.error_code in _GONE else deletion_refusal(result)


def _join(
    links: ClusterLinks, group: str, times: Session, member_id: str
) -> tuple[int, JoinGroupResponse]:
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=times.session_ms,
        rebalance_timeout_ms=times.rebalance_ms,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[
            JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=_NO_SUBSCRIPTION)
        ],
        reason=_REASON,
    )
    return ask_coordinator(links, group, request)


def _leave(links: ClusterLinks, group: str, member_id: str) -> None:
    member = LeaveGroupRequest.MemberIdentity(member_id=member_id, reason=_REASON)
    request = LeaveGroupRequest(group_id=group, member_id=member_id, members=[member])
    ask_coordinator(links, group, request)
    ask_coordinator(links, group, DeleteGroupsRequest(groups_names=[group]))


def _sentence(error: Exception) -> str:
    return error.sentence if isinstance(error, ClientError) else str(error)


def _worded(code: ErrorCode, message: str | None = None) -> str:
    return f"{message} ({code.name})" if message else code.name
