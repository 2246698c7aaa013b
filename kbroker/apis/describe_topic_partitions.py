"""DescribeTopicPartitions (key 75), version 0: topics and their partitions, page by page (KIP-966).

A page begins at the cursor and holds so many partitions as the request and
`max.request.partition.size.limit` allow, one at least; topics come by name. No more topics than
that setting says are in a page either: Kafka has all that are missing in one, however many. So of
many names only the first ones are kept, and they are looked at in turns with other requests.

Where ZooKeeper keeps the partitions' states, no replica outside of the ISR may lead, so both lists
of such are empty.
"""

from __future__ import annotations

from collections.abc import Iterator

from kbroker.acl.acl import AclOperation, AclResource, AclResourceType
from kbroker.apis.authorization import AskedInside
from kbroker.apis.authorizer import ALLOW_ALL, Purpose
from kbroker.apis.context import RequestContext
from kbroker.apis.large_answers import is_large
from kbroker.apis.large_requests import worked
from kbroker.apis.now_or_later import NowOrLater, then
from kbroker.apis.registry import api
from kbroker.apis.request_parts import AS_A_WHOLE
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import INTERNAL_TOPICS, NO_LEADER
from kbroker.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from kbroker.replication.metadata_cache import PartitionState
from kbroker.slices import slices
from kbroker.topic_name import is_valid_topic_name
from kbroker.turns import ENTRIES, in_turns, turn

Topic = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic
Partition = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition

_BYTES_OF_PARTITION = 512  # in an answer


