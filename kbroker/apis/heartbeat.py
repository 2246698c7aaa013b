"""Heartbeat (12): a member is alive and learns whether its group rebalances.

v1: throttle time. v3: group instance id. While the group is being loaded it is simply confirmed. It
waits in consumer groups (KIP-848) alone, for what it rests on to be stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

from kbroker.acl.acl import AclOperation
from kbroker.apis.authorization import ForRequest, its_group
from kbroker.apis.context import RequestContext, Services
from kbroker.apis.now_or_later import NowOrLater, then
from kbroker.apis.registry import api
from kbroker.apis.served_api import Served
from kbroker.apis.shortcut import HandlerToCall
from kbroker.errors import NO_ERROR, ErrorCode
from kbroker.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kbroker.protocol.request import ConnectionInfo
from kbroker.protocol.schema import copied
from kbroker.protocol.template import Form


class HeartbeatShortcut:
    """Answers the heartbeats of one member in one generation."""

    is_for_all: ClassVar[bool] = False

    __slots__ = ("_form", "_heartbeat", "_request")

    def __init__(
        self,
        services: Services,
        served: Served,
        request: HeartbeatRequest,
        _connection: ConnectionInfo,
    ) -> None:
        self._heartbeat = services.groups.heartbeat
        self._request = copied(request)
        self._form = Form(HeartbeatResponse(), served.version, served.header.pack(0))

    def answer(self, values: Sequence[Any]) -> bytes | HandlerToCall:
        """The answer to the next one, as `Shortcut` says."""
        code = self._heartbeat(self._request)
        return self._form.frame(values) if code is NO_ERROR else partial(_answered, code)


@api(HeartbeatRequest, ForRequest(AclOperation.READ, its_group), repeats=HeartbeatShortcut)
def handle(ctx: RequestContext, request: HeartbeatRequest) -> NowOrLater[HeartbeatResponse]:
    """Prolong the member's session."""
    return _answered(ctx.services.groups.heartbeat(request), ctx, request)


def _answered(
    code: NowOrLater[ErrorCode], ctx: RequestContext, request: HeartbeatRequest
) -> NowOrLater[HeartbeatResponse]:
    return then(code, _response, ctx, request)


def _response(code: ErrorCode, ctx: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
    response = HeartbeatResponse(error_code=int(code))
    if code:
        ctx.tell_refusals(request, response)
    return response
