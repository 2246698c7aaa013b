"""OffsetCommit (8): store how far a group has read.

v0: kept in the znode tree, not by the coordinator. v1: member, generation, a timestamp per offset.
v2 to v4: retention time of the request. v6: leader epoch. v7: group instance id. v10: topics by id
(KIP-848). A partition that does not exist is refused by itself; the others are stored in one batch.
Of a partition that is named more than once the last offset counts, as in Kafka; each mention is
answered.
"""

from __future__ import annotations

from collections.abc import Iterator

from kbroker.acl.acl import AclOperation
from kbroker.apis.authorization import ForEach, ForRequest, its_group, topic_or_id
from kbroker.apis.context import RequestContext
from kbroker.apis.large_requests import worked
from kbroker.apis.now_or_later import NowOrLater, then
from kbroker.apis.offset_commit_answers import (
    FIRST_VERSION_WITH_TOPIC_IDS,
    PartitionResponse,
    TopicResponse,
    answer_of_all,
    answer_of_partition,
    answer_of_topic,
    expiry_ms,
)
from kbroker.apis.offset_commit_shortcut import OffsetCommitShortcut
from kbroker.apis.registry import api
from kbroker.apis.request_parts import AS_A_WHOLE
from kbroker.coordinator.group.coordinated_group import Committer
from kbroker.coordinator.group.offsets import CommittedOffset
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import TopicPartition, new_tuple
from kbroker.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse

_UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class _Sorted:
    """The commits that may be stored, by partition, and the answers, which lack their codes."""

    __slots__ = ("accepted", "has_missing", "topics", "waiting")

    def __init__(self) -> None:
        self.accepted: dict[TopicPartition, CommittedOffset] = {}
        self.waiting: dict[TopicPartition, PartitionResponse] = {}  # as `accepted`
        self.topics: list[TopicResponse] = []
        self.has_missing = False


@api(
    OffsetCommitRequest,
    ForRequest(AclOperation.READ, its_group),
    ForEach(
        operation=AclOperation.READ,
        resource=topic_or_id,
        asked="topics",
        answered="topics",
        partitions=("partitions", "partitions"),
    ),
    parts=AS_A_WHOLE,
    repeats=OffsetCommitShortcut.of,
)
def handle(ctx: RequestContext, request: OffsetCommitRequest) -> NowOrLater[OffsetCommitResponse]:
    """Store the offsets of partitions that exist."""
    found = _Sorted()
    entries = len(request.topics)
    for topic in request.topics:
        entries += len(topic.partitions)
    return worked(_sort(ctx, request, found), entries, _store, ctx, request, found)


def _store(
    ctx: RequestContext, request: OffsetCommitRequest, found: _Sorted
) -> NowOrLater[OffsetCommitResponse]:
    if ctx.api_version == 0:
        return _store_in_tree(ctx, request, found)
    committer = Committer(
        request.group_id,
        request.member_id,
        request.group_instance_id,
        request.generation_id_or_member_epoch,
        ctx.api_version,
    )
    codes = ctx.services.groups.offsets.commit(committer, list(found.accepted.items()))
    return then(codes, _finish, ctx, request, found)


def _finish(
    codes: list[ErrorCode], ctx: RequestContext, request: OffsetCommitRequest, found: _Sorted
) -> OffsetCommitResponse:
    for entry, code in zip(found.waiting.values(), codes, strict=True):
        entry.error_code = int(code)
    response = answer_of_all(found.topics)
    if found.has_missing or any(codes):
        ctx.tell_refusals(request, response)
    return response


def _sort(ctx: RequestContext, request: OffsetCommitRequest, found: _Sorted) -> Iterator[None]:
    """Look at one partition after the other; yields after each, and after each topic."""
    now_ms = ctx.services.clock.now_ms()
    expires_ms = expiry_ms(request.retention_time_ms, now_ms)
    metadata = ctx.services.metadata
    by_name = ctx.api_version < FIRST_VERSION_WITH_TOPIC_IDS
    contains = metadata.contains
    accepted, waiting, topics = found.accepted, found.waiting, found.topics
    for topic in request.topics:
        name = topic.name if by_name else metadata.topic_name(topic.topic_id)
        unknown = _UNKNOWN if name is not None else ErrorCode.UNKNOWN_TOPIC_ID
        answers = []
        for partition in topic.partitions:
            index = partition.partition_index
            topic_partition: TopicPartition = new_tuple(TopicPartition, (name or "", index))
            if name is None or not contains(topic_partition):
                answer = answer_of_partition(index, int(unknown))
                found.has_missing = True
            else:
                known = waiting.get(topic_partition)
                if known is None:
                    known = waiting[topic_partition] = answer_of_partition(index, 0)
                answer = known
                given_ms = partition.commit_timestamp
                accepted[topic_partition] = CommittedOffset(
                    offset=partition.committed_offset,
                    leader_epoch=partition.committed_leader_epoch,
                    metadata=partition.committed_metadata or "",
                    commit_timestamp_ms=now_ms if given_ms < 0 else given_ms,
                    expire_timestamp_ms=expires_ms,
                )
            answers.append(answer)
            yield
        if answers:
            topics.append(answer_of_topic(topic.name, topic.topic_id, answers))
        yield


async def _store_in_tree(
    ctx: RequestContext, request: OffsetCommitRequest, found: _Sorted
) -> OffsetCommitResponse:
    limit = ctx.services.config.group.offset_metadata_max_bytes
    codes = []
    for topic_partition, value in found.accepted.items():
        if len(value.metadata) > limit:
            codes.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
            continue
        try:
            await ctx.services.groups.legacy_offsets.put(
                request.group_id, topic_partition, value.offset
            )
        except KafkaError as error:
            codes.append(error.code)
        else:
            codes.append(ErrorCode.NONE)
    return _finish(codes, ctx, request, found)