class _Asked:
    """The names asked for from the cursor on: no more than a page can have."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.names: set[str] = set()  # the first ones
        self.hidden: dict[str, None] = {}  # what the client may not see, all of it
        self._last: str | None = None  # none behind it is among the first

    def add(self, name: str) -> None:
        """One more name, in any order, also for the second time."""
        if self._last is not None and name > self._last:
            return
        self.names.add(name)
        if len(self.names) >= 2 * self.most:
            self.names = set(self.in_order())
            self._last = max(self.names)

    def in_order(self) -> list[str]:
        return sorted(self.names)[: self.most]


@api(
    DescribeTopicPartitionsRequest,
    AskedInside(AclOperation.DESCRIBE, AclResourceType.TOPIC),
    parts=AS_A_WHOLE,
)
def handle(
    ctx: RequestContext, request: DescribeTopicPartitionsRequest
) -> NowOrLater[DescribeTopicPartitionsResponse]:
    """Describe one page of the topics asked for, or of all."""
    if not request.topics:
        return _page_of_all(ctx, request)
    asked = _Asked(1 + ctx.services.config.socket_server.max_request_partition_size_limit)
    steps = _sort(ctx, request, asked)
    entries = len(request.topics)
    answer = _answer_and_free if entries > ENTRIES else _answer
    return worked(steps, entries, answer, ctx, request, asked)


async def _page_of_all(
    ctx: RequestContext, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    await turn()  # to sort all names takes a millisecond, and hundreds may ask
    answer = _described_page(ctx, request, await _all_names(ctx, request))
    return answer if isinstance(answer, DescribeTopicPartitionsResponse) else await answer


async def _answer_and_free(
    ctx: RequestContext, request: DescribeTopicPartitionsRequest, asked: _Asked
) -> DescribeTopicPartitionsResponse:
    answer = _described_page(ctx, request, asked.in_order())
    if not isinstance(answer, DescribeTopicPartitionsResponse):
        answer = await answer
    await in_turns(_add_hidden(answer, asked))
    while request.topics:  # freed at once, a million entries hold the loop
        del request.topics[-ENTRIES:]
        await turn()
    return answer


def _answer(
    ctx: RequestContext, request: DescribeTopicPartitionsRequest, asked: _Asked
) -> NowOrLater[DescribeTopicPartitionsResponse]:
    return then(_described_page(ctx, request, asked.in_order()), _with_hidden, asked)


def _with_hidden(
    response: DescribeTopicPartitionsResponse, asked: _Asked
) -> DescribeTopicPartitionsResponse:
    for _ in _add_hidden(response, asked):
        pass
    return response


def _add_hidden(response: DescribeTopicPartitionsResponse, asked: _Asked) -> Iterator[None]:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    for name in asked.hidden:
        response.topics.append(Topic(error_code=code, name=name))
        yield


async def _all_names(ctx: RequestContext, request: DescribeTopicPartitionsRequest) -> list[str]:
    """List what the client may see from the cursor on, in order.

    Raises KafkaError INVALID_REQUEST.
    """
    start = _start(request)
    names = [name for name in ctx.services.metadata.topics() if name >= start]
    if ctx.services.authorizer is ALLOW_ALL:
        return sorted(names)
    shown: list[str] = []
    for some in slices(names, ENTRIES):
        hidden = ctx.refused(AclOperation.DESCRIBE, AclResourceType.TOPIC, some, Purpose.TO_CHOOSE)
        shown += (name for name in some if name not in hidden)
        await turn()
    return sorted(shown)


def _sort(
    ctx: RequestContext, request: DescribeTopicPartitionsRequest, asked: _Asked
) -> Iterator[None]:
    """Look at one name after the other; yields after each. Raises KafkaError INVALID_REQUEST."""
    start = _start(request)
    is_start_asked_for = request.cursor is None
    for topic in request.topics:
        name = topic.name
        is_start_asked_for = is_start_asked_for or name == start
        if name >= start:
            if ctx.refused(AclOperation.DESCRIBE, AclResourceType.TOPIC, (name,)):
                asked.hidden[name] = None
            else:
                asked.add(name)
        yield
    if not is_start_asked_for:
        raise KafkaError(ErrorCode.INVALID_REQUEST)


def _start(request: DescribeTopicPartitionsRequest) -> str:
    """The first name of the page. Raises KafkaError INVALID_REQUEST."""
    if request.cursor is None:
        return ""
    if request.cursor.partition_index < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    return request.cursor.topic_name


def _described_page(
    ctx: RequestContext, request: DescribeTopicPartitionsRequest, names: list[str]
) -> NowOrLater[DescribeTopicPartitionsResponse]:
    size_bytes = _BYTES_OF_PARTITION * sum(map(ctx.services.metadata.partition_count, names))
    if is_large(size_bytes):
        return _described_later(ctx, request, names, size_bytes)
    response = DescribeTopicPartitionsResponse()
    return worked(_fill(ctx, request, names, response), len(names), lambda: response)


async def _described_later(
    ctx: RequestContext, request: DescribeTopicPartitionsRequest, names: list[str], size_bytes: int
) -> DescribeTopicPartitionsResponse:
    response = DescribeTopicPartitionsResponse()
    most = ctx.services.config.socket_server.max_request_partition_size_limit
    response.memory = await ctx.take(min(size_bytes, most * _BYTES_OF_PARTITION))
    response.is_large = True
    await in_turns(_fill(ctx, request, names, response))
    return response


def _fill(
    ctx: RequestContext,
    request: DescribeTopicPartitionsRequest,
    names: list[str],
    response: DescribeTopicPartitionsResponse,
) -> Iterator[None]:
    """Describe one topic of a page after the other; yields after each."""
    metadata, cursor = ctx.services.metadata, request.cursor
    most = ctx.services.config.socket_server.max_request_partition_size_limit
    left = max(1, min(most, request.response_partition_limit))
    for name in names:
        if left == 0 or len(response.topics) >= most:
            response.next_cursor = _cursor(name, 0)
            break
        if not metadata.contains_topic(name):
            if request.topics:
                response.topics.append(_missing(ctx, name))
            yield
            continue
        start = cursor.partition_index if cursor and cursor.topic_name == name else 0
        states = metadata.partition_states(name)
        numbers = sorted(number for number in states if number >= start)
        page, later = numbers[:left], numbers[left:]
        response.topics.append(_described(ctx, name, [states[number] for number in page]))
        if later:
            response.next_cursor = _cursor(name, later[0])
            break
        left -= len(page)
        yield


def _cursor(topic: str, partition: int) -> DescribeTopicPartitionsResponse.Cursor:
    return DescribeTopicPartitionsResponse.Cursor(topic_name=topic, partition_index=partition)


def _missing(ctx: RequestContext, name: str) -> Topic:
    """Return a topic that is not there, yet with the operations that the client might do to it."""
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if not is_valid_topic_name(name):
        code = ErrorCode.INVALID_TOPIC_EXCEPTION
    return Topic(
        error_code=code,
        name=name,
        is_internal=name in INTERNAL_TOPICS,
        topic_authorized_operations=ctx.authorized_operations(
            AclResource(AclResourceType.TOPIC, name)
        ),
    )


def _described(ctx: RequestContext, name: str, states: list[PartitionState]) -> Topic:
    return Topic(
        name=name,
        topic_id=ctx.services.metadata.topic_id(name),
        is_internal=name in INTERNAL_TOPICS,
        partitions=[_partition(ctx, state) for state in states],
        topic_authorized_operations=ctx.authorized_operations(
            AclResource(AclResourceType.TOPIC, name)
        ),
    )


def _partition(ctx: RequestContext, state: PartitionState) -> Partition:
    listener_name = ctx.connection.listener_name
    is_reachable = ctx.services.metadata.end_point(state.leader, listener_name) is not None
    return Partition(
        partition_index=state.partition_index,
        leader_id=state.leader if is_reachable else NO_LEADER,
        leader_epoch=state.leader_epoch,
        replica_nodes=list(state.replicas),
        isr_nodes=list(state.isr),
        eligible_leader_replicas=[],
        last_known_elr=[],
        offline_replicas=list(state.offline_replicas),
    )
