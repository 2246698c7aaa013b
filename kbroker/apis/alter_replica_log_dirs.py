"""AlterReplicaLogDirs (key 34), versions 0 to 2: replicas move to other data directories of this
broker (KIP-113).

v1: as v0. v2: flexible. The answer says that a move has begun; DescribeLogDirs shows how far it is,
as a future replica. A partition that has no replica here is made in that directory once it is
ordered, and answered with an error until then. If it is named twice, the last directory counts.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from kbroker.acl.acl import AclOperation
from kbroker.apis.authorization import ForRequest, the_cluster
from kbroker.apis.context import RequestContext
from kbroker.apis.registry import api
from kbroker.apis.request_parts import Parts
from kbroker.model import TopicPartition
from kbroker.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
)
from kbroker.turns import in_turns

PartitionResult = AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult
TopicResult = AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult


@api(
    AlterReplicaLogDirsRequest,
    ForRequest(AclOperation.ALTER, the_cluster),
    parts=Parts("dirs.topics.partitions", "results.partitions"),
)
async def handle(
    ctx: RequestContext, request: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse:
    """Begin to move. Other requests are answered in between if there are many partitions."""
    wanted: dict[TopicPartition, str] = {}
    await in_turns(_name(request, wanted))
    response = AlterReplicaLogDirsResponse()
    await in_turns(_begin(ctx, wanted, response))
    return response


async def _begin(
    ctx: RequestContext, wanted: dict[TopicPartition, str], response: AlterReplicaLogDirsResponse
) -> AsyncIterator[None]:
    topics: dict[str, list[PartitionResult]] = {}
    for topic_partition, path in wanted.items():
        code = await ctx.services.replicas.log_dir_moves.alter(topic_partition, path)
        name, partition = topic_partition
        rows = topics.get(name)
        if rows is None:
            rows = topics[name] = []
            response.results.append(TopicResult(topic_name=name, partitions=rows))
        rows.append(PartitionResult(partition_index=partition, error_code=code))
        yield


def _name(request: AlterReplicaLogDirsRequest, wanted: dict[TopicPartition, str]) -> Iterator[None]:
    for directory in request.dirs:
        for topic in directory.topics:
            for partition in topic.partitions:
                wanted[TopicPartition(topic.name, partition)] = directory.path
                yield
