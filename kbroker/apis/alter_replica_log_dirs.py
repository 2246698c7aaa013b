"""AlterReplicaLogDirs (key 34), versions 0 to 2: replicas move to other data directories of this
broker (KIP-113).

v1: as v0. v2: flexible. The answer says that a move has begun; DescribeLogDirs shows how far it is,
as a future replica. A partition that has no replica here is made in that directory once it is
ordered, and answered with an error until then. One that is named twice goes where it is named last.
"""

from __future__ import annotations

from kbroker.apis.authorization import ForRequest, the_cluster
from kbroker.apis.authorizer import AclOperation
from kbroker.apis.context import RequestContext
from kbroker.apis.registry import api
from kbroker.model import TopicPartition
from kbroker.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
)

PartitionResult = AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult


@api(AlterReplicaLogDirsRequest, ForRequest(AclOperation.ALTER, the_cluster))
async def handle(
    ctx: RequestContext, request: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse:
    """Begin to move."""
    wanted = {
        TopicPartition(topic.name, partition): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for partition in topic.partitions
    }
    topics: dict[str, list[PartitionResult]] = {}
    for topic_partition, path in wanted.items():
        code = await ctx.services.replicas.log_dir_moves.alter(topic_partition, path)
        topics.setdefault(topic_partition.topic, []).append(
            PartitionResult(partition_index=topic_partition.partition, error_code=code)
        )
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult(
                topic_name=name, partitions=partitions
            )
            for name, partitions in topics.items()
        ]
    )
