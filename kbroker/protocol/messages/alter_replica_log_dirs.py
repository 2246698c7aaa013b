"""AlterReplicaLogDirs: move replicas to other log directories of the broker (KIP-113).

v1: Same bytes as v0.
v2: flexible.
"""

from __future__ import annotations

from kbroker.errors import ErrorCode
from kbroker.protocol.schema import Message, Struct, message, wire


@message(key=34, versions="0-2", flexible="2+")
class AlterReplicaLogDirsRequest(Message):
    class AlterReplicaLogDirTopic(Struct):
        name: str = wire("string", default="")
        partitions: list[int] = wire("[]int32", default=[])

    class AlterReplicaLogDir(Struct):
        """A directory, by its absolute path, and the partitions that move there."""

        path: str = wire("string", default="")
        topics: list[AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic] = wire(
            "[]AlterReplicaLogDirTopic", default=[]
        )

    dirs: list[AlterReplicaLogDirsRequest.AlterReplicaLogDir] = wire(
        "[]AlterReplicaLogDir", default=[]
    )

    def error_response(
        self, code: ErrorCode, _version: int, _message: str | None = None, throttle_time_ms: int = 0
    ) -> AlterReplicaLogDirsResponse:
        """Answer with topics: the request has directories in their place."""
        answer = AlterReplicaLogDirsResponse
        return answer(
            throttle_time_ms=throttle_time_ms,
            results=[
                answer.AlterReplicaLogDirTopicResult(
                    topic_name=topic.name,
                    partitions=[
                        answer.AlterReplicaLogDirPartitionResult(
                            partition_index=partition, error_code=code
                        )
                        for partition in topic.partitions
                    ],
                )
                for directory in self.dirs
                for topic in directory.topics
            ],
        )


@message(key=34, versions="0-2", flexible="2+")
class AlterReplicaLogDirsResponse(Message):
    class AlterReplicaLogDirPartitionResult(Struct):
        partition_index: int = wire("int32", default=0)
        error_code: int = wire("int16", default=0)

    class AlterReplicaLogDirTopicResult(Struct):
        topic_name: str = wire("string", default="")
        partitions: list[AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult] = wire(
            "[]AlterReplicaLogDirPartitionResult", default=[]
        )

    throttle_time_ms: int = wire("int32", default=0)
    results: list[AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult] = wire(
        "[]AlterReplicaLogDirTopicResult", default=[]
    )
