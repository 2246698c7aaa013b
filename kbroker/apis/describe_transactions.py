"""DescribeTransactions (65): transactional ids as their coordinator has them stored (KIP-664).

v0: each id has its own outcome. It lists the partitions that take part, of topics that the client
may describe.

Law: an id takes three bytes to name, and thousands of partitions may take part. So other requests
are answered in between. Ids that are named over and over again are answered with a bounded number
of partitions, and then get INVALID_REQUEST. Kafka answers all as often as they are named.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from kbroker.acl.acl import AclOperation, AclResource, AclResourceType
from kbroker.apis.authorization import ForEach, named_transactional_id
from kbroker.apis.context import RequestContext
from kbroker.apis.large_answers import is_large
from kbroker.apis.registry import api
from kbroker.apis.request_parts import Parts
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import TopicPartition
from kbroker.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from kbroker.turns import in_turns

_BYTES_OF_PARTITION = 64  # in an answer
TOLD_AGAIN = 10_000  # partitions, of ids that are named again

State = DescribeTransactionsResponse.TransactionState
Topic = DescribeTransactionsResponse.TopicData


@api(
    DescribeTransactionsRequest,
    ForEach(
        operation=AclOperation.DESCRIBE,
        resource=named_transactional_id,
        asked="transactional_ids",
        answered="transaction_states",
    ),
    parts=Parts("transactional_ids", "transaction_states", key=""),
)
async def handle(
    ctx: RequestContext, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:
    """Describe each transactional id, some at a time."""
    response = DescribeTransactionsResponse()
    size_bytes = _BYTES_OF_PARTITION * _partitions(ctx, request.transactional_ids)
    if is_large(size_bytes):
        response.is_large, response.memory = True, await ctx.take(size_bytes)
    await in_turns(_fill(ctx, request.transactional_ids, response.transaction_states))
    return response


def _partitions(ctx: RequestContext, names: Sequence[str]) -> int:
    """Return how many partitions the answer has at most."""
    told: dict[str, int] = {}
    for name in dict.fromkeys(names):
        with suppress(KafkaError):
            told[name] = len(ctx.services.transactions.describe(name).partitions)
    again = sum(told.get(name, 0) for name in names) - sum(told.values())
    return sum(told.values()) + min(again, TOLD_AGAIN)


def _fill(ctx: RequestContext, names: Iterable[str], states: list[State]) -> Iterator[None]:
    told: dict[str, State] = {}
    room = TOLD_AGAIN
    for name in names:
        yield
        state = told.get(name)
        if state is None:
            state = told[name] = State(transactional_id=name)
            yield from _describe(ctx, state)
            if ctx.twice.was_told(name) and len(state.topics):
                room = -1  # another part of the request has it
                state = told[name] = _not_again(name)
        else:
            told_again = sum(len(topic.partitions) for topic in state.topics)
            room -= told_again
            if told_again and room < 0:
                state = told[name] = _not_again(name)
        states.append(state)


def _not_again(name: str) -> State:
    return State(transactional_id=name, error_code=ErrorCode.INVALID_REQUEST)


def _describe(ctx: RequestContext, state: State) -> Iterator[None]:
    try:
        found = ctx.services.transactions.describe(state.transactional_id)
    except KafkaError as error:
        state.error_code = error.code
        return
    state.transaction_state = found.state.label
    state.transaction_timeout_ms = found.timeout_ms
    state.transaction_start_time_ms = found.start_ms
    state.producer_id, state.producer_epoch = found.producer
    yield from _add_topics(ctx, state, found.partitions)


def _add_topics(
    ctx: RequestContext, state: State, partitions: Iterable[TopicPartition]
) -> Iterator[None]:
    by_topic: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        by_topic.setdefault(topic, []).append(index)
        yield
    for topic, indexes in by_topic.items():
        if ctx.is_authorized(AclOperation.DESCRIBE, AclResource(AclResourceType.TOPIC, topic)):
            state.topics.append(Topic(topic=topic, partitions=indexes))
        yield
