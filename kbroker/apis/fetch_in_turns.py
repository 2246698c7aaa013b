"""A Fetch of thousands of partitions, named in the request or kept by its session: each step of it
is done for some of them at a time, with other requests in between.

Law: what it holds of the memory others may wait for, so one that names them all, or is large for
another reason, waits half a second for records and no longer.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from kbroker.apis.authorizer import ALLOW_ALL
from kbroker.apis.context import RequestContext
from kbroker.apis.fetch_answers import (
    FIRST_VERSION_WITH_STORAGE_ERROR,
    Answers,
    add_leader_addresses,
    count_sent,
    explain,
    hidden_topics,
    settle_codes,
    with_refused,
    without_revoked,
)
from kbroker.apis.fetch_quota import pauses
from kbroker.apis.large_requests import let_go
from kbroker.apis.now_or_later import NowOrLater
from kbroker.protocol.messages.fetch import FetchRequest, FetchResponse
from kbroker.rare_collections import collecting_all_rarely
from kbroker.replication.reads.fetch_context import FetchContext
from kbroker.replication.reads.fetch_params import FetchPartition
from kbroker.replication.reads.fetch_session import forgotten_keys
from kbroker.slices import slices, slices_of_topics
from kbroker.turns import turn

Read = Callable[[FetchContext, list[FetchPartition]], NowOrLater[Answers]]

FEW = 1_000
SLICE = 250
LONGEST_WAIT_MS = 500


def partition_count_of(request: FetchRequest) -> int:
    """How many partitions a request names."""
    count = 0
    for topic in request.topics:
        count += len(topic.partitions)
    for forgotten in request.forgotten_topics_data:
        count += len(forgotten.partitions)
    return count


async def fetch_in_turns(ctx: RequestContext, request: FetchRequest, read: Read) -> FetchResponse:
    """Answer a consumer. Raises KafkaError as `FetchContext`."""
    with collecting_all_rarely():
        return await _fetch(ctx, request, read)


async def _fetch(ctx: RequestContext, request: FetchRequest, read: Read) -> FetchResponse:
    context = await _context(ctx, request)
    asked_for = context.asked_for
    hidden = await _hidden(ctx, asked_for)
    kept = asked_for
    if hidden:
        kept = [asked for asked in asked_for if asked.topic_partition.topic not in hidden]
    outcome = read(context, kept) if kept else []
    answers = outcome if isinstance(outcome, list) else await outcome
    if context.is_over:
        return context.end()
    if ctx.services.quotas is not None and pauses(ctx, context, answers):
        return context.throttled()
    context.begin_response()
    leaders: set[int] = set()
    allowed = iter(answers)
    for some in slices(asked_for, SLICE):
        told = with_refused(allowed, some, hidden) if hidden else list(islice(allowed, len(some)))
        if ctx.services.authorizer is not ALLOW_ALL:
            told = without_revoked(told, ctx, some, hidden)
        if ctx.api_version < FIRST_VERSION_WITH_STORAGE_ERROR:
            settle_codes(told)
        leaders |= explain(ctx, some, told, context.origin)
        count_sent(some)
        context.add(some, told)
        await turn()
    response = context.end()
    await let_go(asked_for)
    if leaders:
        add_leader_addresses(ctx, leaders, response)
    response.is_large = True
    return response


async def _context(ctx: RequestContext, request: FetchRequest) -> FetchContext:
    topic_name = ctx.services.metadata.topic_name
    context = FetchContext(
        ctx.services.replicas.fetch_sessions,
        request,
        ctx.api_version,
        is_follower=False,
        connection=ctx.connection,
    )
    for topics in slices_of_topics(request.topics, "partitions", SLICE):
        context.add_topics(topics, topic_name)
        await turn()
    keys = forgotten_keys(request.forgotten_topics_data, context.origin)
    for some in slices(keys, SLICE):
        context.forget(some)
        await turn()
    names = context.named
    context.ready(request)
    while names:
        for _ in range(min(SLICE, len(names))):
            names.popitem()
        await turn()
    if context.session is not None and context.origin.uses_topic_ids:
        for asked_for in slices(context.asked_for, SLICE):
            context.find_names(asked_for, topic_name)
            await turn()
    return context


async def _hidden(ctx: RequestContext, asked_for: list[FetchPartition]) -> set[str]:
    hidden: set[str] = set()
    if ctx.services.authorizer is not ALLOW_ALL:
        for some in slices(asked_for, SLICE):
            hidden |= hidden_topics(ctx, some)
            await turn()
    return hidden
