"""FindCoordinator (10): which broker coordinates a group, a transactional id, a share partition.

v1: key type, error message. v4: several keys (KIP-699). v6: share groups (KIP-932), whose key type
is an INVALID_REQUEST before. Key types 0 (groups) and 1 (transactional ids) make their topic when
it is not there and wait until it can be used. Key type 2 (share groups) has no coordinator here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import NamedTuple

from kbroker.acl.acl import AclOperation, AclResource, AclResourceType
from kbroker.apis.authorization import ForEach, ForRequest, in_words
from kbroker.apis.context import RequestContext
from kbroker.apis.node_address import node_address
from kbroker.apis.now_or_later import NowOrLater
from kbroker.apis.registry import api
from kbroker.apis.request_parts import Parts
from kbroker.coordinator.runtime.coordinator_finder import CoordinatorType
from kbroker.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

_FIRST_BATCHED_VERSION = 4
_RESOURCE_TYPES = {0: AclResourceType.GROUP, 1: AclResourceType.TRANSACTIONAL_ID}
_FIRST_SHARE_VERSION = 6
_KINDS = {kind.value: kind for kind in CoordinatorType}


class Found(NamedTuple):
    """The coordinator of one key, or why there is none."""

    key: str
    node_id: int = -1
    host: str = ""
    port: int = -1
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Pending:
    """A key whose coordinator has to be waited for."""

    key: str
    broker_id: Awaitable[int]


def _each_key(
    _ctx: RequestContext, request: FindCoordinatorRequest, key: str
) -> AclResource | None:
    resource_type = _RESOURCE_TYPES.get(request.key_type)
    return None if resource_type is None else AclResource(resource_type, key)


def _only_key(ctx: RequestContext, request: FindCoordinatorRequest) -> AclResource | None:
    if ctx.api_version >= _FIRST_BATCHED_VERSION:
        return None
    return _each_key(ctx, request, request.key)


@api(
    FindCoordinatorRequest,
    ForRequest(AclOperation.DESCRIBE, _only_key, text=in_words),
    ForEach(
        operation=AclOperation.DESCRIBE,
        resource=_each_key,
        asked="coordinator_keys",
        answered="coordinators",
        text=lambda _code: "",  # as Kafka has it there, and not null
    ),
    parts=Parts("coordinator_keys", "coordinators"),
)
def handle(
    ctx: RequestContext, request: FindCoordinatorRequest
) -> NowOrLater[FindCoordinatorResponse]:
    """Find the coordinator of each key."""
    keys = request.coordinator_keys if ctx.api_version >= _FIRST_BATCHED_VERSION else [request.key]
    kind = _KINDS.get(request.key_type)
    if kind is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown key type {request.key_type}")
    if kind is CoordinatorType.SHARE and ctx.api_version < _FIRST_SHARE_VERSION:
        refused = [Found(key, error=ErrorCode.INVALID_REQUEST) for key in keys]
        return _response(ctx.api_version, refused)
    looked_up = [_look_up(ctx, kind, key) for key in keys]
    found = [each for each in looked_up if isinstance(each, Found)]
    if len(found) == len(looked_up):
        return _response(ctx.api_version, found)
    return _wait(ctx, looked_up)


def _look_up(ctx: RequestContext, kind: CoordinatorType, key: str) -> Found | _Pending:
    is_transaction = kind is CoordinatorType.TRANSACTION
    coordinators = ctx.services.transactions if is_transaction else ctx.services.groups
    try:
        broker_id = coordinators.find_coordinator(kind, key)
    except KafkaError as error:
        return Found(key, error=error.code, message=error.message)
    return _located(ctx, key, broker_id) if isinstance(broker_id, int) else _Pending(key, broker_id)


async def _wait(ctx: RequestContext, looked_up: list[Found | _Pending]) -> FindCoordinatorResponse:
    """All keys are waited for at once: one after the other, each could take the whole time."""
    found = await asyncio.gather(*(_settled(ctx, each) for each in looked_up))
    return _response(ctx.api_version, found)


async def _settled(ctx: RequestContext, looked_up: Found | _Pending) -> Found:
    if isinstance(looked_up, Found):
        return looked_up
    try:
        return _located(ctx, looked_up.key, await looked_up.broker_id)
    except KafkaError as error:
        return Found(looked_up.key, error=error.code, message=error.message)


def _located(ctx: RequestContext, key: str, broker_id: int) -> Found:
    broker = ctx.services.metadata.broker(broker_id)
    host, port = ("", -1) if broker is None else node_address(ctx.connection, broker)
    if port < 0:
        return Found(key, error=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return Found(key, broker_id, host, port)


def _response(version: int, found: list[Found]) -> FindCoordinatorResponse:
    if version >= _FIRST_BATCHED_VERSION:
        return FindCoordinatorResponse(
            coordinators=[
                FindCoordinatorResponse.Coordinator(
                    key=each.key,
                    node_id=each.node_id,
                    host=each.host,
                    port=each.port,
                    error_code=int(each.error),
                    error_message=each.message or "",
                )
                for each in found
            ]
        )
    only = found[0]
    return FindCoordinatorResponse(
        error_code=int(only.error),
        error_message=only.message or only.error.name,  # Kafka says "NONE" here
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )
