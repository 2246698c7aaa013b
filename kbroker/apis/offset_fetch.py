"""OffsetFetch (9): how far groups have read.

v0: read from the znode tree, where v0 commits are kept. v1: from the coordinator, errors per
partition. v2: error of the request, null topics for all. v5: leader epoch. v7: require_stable
(KIP-447). v8: several groups (KIP-709). v9: member id and epoch of the consumer protocol, which say
nothing about a classic group. v10: topics by id. A partition without a committed offset, existing
or not, is answered with offset -1 and no error.

Of several groups each is read and written in a turn of the loop of its own: monitoring asks for all
groups of a cluster at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence

from kbroker.apis.authorization import AskedInside, ForEach, ForRequest, its_group
from kbroker.apis.authorizer import AclOperation, Resource, ResourceType
from kbroker.apis.context import RequestContext
from kbroker.apis.large_requests import PART_ENTRIES, Parts, in_turns
from kbroker.apis.now_or_later import NowOrLater
from kbroker.apis.registry import api
from kbroker.coordinator.group.offsets import NOTHING_COMMITTED, FetchedOffset
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import ZERO_UUID, TopicPartition
from kbroker.protocol.codec import keep_encoded
from kbroker.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse

_FIRST_VERSION_WITH_TOP_ERROR = 2
_FIRST_VERSION_WITH_GROUPS = 8
_FIRST_VERSION_WITH_TOPIC_IDS = 10

Row = OffsetFetchResponse.OffsetFetchResponsePartition
GroupRow = OffsetFetchResponse.OffsetFetchResponsePartitions
GroupTopic = OffsetFetchResponse.OffsetFetchResponseTopics
Fetched = list[tuple[TopicPartition, FetchedOffset]]
_REFUSED = FetchedOffset(-1, -1, "", ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def _only_group(ctx: RequestContext, request: OffsetFetchRequest) -> Resource | None:
    return None if ctx.api_version >= _FIRST_VERSION_WITH_GROUPS else its_group(ctx, request)


def _each_group(
    _ctx: RequestContext,
    _request: OffsetFetchRequest,
    group: OffsetFetchRequest.OffsetFetchRequestGroup,
) -> Resource:
    return Resource(ResourceType.GROUP, group.group_id)


@api(
    OffsetFetchRequest,
    ForRequest(AclOperation.DESCRIBE, _only_group),
    ForEach(
        operation=AclOperation.DESCRIBE, resource=_each_group, asked="groups", answered="groups"
    ),
    AskedInside(AclOperation.DESCRIBE, ResourceType.TOPIC),
    parts=Parts("groups", "groups"),
)
def handle(ctx: RequestContext, request: OffsetFetchRequest) -> NowOrLater[OffsetFetchResponse]:
    """Fetch the offsets of one group, or of several."""
    if ctx.api_version >= _FIRST_VERSION_WITH_GROUPS:
        if len(request.groups) > 1:
            return _one_by_one(ctx, request)
        groups = [_group(ctx, group, request.require_stable) for group in request.groups]
        return OffsetFetchResponse(groups=groups)
    partitions = None
    if request.topics is not None:
        partitions = [
            TopicPartition(topic.name, index)
            for topic in request.topics
            for index in topic.partition_indexes
        ]
    if ctx.api_version == 0:
        return _read_from_tree(ctx, request.group_id, partitions or [])
    try:
        fetched = _fetched(ctx, request.group_id, partitions, request.require_stable)
    except KafkaError as error:
        if ctx.api_version >= _FIRST_VERSION_WITH_TOP_ERROR:
            return OffsetFetchResponse(error_code=int(error.code))
        refused = FetchedOffset(-1, -1, "", error.code)
        return _flat([(partition, refused) for partition in partitions or []])
    return _flat(fetched) if request.topics is None else _by_request(request.topics, fetched)


def _fetched(
    ctx: RequestContext,
    group_id: str,
    partitions: Sequence[TopicPartition] | None,
    require_stable: bool,
) -> Fetched:
    """As the coordinator says it; of topics that the client may not see nothing. Raises KafkaError
    where the coordinator cannot tell.
    """
    fetched: Fetched = ctx.services.groups.offsets.fetch(group_id, partitions, require_stable)
    hidden = _hidden(ctx, (partition.topic for partition, _ in fetched))
    if not hidden:
        return fetched
    if partitions is None:
        return [entry for entry in fetched if entry[0].topic not in hidden]
    return [(p, _REFUSED if p.topic in hidden else value) for p, value in fetched]


def _hidden(ctx: RequestContext, topics: Iterable[str]) -> frozenset[str]:
    return ctx.refused(AclOperation.DESCRIBE, ResourceType.TOPIC, topics)


def _by_request(
    topics: list[OffsetFetchRequest.OffsetFetchRequestTopic], fetched: Fetched
) -> OffsetFetchResponse:
    """Topics and partitions as they were asked for, also those that were asked for twice."""
    values = iter(fetched)
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponse.OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[_row(*next(values)) for _ in topic.partition_indexes],
            )
            for topic in topics
        ]
    )


def _row(partition: TopicPartition, value: FetchedOffset) -> Row:
    return Row(
        partition_index=partition.partition,
        committed_offset=value.offset,
        committed_leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        error_code=int(value.error),
    )


def _flat(fetched: Fetched) -> OffsetFetchResponse:
    response = OffsetFetchResponse()
    for _ in _fill_flat(fetched, response):
        pass
    return response


def _fill_flat(fetched: Fetched, response: OffsetFetchResponse) -> Iterator[None]:
    by_topic: dict[str, list[Row]] = {}
    for partition, value in fetched:
        rows = by_topic.get(partition.topic)
        if rows is None:
            rows = by_topic[partition.topic] = []
            response.topics.append(
                OffsetFetchResponse.OffsetFetchResponseTopic(name=partition.topic, partitions=rows)
            )
        rows.append(_row(partition, value))
        yield


async def _one_by_one(ctx: RequestContext, request: OffsetFetchRequest) -> OffsetFetchResponse:
    response = OffsetFetchResponse()
    for asked in request.groups:
        group = _group(ctx, asked, request.require_stable)
        for topic in group.topics:
            keep_encoded(topic, ctx.api_version)
        response.groups.append(group)
        await asyncio.sleep(0)
    return response


def _group(
    ctx: RequestContext, group: OffsetFetchRequest.OffsetFetchRequestGroup, require_stable: bool
) -> OffsetFetchResponse.OffsetFetchResponseGroup:
    response = OffsetFetchResponse.OffsetFetchResponseGroup(group_id=group.group_id)
    by_id = ctx.api_version >= _FIRST_VERSION_WITH_TOPIC_IDS
    try:
        if group.topics is None:
            response.topics = _all_topics(
                ctx, _fetched(ctx, group.group_id, None, require_stable), by_id
            )
            return response
        for topic in group.topics:
            name = ctx.services.metadata.topic_name(topic.topic_id) if by_id else topic.name
            if name is None:
                response.topics.append(_unknown_topic(topic))
                continue
            partitions = [TopicPartition(name, index) for index in topic.partition_indexes]
            rows = _rows(_fetched(ctx, group.group_id, partitions, require_stable))
            answer = GroupTopic(name=name, topic_id=topic.topic_id, partitions=rows)
            response.topics.append(answer)
    except KafkaError as error:
        response.topics = []
        response.error_code = int(error.code)
    return response


def _all_topics(ctx: RequestContext, fetched: Fetched, by_id: bool) -> list[GroupTopic]:
    """Topics that are gone have no id: an answer by id leaves them out."""
    by_topic: dict[str, Fetched] = {}
    for entry in fetched:
        by_topic.setdefault(entry[0].topic, []).append(entry)
    return [
        GroupTopic(
            name=name, topic_id=ctx.services.metadata.topic_id(name), partitions=_rows(entries)
        )
        for name, entries in by_topic.items()
        if not by_id or ctx.services.metadata.topic_id(name) != ZERO_UUID
    ]


def _unknown_topic(topic: OffsetFetchRequest.OffsetFetchRequestTopics) -> GroupTopic:
    code = int(ErrorCode.UNKNOWN_TOPIC_ID)
    rows = [
        GroupRow(partition_index=index, committed_offset=-1, error_code=code)
        for index in topic.partition_indexes
    ]
    return GroupTopic(topic_id=topic.topic_id, partitions=rows)


def _rows(fetched: Fetched) -> list[GroupRow]:
    return [
        GroupRow(
            partition_index=partition.partition,
            committed_offset=value.offset,
            committed_leader_epoch=value.leader_epoch,
            metadata=value.metadata,
            error_code=int(value.error),
        )
        for partition, value in fetched
    ]


async def _read_from_tree(
    ctx: RequestContext, group_id: str, partitions: Sequence[TopicPartition]
) -> OffsetFetchResponse:
    fetched: Fetched = []
    hidden = _hidden(ctx, (p.topic for p in partitions))
    for number, partition in enumerate(partitions, 1):
        if number % PART_ENTRIES == 0:  # a tree of this process answers at once
            await asyncio.sleep(0)
        if partition.topic in hidden:
            fetched.append((partition, _REFUSED))
            continue
        try:
            offset = await ctx.services.groups.legacy_offsets.get(group_id, partition)
        except KafkaError as error:
            fetched.append((partition, FetchedOffset(-1, -1, "", error.code)))
            continue
        value = (
            NOTHING_COMMITTED if offset is None else FetchedOffset(offset, -1, "", ErrorCode.NONE)
        )
        fetched.append((partition, value))
    response = OffsetFetchResponse()
    await in_turns(_fill_flat(fetched, response))
    return response
