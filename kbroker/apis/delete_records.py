"""DeleteRecords (key 21), versions 0 to 2: records before an offset are removed (KIP-107).

v2: flexible. A partition that is named twice is taken once, with its last offset, and answered
once.
"""

from __future__ import annotations

from kbroker.apis.authorization import ForEach, topic_in
from kbroker.apis.authorizer import AclOperation
from kbroker.apis.context import RequestContext
from kbroker.apis.registry import api
from kbroker.model import TopicPartition
from kbroker.protocol.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from kbroker.replication.delete_records import DeleteRecordsResult


@api(
    DeleteRecordsRequest,
    ForEach(
        operation=AclOperation.DELETE, resource=topic_in("name"), asked="topics", answered="topics"
    ),
)
async def handle(ctx: RequestContext, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    """Delete, and wait until the other replicas have done so too."""
    offsets = {
        TopicPartition(topic.name, partition.partition_index): partition.offset
        for topic in request.topics
        for partition in topic.partitions
    }
    results = await ctx.services.replicas.deletions.delete(offsets, request.timeout_ms)
    topics: dict[str, list[DeleteRecordsResponse.DeleteRecordsPartitionResult]] = {}
    for result in results:
        topics.setdefault(result.topic_partition.topic, []).append(_answer(result))
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsResponse.DeleteRecordsTopicResult(name=name, partitions=partitions)
            for name, partitions in topics.items()
        ]
    )


def _answer(result: DeleteRecordsResult) -> DeleteRecordsResponse.DeleteRecordsPartitionResult:
    return DeleteRecordsResponse.DeleteRecordsPartitionResult(
        partition_index=result.topic_partition.partition,
        low_watermark=result.low_watermark,
        error_code=result.error_code,
    )
