"""OffsetForLeaderEpoch (key 23), versions 0 to 4: where a leader epoch ended in this leader's log.

Consumers ask after a change of the leader epoch, to learn whether records they read were lost
(KIP-320). v0: no epoch in the answer. v2: the epoch that the asker believes to be in force is
checked. v3: who asks.
"""

from __future__ import annotations

from kbroker.apis.authorization import ForEach, topic_in
from kbroker.apis.authorizer import AclOperation
from kbroker.apis.context import RequestContext
from kbroker.apis.large_requests import Parts
from kbroker.apis.registry import api
from kbroker.model import TopicPartition
from kbroker.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)

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
    parts=Parts("topics", "topics"),
)
def handle(
    ctx: RequestContext, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    """Answer each partition; only its leader does."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[_answer(ctx, topic.topic, asked) for asked in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _answer(ctx: RequestContext, topic: str, asked: Asked) -> EpochEndOffset:
    result = ctx.services.replicas.offsets.end_offset_for_epoch(
        TopicPartition(topic, asked.partition), asked.current_leader_epoch, asked.leader_epoch
    )
    return EpochEndOffset(
        error_code=result.error_code,
        partition=asked.partition,
        leader_epoch=result.leader_epoch,
        end_offset=result.offset,
    )
