"""OffsetFetch (9): how far groups have read.

v0: read from the znode tree, where v0 commits are kept. v1: from the coordinator, errors per
partition. v2: error of the request, null topics for all. v5: leader epoch. v7: require_stable
(KIP-447). v8: several groups (KIP-709). v9: member id and epoch, which are checked in groups of the
consumer protocol. v10: topics by id: offsets of one that had the name before are not found. A
partition without a committed offset, existing or not, is answered with offset -1 and no error.

With several groups, each is read and written in a turn of the loop of its own: monitoring asks for
all groups of a cluster at once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from itertools import chain, groupby, islice
from typing import Any, TypeVar

from kbroker.acl.acl import AclOperation, AclResource, AclResourceType
from kbroker.apis.authorization import AskedInside, ForEach, ForRequest, its_group
from kbroker.apis.context import RequestContext
from kbroker.apis.large_answers import Rest, is_large, written
from kbroker.apis.large_requests import worked
from kbroker.apis.now_or_later import NowOrLater
from kbroker.apis.registry import api
from kbroker.apis.request_parts import Parts
from kbroker.coordinator.group.offsets import NOTHING_COMMITTED, FetchedOffset
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import ZERO_UUID, TopicPartition
from kbroker.protocol.codec import keep_encoded
from kbroker.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kbroker.slices import slices
from kbroker.turns import ENTRIES, in_turns, turn

_FIRST_VERSION_WITH_TOP_ERROR = 2
_FIRST_VERSION_WITH_GROUPS = 8
_FIRST_VERSION_WITH_TOPIC_IDS = 10
_BYTES_OF_OFFSET = 64
_READ_AT_ONCE = 8_192  # so many offsets are those of one moment; some 10 ms

Row = OffsetFetchResponse.OffsetFetchResponsePartition
GroupRow = OffsetFetchResponse.OffsetFetchResponsePartitions
GroupTopic = OffsetFetchResponse.OffsetFetchResponseTopics
Group = OffsetFetchResponse.OffsetFetchResponseGroup
RowT = TypeVar("RowT", Row, GroupRow)
Fetched = list[tuple[TopicPartition, FetchedOffset]]
_REFUSED = FetchedOffset(-1, -1, "", ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def _only_group(ctx: RequestContext, request: OffsetFetchRequest) -> AclResource | None:
    return None if ctx.api_version >= _FIRST_VERSION_WITH_GROUPS else its_group(ctx, request)


def _each_group(
    _ctx: RequestContext,
    _request: OffsetFetchRequest,
    group: OffsetFetchRequest.OffsetFetchRequestGroup,
) -> AclResource:
    return AclResource(AclResourceType.GROUP, group.group_id)


@api(
    OffsetFetchRequest,
    ForRequest(AclOperation.DESCRIBE, _only_group),
    ForEach(
        operation=AclOperation.DESCRIBE, resource=_each_group, asked="groups", answered="groups"
    ),
    AskedInside(AclOperation.DESCRIBE, AclResourceType.TOPIC),
    parts=(
        Parts("groups.topics.partition_indexes", "groups.topics.partitions"),
        Parts("topics.partition_indexes", "topics.partitions"),
    ),
)
def handle(ctx: RequestContext, request: OffsetFetchRequest) -> NowOrLater[OffsetFetchResponse]:
    """Fetch the offsets of one group or several; other requests are answered between many."""
    if ctx.api_version >= _FIRST_VERSION_WITH_GROUPS:
        size_bytes = _bytes_of_all(ctx, request)
        if is_large(size_bytes):
            parts = _told_groups(ctx, request)
            array = "groups.topics.partitions"
            return written(ctx, OffsetFetchResponse(), array, parts, size_bytes)
        if len(request.groups) == 1:
            return _only_one(ctx, request.groups[0], request.require_stable)
        return _one_by_one(ctx, request)
    if ctx.api_version == 0:
        return _read_from_tree(ctx, request)
    response = OffsetFetchResponse()
    if request.topics is not None:
        entries = _count(request.topics)
        return worked(_fill(ctx, request, request.topics, response), entries, lambda: response)
    if is_large(_BYTES_OF_OFFSET * ctx.services.groups.offsets.count(request.group_id)):
        return _tell_all(ctx, request)
    try:
        fetched = _fetched(ctx, request.group_id, None, request.require_stable)
    except KafkaError as error:
        response.error_code = int(error.code)
        return response
    for _ in _fill_flat(fetched, response):
        pass
    return response


async def _tell_all(ctx: RequestContext, request: OffsetFetchRequest) -> OffsetFetchResponse:
    size_bytes = _BYTES_OF_OFFSET * ctx.services.groups.offsets.count(request.group_id)
    topic = OffsetFetchResponse.OffsetFetchResponseTopic
    parts = (
        Rest(topic(name=name, partitions=_rows(Row, rows)) for name, rows in some)
        for some in _stored(ctx, request.group_id, request.require_stable)
    )
    try:
        response = OffsetFetchResponse()
        return await written(ctx, response, "topics.partitions", parts, size_bytes)
    except KafkaError as error:
        return OffsetFetchResponse(error_code=int(error.code))


def _stored(
    ctx: RequestContext, group_id: str, require_stable: bool
) -> Iterator[list[tuple[str, Fetched]]]:
    """Read all offsets of a group, topic by topic, some at a time, of topics that the client may
    see at that moment; yields nothing in between. Raises KafkaError if the coordinator does not
    know.
    """
    by_topic: dict[str, list[TopicPartition]] = {}
    for some in slices(ctx.services.groups.offsets.stored(group_id), ENTRIES):
        for partition in some:
            by_topic.setdefault(partition.topic, []).append(partition)
        yield []
    for some in slices(chain.from_iterable(by_topic.values()), ENTRIES):
        hidden = _hidden(ctx, (partition.topic for partition in some))
        partitions = [partition for partition in some if partition.topic not in hidden]
        fetched = ctx.services.groups.offsets.fetch(group_id, partitions, require_stable)
        found = (entry for entry in fetched if entry[1] is not NOTHING_COMMITTED)  # gone meanwhile
        yield [(topic, list(rows)) for topic, rows in groupby(found, lambda entry: entry[0].topic)]


def _count(topics: Iterable[Any]) -> int:
    return sum(1 + len(topic.partition_indexes) for topic in topics)


def _fetched(
    ctx: RequestContext,
    group_id: str,
    partitions: Sequence[TopicPartition] | None,
    require_stable: bool,
    by_id: bool = False,
) -> Fetched:
    """Return the coordinator's answer, without topics that the client may not see. Raises
    KafkaError if the coordinator does not know.
    """
    offsets = ctx.services.groups.offsets
    fetched: Fetched = offsets.fetch(group_id, partitions, require_stable, by_id)
    hidden = _hidden(ctx, (partition.topic for partition, _ in fetched))
    if not hidden:
        return fetched
    if partitions is None:
        return [entry for entry in fetched if entry[0].topic not in hidden]
    return [(p, _REFUSED if p.topic in hidden else value) for p, value in fetched]


def _hidden(ctx: RequestContext, topics: Iterable[str]) -> frozenset[str]:
    return ctx.refused(AclOperation.DESCRIBE, AclResourceType.TOPIC, topics)


def _fill(
    ctx: RequestContext,
    request: OffsetFetchRequest,
    topics: Sequence[OffsetFetchRequest.OffsetFetchRequestTopic],
    response: OffsetFetchResponse,
) -> Iterator[None]:
    """Fill in topics and partitions as they were asked for, even those asked for twice."""
    for topic in topics:
        response.topics.append(OffsetFetchResponse.OffsetFetchResponseTopic(name=topic.name))
        yield
    asked = (
        (TopicPartition(topic.name, index), answer.partitions)
        for topic, answer in zip(topics, response.topics, strict=True)
        for index in topic.partition_indexes
    )
    try:
        yield from _read(ctx, request.group_id, asked, request.require_stable, Row)
    except KafkaError as error:
        response.topics = []
        if ctx.api_version >= _FIRST_VERSION_WITH_TOP_ERROR:
            response.error_code = int(error.code)
            return
        refused = FetchedOffset(-1, -1, "", error.code)
        partitions = (
            TopicPartition(t.name, index) for t in topics for index in t.partition_indexes
        )
        yield from _fill_flat(((partition, refused) for partition in partitions), response)


def _read(
    ctx: RequestContext,
    group_id: str,
    asked: Iterator[tuple[TopicPartition, list[RowT]]],
    require_stable: bool,
    kind: type[RowT],
) -> Iterator[None]:
    """Add a row for each partition to its list. KafkaError if the coordinator does not know."""
    part = list(islice(asked, _READ_AT_ONCE))
    while True:
        partitions = [partition for partition, _ in part]
        by_id = ctx.api_version >= _FIRST_VERSION_WITH_TOPIC_IDS
        fetched = _fetched(ctx, group_id, partitions, require_stable, by_id)
        for (_, rows), (partition, value) in zip(part, fetched, strict=True):
            rows.append(_row(kind, partition, value))
            yield
        part = list(islice(asked, _READ_AT_ONCE))
        if not part:
            return


def _row(kind: type[RowT], partition: TopicPartition, value: FetchedOffset) -> RowT:
    return kind(
        partition_index=partition.partition,
        committed_offset=value.offset,
        committed_leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        error_code=int(value.error),
    )


def _fill_flat(
    fetched: Iterable[tuple[TopicPartition, FetchedOffset]], response: OffsetFetchResponse
) -> Iterator[None]:
    by_topic: dict[str, list[Row]] = {}
    for partition, value in fetched:
        _add(response, by_topic, partition, value)
        yield


def _add(
    response: OffsetFetchResponse,
    by_topic: dict[str, list[Row]],
    partition: TopicPartition,
    value: FetchedOffset,
) -> None:
    rows = by_topic.get(partition.topic)
    if rows is None:
        rows = by_topic[partition.topic] = []
        response.topics.append(
            OffsetFetchResponse.OffsetFetchResponseTopic(name=partition.topic, partitions=rows)
        )
    rows.append(_row(Row, partition, value))


def _only_one(
    ctx: RequestContext, asked: OffsetFetchRequest.OffsetFetchRequestGroup, require_stable: bool
) -> NowOrLater[OffsetFetchResponse]:
    group = Group(group_id=asked.group_id)
    response = OffsetFetchResponse(groups=[group])
    steps = _fill_group(ctx, asked, require_stable, group)
    return worked(steps, _count(asked.topics or ()), lambda: response)


async def _one_by_one(ctx: RequestContext, request: OffsetFetchRequest) -> OffsetFetchResponse:
    response = OffsetFetchResponse()
    for asked in request.groups:
        group = Group(group_id=asked.group_id)
        await in_turns(_fill_group(ctx, asked, request.require_stable, group))
        for topic in group.topics:
            keep_encoded(topic, ctx.api_version)
        response.groups.append(group)
        await turn()
    return response


def _bytes_of_all(ctx: RequestContext, request: OffsetFetchRequest) -> int:
    """Return about how many bytes the answers take for groups asked for all their offsets."""
    count = ctx.services.groups.offsets.count
    return sum(_BYTES_OF_OFFSET * count(g.group_id) for g in request.groups if g.topics is None)


def _told_groups(ctx: RequestContext, request: OffsetFetchRequest) -> Iterator[list[Any]]:
    for asked in request.groups:
        if asked.topics is None:
            yield from _told_group(ctx, asked, request.require_stable)
        else:
            group = Group(group_id=asked.group_id)
            steps = _fill_group(ctx, asked, request.require_stable, group)
            yield from ([] for _ in slices(steps, ENTRIES))
            yield [group]


def _check_reader(ctx: RequestContext, asked: OffsetFetchRequest.OffsetFetchRequestGroup) -> None:
    """Raise KafkaError for a member of a consumer group in another epoch than its own."""
    if asked.member_id is not None or asked.member_epoch >= 0:
        ctx.services.groups.offsets.check_reader(
            asked.group_id, asked.member_id, asked.member_epoch
        )


def _told_group(
    ctx: RequestContext, asked: OffsetFetchRequest.OffsetFetchRequestGroup, require_stable: bool
) -> Iterator[list[Any]]:
    stored = _stored(ctx, asked.group_id, require_stable)
    try:
        _check_reader(ctx, asked)
        next(stored, None)
    except KafkaError as error:
        yield [Group(group_id=asked.group_id, error_code=int(error.code))]
        return
    yield [Group(group_id=asked.group_id)]
    by_id = ctx.api_version >= _FIRST_VERSION_WITH_TOPIC_IDS
    for some in stored:
        yield Rest([Group(group_id=asked.group_id, topics=_group_topics(ctx, some, by_id))])


def _fill_group(
    ctx: RequestContext,
    asked: OffsetFetchRequest.OffsetFetchRequestGroup,
    require_stable: bool,
    group: Group,
) -> Iterator[None]:
    by_id = ctx.api_version >= _FIRST_VERSION_WITH_TOPIC_IDS
    known: list[tuple[OffsetFetchRequest.OffsetFetchRequestTopics, GroupTopic]] = []
    try:
        _check_reader(ctx, asked)
        if asked.topics is None:
            group.topics = _all_topics(
                ctx, _fetched(ctx, asked.group_id, None, require_stable), by_id
            )
            return
        for topic in asked.topics:
            name = ctx.services.metadata.topic_name(topic.topic_id) if by_id else topic.name
            if name is None:
                answer = GroupTopic(topic_id=topic.topic_id)
                yield from _fill_unknown(topic, answer)
            else:
                answer = GroupTopic(name=name, topic_id=topic.topic_id)
                known.append((topic, answer))
            group.topics.append(answer)
            yield
        wanted = (
            (TopicPartition(answer.name, index), answer.partitions)
            for topic, answer in known
            for index in topic.partition_indexes
        )
        if known:
            yield from _read(ctx, asked.group_id, wanted, require_stable, GroupRow)
    except KafkaError as error:
        group.topics = []
        group.error_code = int(error.code)


def _all_topics(ctx: RequestContext, fetched: Fetched, by_id: bool) -> list[GroupTopic]:
    """Topics that are gone have no id: an answer by id leaves them out."""
    by_topic: dict[str, Fetched] = {}
    for entry in fetched:
        by_topic.setdefault(entry[0].topic, []).append(entry)
    return _group_topics(ctx, by_topic.items(), by_id)


def _group_topics(
    ctx: RequestContext, by_topic: Iterable[tuple[str, Fetched]], by_id: bool
) -> list[GroupTopic]:
    return [
        GroupTopic(
            name=name,
            topic_id=ctx.services.metadata.topic_id(name),
            partitions=_rows(GroupRow, entries),
        )
        for name, entries in by_topic
        if not by_id or ctx.services.metadata.topic_id(name) != ZERO_UUID
    ]


def _fill_unknown(
    topic: OffsetFetchRequest.OffsetFetchRequestTopics, answer: GroupTopic
) -> Iterator[None]:
    code = int(ErrorCode.UNKNOWN_TOPIC_ID)
    for index in topic.partition_indexes:
        row = GroupRow(partition_index=index, committed_offset=-1, error_code=code)
        answer.partitions.append(row)
        yield


def _rows(kind: type[RowT], fetched: Fetched) -> list[RowT]:
    return [_row(kind, partition, value) for partition, value in fetched]


async def _read_from_tree(ctx: RequestContext, request: OffsetFetchRequest) -> OffsetFetchResponse:
    topics = request.topics or []
    hidden = _hidden(ctx, (topic.name for topic in topics))
    partitions = (TopicPartition(t.name, index) for t in topics for index in t.partition_indexes)
    response = OffsetFetchResponse()
    by_topic: dict[str, list[Row]] = {}

    async def steps() -> AsyncIterator[None]:
        for partition in partitions:
            value = _REFUSED
            if partition.topic not in hidden:
                value = await _in_tree(ctx, request.group_id, partition)
            _add(response, by_topic, partition, value)
            yield

    await in_turns(steps())
    return response


async def _in_tree(ctx: RequestContext, group_id: str, partition: TopicPartition) -> FetchedOffset:
    try:
        offset = await ctx.services.groups.legacy_offsets.get(group_id, partition)
    except KafkaError as error:
        return FetchedOffset(-1, -1, "", error.code)
    return NOTHING_COMMITTED if offset is None else FetchedOffset(offset, -1, "", ErrorCode.NONE)
