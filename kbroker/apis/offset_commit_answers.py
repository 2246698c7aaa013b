"""Parts of commits and of their answers, for OffsetCommit's handler and its shortcut."""

from __future__ import annotations

from collections.abc import Sequence

from kbroker.apis.context import RequestContext
from kbroker.errors import ErrorCode
from kbroker.protocol.declaration import maker
from kbroker.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse

FIRST_VERSION_WITH_TOPIC_IDS = 10
DEFAULT_RETENTION = -1
_LATEST_MS = 2**63 - 1

PartitionResponse = OffsetCommitResponse.OffsetCommitResponsePartition
TopicResponse = OffsetCommitResponse.OffsetCommitResponseTopic

answer_of_partition = maker(PartitionResponse, "partition_index", "error_code")
answer_of_topic = maker(TopicResponse, "name", "topic_id", "partitions")
answer_of_all = maker(OffsetCommitResponse, "topics")


def expiry_ms(retention_ms: int, now_ms: int) -> int | None:
    """When an offset expires that was committed with a retention time; None without one."""
    if retention_ms == DEFAULT_RETENTION:
        return None
    return max(0, min(now_ms + retention_ms, _LATEST_MS))


def answered(
    codes: Sequence[ErrorCode], ctx: RequestContext, request: OffsetCommitRequest
) -> OffsetCommitResponse:
    """The answer to a request with a code for each of its partitions, in their order."""
    left = iter(codes)
    topics = [
        answer_of_topic(
            topic.name,
            topic.topic_id,
            [
                answer_of_partition(partition.partition_index, int(next(left)))
                for partition in topic.partitions
            ],
        )
        for topic in request.topics
        if topic.partitions
    ]
    response = answer_of_all(topics)
    if any(codes):
        ctx.tell_refusals(request, response)
    return response
