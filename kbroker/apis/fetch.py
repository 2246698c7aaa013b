"""Fetch (key 1): read record batches, as slices of the segment files.

v0, v1: message format 0. v2, v3: format 1; what is stored in a newer one is converted. v3: limit of
the whole answer. v4: format 2, isolation level. v7: sessions (KIP-227). v9: leader epochs
(KIP-320). v10: zstd. v11: consumers may read from followers. v12: diverging epochs. v13: topics by
id. v16: who leads instead (KIP-951). v18: a follower's high watermark. Not served: tiered storage.
"""

from __future__ import annotations

import asyncio
from functools import partial

from kbroker.acl.acl import AclOperation, AclResourceType
from kbroker.apis.authorization import AskedInside
from kbroker.apis.authorizer import ALLOW_ALL
from kbroker.apis.context import LargeContext, RequestContext
from kbroker.apis.fetch_answers import Answers, answered, hidden_topics, still_allowed
from kbroker.apis.fetch_converted import fetch_converted
from kbroker.apis.fetch_in_turns import FEW, LONGEST_WAIT_MS, fetch_in_turns, partition_count_of
from kbroker.apis.fetch_quota import restrict
from kbroker.apis.fetch_shortcut import shortcut_of
from kbroker.apis.fetch_versions import (
    FIRST_VERSION_WITH_FORMAT_2,
    FIRST_VERSION_WITH_REPLICA_STATE,
    chooses_replica,
    params_of,
)
from kbroker.apis.near_replicas import NearReplicas
from kbroker.apis.now_or_later import NowOrLater, then
from kbroker.apis.registry import api
from kbroker.apis.request_parts import AS_A_WHOLE
from kbroker.errors import ErrorCode
from kbroker.model import CONSUMER_REPLICA_ID
from kbroker.peers.cluster_action import BrokerClaim
from kbroker.protocol.messages.fetch import FetchRequest, FetchResponse
from kbroker.protocol.request import Coming
from kbroker.record import conversion  # noqa: F401  with its handler: see the registry
from kbroker.replication.reads.fetch_context import FetchContext
from kbroker.replication.reads.fetch_params import FetchParams, FetchPartition
from kbroker.replication.reads.fetch_reader import refusal_entry


def _is_from_follower(request: FetchRequest) -> bool:
    return request.replica_id >= 0 or request.replica_state.replica_id >= 0


@api(
    FetchRequest,
    AskedInside(AclOperation.READ, AclResourceType.TOPIC, is_asked_in_shortcuts=True),
    # A follower's requests have no shortcut.
    AskedInside(AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER, is_asked_in_shortcuts=True),
    exempt=_is_from_follower,
    parts=AS_A_WHOLE,
    repeats=shortcut_of,
)
def handle(ctx: RequestContext, request: FetchRequest) -> NowOrLater[FetchResponse]:
    """Read; answered at once unless there is less than `min_bytes` and time to wait."""
    if ctx.api_version < FIRST_VERSION_WITH_FORMAT_2:
        return fetch_converted(ctx, request, _fetch)
    return _fetch(ctx, request)


def _fetch(ctx: RequestContext, request: FetchRequest) -> NowOrLater[FetchResponse]:
    replica_id = request.replica_id
    if ctx.api_version >= FIRST_VERSION_WITH_REPLICA_STATE:
        replica_id = request.replica_state.replica_id
    if replica_id >= 0:
        ctx.is_of_follower = True
        claim = BrokerClaim(replica_id, request.replica_state.replica_epoch)
        if not _is_heard(ctx):
            return _refuse_broker(ctx, request)
        if ctx.services.peers.is_known(claim):
            return _fetch_few(ctx, request, replica_id)
        return _answer_unknown(ctx, request, claim)
    sessions = ctx.services.replicas.fetch_sessions
    if partition_count_of(request) > FEW or (
        request.session_id and sessions.size(request.session_id) > FEW
    ):
        return fetch_in_turns(ctx, request, partial(_read_many, ctx, request))
    return _fetch_few(ctx, request, replica_id)


