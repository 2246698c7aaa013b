"""Fetch (key 1), versions 4 to 18: read record batches, as slices of the segment files.

v4: isolation level. v7: sessions (KIP-227). v9: leader epochs (KIP-320). v11: consumers may read
from followers. v12: diverging epochs. v13: topics by id. v16: who leads instead (KIP-951). v18: a
follower's high watermark. Not served: rack aware replica selection (the preferred read replica is
always -1), and tiered storage.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kbroker.apis.context import RequestContext
from kbroker.apis.node_address import leader_addresses, leader_hint
from kbroker.apis.registry import api
from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.fetch_data_info import FetchIsolation
from kbroker.protocol.messages.fetch import FetchRequest, FetchResponse
from kbroker.replication.fetch_params import FetchParams
from kbroker.replication.fetch_session import FetchContext

FIRST_VERSION_FROM_FOLLOWERS = 11
FIRST_VERSION_WITH_REPLICA_STATE = 15
FIRST_VERSION_WITH_LEADER_HINTS = 16
_ISOLATION = {0: FetchIsolation.HIGH_WATERMARK, 1: FetchIsolation.TXN_COMMITTED}


@api(FetchRequest, serves="4-18")
def handle(ctx: RequestContext, request: FetchRequest) -> FetchResponse | Awaitable[FetchResponse]:
    """Read; answered at once unless there is less than `min_bytes` and time to wait."""
    version = ctx.api_version
    replica_id = request.replica_id
    if version >= FIRST_VERSION_WITH_REPLICA_STATE:
        replica_id = request.replica_state.replica_id
    sessions = ctx.replicas.fetch_sessions
    context = sessions.context(
        request, version, ctx.metadata.topic_name, is_follower=replica_id >= 0
    )
    params = _params(ctx, request, replica_id)
    answers = ctx.replicas.fetch(params, context.asked_for)
    if isinstance(answers, list):
        return _answer(ctx, context, answers)
    return _answer_later(ctx, context, answers)


def _params(ctx: RequestContext, request: FetchRequest, replica_id: int) -> FetchParams:
    max_bytes = request.max_bytes
    isolation = _ISOLATION.get(request.isolation_level)
    if isolation is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"No isolation level {request.isolation_level}")
    is_follower = replica_id >= 0
    if is_follower:
        isolation = FetchIsolation.LOG_END
    else:
        max_bytes = min(max_bytes, ctx.replicas.config.fetch_max_bytes)
    return FetchParams(
        isolation=isolation,
        max_bytes=max_bytes,
        min_bytes=min(request.min_bytes, max_bytes),
        max_wait_ms=request.max_wait_ms,
        replica_id=replica_id,
        leader_only=is_follower or ctx.api_version < FIRST_VERSION_FROM_FOLLOWERS,
    )


async def _answer_later(
    ctx: RequestContext,
    context: FetchContext,
    answers: Awaitable[list[FetchResponse.PartitionData]],
) -> FetchResponse:
    return _answer(ctx, context, await answers)


def _answer(
    ctx: RequestContext, context: FetchContext, answers: list[FetchResponse.PartitionData]
) -> FetchResponse:
    response = context.response(answers)
    if ctx.api_version >= FIRST_VERSION_WITH_LEADER_HINTS:
        _add_leader_hints(ctx, context, answers, response)
    return response


def _add_leader_hints(
    ctx: RequestContext,
    context: FetchContext,
    answers: list[FetchResponse.PartitionData],
    response: FetchResponse,
) -> None:
    leaders = set()
    for asked, data in zip(context.asked_for, answers, strict=True):
        if data.error_code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH):
            leader_id, leader_epoch = leader_hint(ctx.metadata, asked.topic_partition)
            data.current_leader.leader_id = leader_id
            data.current_leader.leader_epoch = leader_epoch
            leaders.add(leader_id)
    if leaders:
        response.node_endpoints = [
            FetchResponse.NodeEndpoint(
                node_id=broker.broker_id, host=host, port=port, rack=broker.rack
            )
            for broker, host, port in leader_addresses(ctx.connection, ctx.metadata, leaders)
        ]
