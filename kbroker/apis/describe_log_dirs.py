"""DescribeLogDirs (key 35), versions 0 to 5: data directories, their replicas and free space.

v2: flexible. v3: an error code for the whole. v4: size of the volume and its free space. v5:
cordoned directories; there are none here. A replica that moves is in both directories, in the new
one as a future replica.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kbroker.acl.acl import AclOperation
from kbroker.apis.authorization import ForRequest, the_cluster
from kbroker.apis.context import RequestContext
from kbroker.apis.large_answers import Rest, is_large, written
from kbroker.apis.large_requests import worked
from kbroker.apis.now_or_later import NowOrLater
from kbroker.apis.registry import api
from kbroker.apis.request_parts import AS_A_WHOLE
from kbroker.model import TopicPartition
from kbroker.protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from kbroker.replication.reads.log_dirs import LogDirUsage

Result = DescribeLogDirsResponse.DescribeLogDirsResult

_BYTES_OF_REPLICA = 64


@api(
    DescribeLogDirsRequest,
    ForRequest(AclOperation.DESCRIBE, the_cluster),
    parts=AS_A_WHOLE,
)
def handle(
    ctx: RequestContext, request: DescribeLogDirsRequest
) -> NowOrLater[DescribeLogDirsResponse]:
    """Describe every directory; one without a wanted replica is listed too, with its space."""
    if request.topics is None:
        return _described(ctx, None)
    wanted: set[TopicPartition] = set()
    entries = sum(1 + len(topic.partitions) for topic in request.topics)
    return worked(_name(request.topics, wanted), entries, _described, ctx, wanted)


def _name(
    topics: list[DescribeLogDirsRequest.DescribableLogDirTopic], wanted: set[TopicPartition]
) -> Iterator[None]:
    for topic in topics:
        for partition in topic.partitions:
            wanted.add(TopicPartition(topic.topic, partition))
            yield
        yield


def _described(
    ctx: RequestContext, wanted: set[TopicPartition] | None
) -> NowOrLater[DescribeLogDirsResponse]:
    log_dirs = ctx.services.replicas.log_dirs
    if not is_large(len(log_dirs) * _BYTES_OF_REPLICA):
        return DescribeLogDirsResponse(
            results=[_result(usage) for usage in log_dirs.describe(wanted)]
        )
    told = len(log_dirs) if wanted is None else min(len(wanted), len(log_dirs))
    parts = _in_parts(log_dirs.described(wanted))
    size_bytes = told * _BYTES_OF_REPLICA
    array = "results.topics.partitions"
    return written(ctx, DescribeLogDirsResponse(), array, parts, size_bytes)


def _in_parts(usages: Iterable[LogDirUsage | None]) -> Iterator[list[Any]]:
    last = ""
    for usage in usages:
        if usage is None:
            yield []
        elif usage.path == last:
            yield Rest([_result(usage)])
        else:
            last = usage.path
            yield [_result(usage)]


def _result(usage: LogDirUsage) -> Result:
    topics: dict[str, list[DescribeLogDirsResponse.DescribeLogDirsPartition]] = {}
    for replica in usage.replicas:
        topics.setdefault(replica.topic_partition.topic, []).append(
            DescribeLogDirsResponse.DescribeLogDirsPartition(
                partition_index=replica.topic_partition.partition,
                partition_size=replica.size_bytes,
                offset_lag=replica.offset_lag,
                is_future_key=replica.is_future,
            )
        )
    return Result(
        error_code=usage.error_code,
        log_dir=usage.path,
        topics=[
            DescribeLogDirsResponse.DescribeLogDirsTopic(name=name, partitions=partitions)
            for name, partitions in topics.items()
        ],
        total_bytes=usage.total_bytes,
        usable_bytes=usage.usable_bytes,
    )
