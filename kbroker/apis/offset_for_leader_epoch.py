"""OffsetForLeaderEpoch (key 23), versions 0 to 4: where a leader epoch ended in this leader's log.

Consumers ask after a change of the leader epoch, to learn whether records they read were lost
(KIP-320). v0: no epoch in the answer. v2: the epoch that the asker believes to be in force is
checked. v3: who asks. To `ANY_REPLICA_ID`, the name by which our controllers ask, each replica
answers the end of its own log, whatever epoch is asked for; Kafka's brokers take it for a consumer.
"""

from __future__ import annotations

from collections.abc import Iterator

from kbroker.acl.acl import AclOperation
from kbroker.apis.authorization import ForEach, topic_in
from kbroker.apis.context import RequestContext
from kbroker.apis.large_requests import worked
from kbroker.apis.now_or_later import NowOrLater
from kbroker.apis.registry import api
from kbroker.apis.request_parts import Parts
from kbroker.model import TopicPartition
from kbroker.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from kbroker.replication.reads.offset_lookup import ANY_REPLICA_ID

Asked = OffsetForLeaderEpochRequest.OffsetForLeaderPartition
EpochEndOffset = OffsetForLeaderEpochResponse.EpochEndOffset


@api(
    OffsetForLeaderEpochRequest,
    ForEach(
        operation=AclOperation.DESCRIBE,
        resource=topic_in("topic"),
        asked="topics",
        answered="topics",
        unless=AclOperation.CLUSTER_ACTION,
    ),
    parts=Parts("topics.partitions", "topics.partitions"),
)
def handle(
    ctx: RequestContext, request: OffsetForLeaderEpochRequest
) -> NowOrLater[OffsetForLeaderEpochResponse]:
    """Answer each partition; only its leader does, unless any replica is asked. Other requests are
    answered in between if one topic has many partitions.
    """
    response = OffsetForLeaderEpochResponse()
    entries = sum(len(topic.partitions) for topic in request.topics)
    return worked(_fill(ctx, request, response), entries, lambda: response)


def _fill(
    ctx: RequestContext,
    request: OffsetForLeaderEpochRequest,
    response: OffsetForLeaderEpochResponse,
) -> Iterator[None]:
    for topic in request.topics:
        result = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(topic=topic.topic)
        response.topics.append(result)
        for asked in topic.partitions:
            result.partitions.append(_answer(ctx, topic.topic, asked, request.replica_id))
            yield


def _answer(ctx: RequestContext, topic: str, asked: Asked, replica_id: int) -> EpochEndOffset:
    offsets, partition = ctx.services.replicas.offsets, TopicPartition(topic, asked.partition)
    if replica_id == ANY_REPLICA_ID:
        result = offsets.log_end(partition)
    else:
        result = offsets.end_offset_for_epoch(
            partition, asked.current_leader_epoch, asked.leader_epoch, replica_id
        )
    return EpochEndOffset(
        error_code=result.error_code,
        partition=asked.partition,
        leader_epoch=result.leader_epoch,
        end_offset=result.offset,
    )
