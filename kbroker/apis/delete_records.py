"""DeleteRecords (key 21), versions 0 to 2: records before an offset are removed (KIP-107).

v2: flexible. A partition that is named twice is taken once, with its last offset, and answered
once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from itertools import islice

from kbroker.acl.acl import AclOperation
from kbroker.apis.authorization import ForEach, topic_in
from kbroker.apis.context import RequestContext
from kbroker.apis.registry import api
from kbroker.apis.request_parts import Parts
from kbroker.model import TopicPartition
from kbroker.protocol.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from kbroker.replication.writes.delete_records import DeleteRecordsResult
from kbroker.turns import in_turns, turn

PartitionResult = DeleteRecordsResponse.DeleteRecordsPartitionResult
TopicResult = DeleteRecordsResponse.DeleteRecordsTopicResult

_DELETED_AT_ONCE = 4_096  # with one write of their new starts: about 10 ms


@api(
    DeleteRecordsRequest,
    ForEach(
        operation=AclOperation.DELETE, resource=topic_in("name"), asked="topics", answered="topics"
    ),
    parts=Parts("topics.partitions", "topics.partitions"),
)
async def handle(ctx: RequestContext, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    """Delete, and wait until the other replicas have done so too. Other requests are answered in
    between if there are many partitions.
    """
    offsets: dict[TopicPartition, int] = {}
    await in_turns(_name(request, offsets))
    results = await _delete(ctx, offsets, request.timeout_ms)
    del offsets  # an answer of hundreds of thousands of partitions takes their place
    response = DeleteRecordsResponse()
    await in_turns(_answer(results, response))
    return response


def _name(request: DeleteRecordsRequest, offsets: dict[TopicPartition, int]) -> Iterator[None]:
    for topic in request.topics:
        for partition in topic.partitions:
            offsets[TopicPartition(topic.name, partition.partition_index)] = partition.offset
            yield


async def _delete(
    ctx: RequestContext, offsets: dict[TopicPartition, int], timeout_ms: int
) -> deque[list[DeleteRecordsResult]]:
    """The results in their order, in parts."""
    deletions = ctx.services.replicas.deletions
    if len(offsets) <= _DELETED_AT_ONCE:
        return deque([await deletions.delete(offsets, timeout_ms, ctx.connection)])
    named = iter(offsets.items())
    parts = iter(lambda: dict(islice(named, _DELETED_AT_ONCE)), {})
    async with asyncio.TaskGroup() as group:  # all of them wait at the same time
        tasks = []
        for part in parts:
            tasks.append(group.create_task(deletions.delete(part, timeout_ms)))
            await turn()
    return deque(task.result() for task in tasks)


def _answer(
    parts: deque[list[DeleteRecordsResult]], response: DeleteRecordsResponse
) -> Iterator[None]:
    topics: dict[str, list[PartitionResult]] = {}
    while parts:
        for result in parts.popleft():
            name, partition = result.topic_partition
            if name not in topics:
                rows = topics[name] = []
                response.topics.append(TopicResult(name=name, partitions=rows))
            topics[name].append(
                PartitionResult(
                    partition_index=partition,
                    low_watermark=result.low_watermark,
                    error_code=result.error_code,
                )
            )
            yield
