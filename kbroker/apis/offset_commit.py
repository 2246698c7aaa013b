"""OffsetCommit (8): store how far a group has read.

v0: kept in the znode tree, not by the coordinator. v1: member, generation, a timestamp per offset.
v2 to v4: retention time of the request. v6: leader epoch. v7: group instance id. v10: topics by id
(KIP-848). A partition that does not exist is refused by itself; the others are stored in one batch.
"""

from __future__ import annotations

from kbroker.apis.authorization import ForEach, ForRequest, its_group, topic_or_id
from kbroker.apis.authorizer import AclOperation
from kbroker.apis.context import RequestContext
from kbroker.apis.now_or_later import NowOrLater, then
from kbroker.apis.registry import api
from kbroker.coordinator.group.offsets import CommittedOffset
from kbroker.coordinator.offset_commits import Committer
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import TopicPartition
from kbroker.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse

_FIRST_VERSION_WITH_TOPIC_IDS = 10
_DEFAULT_RETENTION = -1

Accepted = list[tuple[TopicPartition, CommittedOffset]]
PartitionResponse = OffsetCommitResponse.OffsetCommitResponsePartition


@api(
    OffsetCommitRequest,
    ForRequest(AclOperation.READ, its_group),
    ForEach(operation=AclOperation.READ, resource=topic_or_id, asked="topics", answered="topics"),
)
def handle(ctx: RequestContext, request: OffsetCommitRequest) -> NowOrLater[OffsetCommitResponse]:
    """Store the offsets of partitions that exist."""
    accepted: Accepted = []
    waiting: list[PartitionResponse] = []  # the answer for each accepted offset
    response = OffsetCommitResponse(
        topics=[
            _topic(ctx, request, topic, accepted, waiting)
            for topic in request.topics
            if topic.partitions
        ]
    )
    if ctx.api_version == 0:
        return _store_in_tree(ctx, request.group_id, accepted, waiting, response)
    committer = Committer(
        request.group_id,
        request.member_id,
        request.group_instance_id,
        request.generation_id_or_member_epoch,
    )
    codes = ctx.services.groups.offsets.commit(committer, accepted)
    return then(codes, _finish, response, waiting)


def _finish(
    codes: list[ErrorCode], response: OffsetCommitResponse, waiting: list[PartitionResponse]
) -> OffsetCommitResponse:
    for entry, code in zip(waiting, codes, strict=True):
        entry.error_code = int(code)
    return response


def _topic(
    ctx: RequestContext,
    request: OffsetCommitRequest,
    topic: OffsetCommitRequest.OffsetCommitRequestTopic,
    accepted: Accepted,
    waiting: list[PartitionResponse],
) -> OffsetCommitResponse.OffsetCommitResponseTopic:
    """The answer for one topic.

    Offsets that may be stored are added to `accepted`, their answers to `waiting`.
    """
    name: str | None = topic.name
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if ctx.api_version >= _FIRST_VERSION_WITH_TOPIC_IDS:
        name = ctx.services.metadata.topic_name(topic.topic_id)
        if name is None:
            unknown = ErrorCode.UNKNOWN_TOPIC_ID
    now_ms = ctx.services.clock.now_ms()
    contains = ctx.services.metadata.contains
    answers = []
    for partition in topic.partitions:
        answer = PartitionResponse(partition_index=partition.partition_index)
        answers.append(answer)
        topic_partition = TopicPartition(name or "", partition.partition_index)
        if name is None or not contains(topic_partition):
            answer.error_code = int(unknown)
        else:
            accepted.append((topic_partition, _committed(request, partition, now_ms)))
            waiting.append(answer)
    return OffsetCommitResponse.OffsetCommitResponseTopic(
        name=topic.name, topic_id=topic.topic_id, partitions=answers
    )


def _committed(
    request: OffsetCommitRequest,
    partition: OffsetCommitRequest.OffsetCommitRequestPartition,
    now_ms: int,
) -> CommittedOffset:
    retention_ms = request.retention_time_ms
    given_ms = partition.commit_timestamp
    return CommittedOffset(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
        commit_timestamp_ms=now_ms if given_ms < 0 else given_ms,
        expire_timestamp_ms=None if retention_ms == _DEFAULT_RETENTION else now_ms + retention_ms,
    )


async def _store_in_tree(
    ctx: RequestContext,
    group_id: str,
    accepted: Accepted,
    waiting: list[PartitionResponse],
    response: OffsetCommitResponse,
) -> OffsetCommitResponse:
    limit = ctx.services.config.group.offset_metadata_max_bytes
    codes = []
    for topic_partition, committed in accepted:
        if len(committed.metadata) > limit:
            codes.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
            continue
        try:
            await ctx.services.groups.legacy_offsets.put(
                group_id, topic_partition, committed.offset
            )
        except KafkaError as error:
            codes.append(error.code)
        else:
            codes.append(ErrorCode.NONE)
    return _finish(codes, response, waiting)