def _is_heard(ctx: RequestContext) -> bool:
    """Whether brokers may fetch over this connection."""
    return ctx.may_be_from_broker()


async def _answer_unknown(
    ctx: RequestContext, request: FetchRequest, claim: BrokerClaim
) -> FetchResponse:
    """Answer a follower that the tree may know."""
    if await ctx.services.peers.broker_refusal(claim) is not ErrorCode.NONE:
        return await _refuse_broker(ctx, request)
    answer = _fetch_few(ctx, request, claim.broker_id)
    return answer if isinstance(answer, FetchResponse) else await answer


async def _refuse_broker(ctx: RequestContext, request: FetchRequest) -> FetchResponse:
    """Answer with TOPIC_AUTHORIZATION_FAILED for each partition, as Kafka does."""
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return await fetch_in_turns(
        ctx, request, lambda _context, asked_for: [refusal_entry(each, code) for each in asked_for]
    )


def _fetch_few(
    ctx: RequestContext, request: FetchRequest, replica_id: int
) -> NowOrLater[FetchResponse]:
    services = ctx.services
    context = FetchContext.of(
        services.replicas.fetch_sessions,
        request,
        ctx.api_version,
        services.metadata.topic_name,
        is_follower=replica_id >= 0,
        connection=ctx.connection,
    )
    params = _params(ctx, request, replica_id)
    if replica_id >= 0 or services.authorizer is ALLOW_ALL:
        answers = _read(ctx, params, context, context.asked_for)
    else:
        answers = _read_authorized(ctx, params, context)
    if isinstance(answers, list):
        return answered(answers, ctx, context)
    return then(answers, answered, ctx, context)


def _read(
    ctx: RequestContext,
    params: FetchParams,
    context: FetchContext,
    asked_for: list[FetchPartition],
) -> NowOrLater[Answers]:
    replicas = ctx.services.replicas
    if ctx.api_version >= FIRST_VERSION_WITH_FORMAT_2 or context.quiet is not None:
        answers = replicas.fetches.fetch(params, asked_for, context)
        # Most wait for records: that takes no task.
        return Coming(answers, answers.result) if isinstance(answers, asyncio.Future) else answers
    return replicas.down_conversion.fetch(params, asked_for, ctx.take, ctx.connection)


def _read_many(
    ctx: RequestContext,
    request: FetchRequest,
    context: FetchContext,
    asked_for: list[FetchPartition],
) -> NowOrLater[Answers]:
    params = _params(ctx, request, CONSUMER_REPLICA_ID)
    if partition_count_of(request) > FEW:
        params.max_wait_ms = min(params.max_wait_ms, LONGEST_WAIT_MS)
    return _read(ctx, params, context, asked_for)


def _read_authorized(
    ctx: RequestContext, params: FetchParams, context: FetchContext
) -> NowOrLater[Answers]:
    """A session keeps what its client may not read now: it may be granted later."""
    asked_for = context.asked_for
    hidden = hidden_topics(ctx, asked_for)
    kept = [asked for asked in asked_for if asked.topic_partition.topic not in hidden]
    answers = _read(ctx, params, context, kept) if kept else []
    return then(answers, still_allowed, ctx, asked_for, hidden)


def _params(ctx: RequestContext, request: FetchRequest, replica_id: int) -> FetchParams:
    params = params_of(ctx.services, ctx.api_version, request, replica_id)
    if isinstance(ctx, LargeContext):
        params.max_wait_ms = min(params.max_wait_ms, LONGEST_WAIT_MS)
    if chooses_replica(ctx.services, request) and replica_id < 0:
        near = NearReplicas(
            ctx.services.metadata, ctx.services.clock, request.rack_id, ctx.connection.listener_name
        )
        params.preferred_replica = near.preferred
    if ctx.services.quotas is not None and replica_id < 0:
        restrict(ctx, params)
    return params
