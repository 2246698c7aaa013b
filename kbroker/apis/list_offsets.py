"""ListOffsets (key 2), versions 0 to 11: offsets by timestamp, and the special ones.

v0: several offsets, by segment. v1: one offset with its timestamp. v2: isolation level. v4: leader
epochs. v7: -3 largest timestamp. v8: -4 earliest local. v9: -5 last tiered. v11: -6 earliest that
waits for tiering. A special timestamp in a version before it gets UNSUPPORTED_VERSION; nothing is
tiered here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from kbroker.acl.acl import AclOperation
from kbroker.apis.authorization import ForEach, topic_in
from kbroker.apis.context import RequestContext
from kbroker.apis.large_requests import worked
from kbroker.apis.now_or_later import NowOrLater, then
from kbroker.apis.registry import api
from kbroker.apis.request_parts import Parts
from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.segments.fetch_data_info import FetchIsolation
from kbroker.model import CONSUMER_REPLICA_ID, TopicPartition
from kbroker.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kbroker.replication.reads.offset_lookup import (
    DEBUGGING_REPLICA_ID,
    OffsetParams,
    OffsetQuery,
    OffsetResult,
)
from kbroker.slices import slices
from kbroker.turns import ENTRIES, turn

_ISOLATION = {0: FetchIsolation.HIGH_WATERMARK, 1: FetchIsolation.TXN_COMMITTED}

PartitionResponse = ListOffsetsResponse.ListOffsetsPartitionResponse
_Asked: TypeAlias = tuple[
    TopicPartition, ListOffsetsRequest.ListOffsetsPartition, list[PartitionResponse]
]


@api(
    ListOffsetsRequest,
    ForEach(
        operation=AclOperation.DESCRIBE,
        resource=topic_in("name"),
        asked="topics",
        answered="topics",
    ),
    parts=Parts("topics.partitions", "topics.partitions", key="name.partition_index"),
)
def handle(ctx: RequestContext, request: ListOffsetsRequest) -> NowOrLater[ListOffsetsResponse]:
    """Look up one offset per partition. A partition that is named twice is refused in both places,
    except in version 0. Other requests are answered in between if one topic has many partitions.
    """
    params = _params(ctx.api_version, request)
    entries = sum(len(topic.partitions) for topic in request.topics)
    named: Counter[TopicPartition] = Counter()
    return worked(_count(request, named), entries, _answer, ctx, request, params, named)


def _count(request: ListOffsetsRequest, named: Counter[TopicPartition]) -> Iterator[None]:
    for topic in request.topics:
        for partition in topic.partitions:
            named[TopicPartition(topic.name, partition.partition_index)] += 1
            yield


def _answer(
    ctx: RequestContext,
    request: ListOffsetsRequest,
    params: OffsetParams,
    named: Counter[TopicPartition],
) -> NowOrLater[ListOffsetsResponse]:
    response = ListOffsetsResponse(
        topics=[
            ListOffsetsResponse.ListOffsetsTopicResponse(name=topic.name)
            for topic in request.topics
        ]
    )
    asked = (
        (TopicPartition(topic.name, partition.partition_index), partition, answer.partitions)
        for topic, answer in zip(request.topics, response.topics, strict=True)
        for partition in topic.partitions
    )
    outcomes = (_look_up(ctx, params, named, part) for part in slices(asked, ENTRIES))
    if named.total() > ENTRIES:
        return _one_by_one(outcomes, response)
    for outcome in outcomes:
        return then(outcome, lambda _: response)
    return response


async def _one_by_one(
    outcomes: Iterable[NowOrLater[None]], response: ListOffsetsResponse
) -> ListOffsetsResponse:
    for outcome in outcomes:
        if outcome is not None:
            await outcome
        await turn()
    return response


def _look_up(
    ctx: RequestContext,
    params: OffsetParams,
    named: Counter[TopicPartition],
    asked: Iterable[_Asked],
) -> NowOrLater[None]:
    queries: list[OffsetQuery] = []
    waiting: list[PartitionResponse] = []  # one per query
    for topic_partition, partition, answers in asked:
        answer = PartitionResponse(partition_index=partition.partition_index)
        query = OffsetQuery(topic_partition, partition.timestamp, partition.current_leader_epoch)
        if ctx.api_version and (named[topic_partition] > 1 or topic_partition in ctx.twice):
            _fill(answer, OffsetResult(ErrorCode.INVALID_REQUEST))
        elif ctx.api_version == 0:
            _fill_old_style(ctx, params, query, partition.max_num_offsets, answer)
        else:
            queries.append(query)
            waiting.append(answer)
        answers.append(answer)
    results = ctx.services.replicas.offsets.list_offsets(params, queries)
    return then(results, _fill_all, waiting)


def _fill_all(results: list[OffsetResult], waiting: list[PartitionResponse]) -> None:
    for answer, result in zip(waiting, results, strict=True):
        _fill(answer, result)


def _params(version: int, request: ListOffsetsRequest) -> OffsetParams:
    isolation = _ISOLATION.get(request.isolation_level)
    if isolation is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"No isolation level {request.isolation_level}")
    if request.replica_id != CONSUMER_REPLICA_ID:
        isolation = FetchIsolation.LOG_END
    leader_only = request.replica_id != DEBUGGING_REPLICA_ID
    return OffsetParams(version=version, isolation=isolation, leader_only=leader_only)


def _fill(answer: PartitionResponse, result: OffsetResult) -> None:
    answer.error_code = result.error_code
    answer.timestamp = result.timestamp
    answer.offset = result.offset
    answer.leader_epoch = result.leader_epoch


def _fill_old_style(
    ctx: RequestContext,
    params: OffsetParams,
    query: OffsetQuery,
    max_offsets: int,
    answer: PartitionResponse,
) -> None:
    answer.error_code, answer.old_style_offsets = ctx.services.replicas.offsets.list_offsets_before(
        params, query, max_offsets
    )
