"""JoinGroup (11): become a member and wait for the rebalance to end.

v0: one timeout for session and rebalance. v1: rebalance timeout. v4: a member without an id is
given one and joins again (KIP-394). v5: group instance id. v7: protocol type; the protocol name may
be null. v8: reason. v9: skip_assignment for a static leader that returns.
"""

from __future__ import annotations

from kbroker.acl.acl import AclOperation
from kbroker.apis.authorization import ForRequest, its_group
from kbroker.apis.context import RequestContext
from kbroker.apis.now_or_later import NowOrLater, then
from kbroker.apis.registry import api
from kbroker.apis.visible_topics import visible_topics
from kbroker.coordinator.group_coordinator import Caller
from kbroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse


@api(JoinGroupRequest, ForRequest(AclOperation.READ, its_group))
def handle(ctx: RequestContext, request: JoinGroupRequest) -> NowOrLater[JoinGroupResponse]:
    """Join; the answer may have to wait for other members."""
    version = ctx.api_version
    caller = Caller(
        client_id=ctx.client_id or "",
        client_host=f"/{ctx.connection.peer_host}",
        api_version=version,
        visible=visible_topics(ctx),
    )
    return then(ctx.services.groups.join_group(request, caller), _shaped, version)


def _shaped(response: JoinGroupResponse, version: int) -> JoinGroupResponse:
    """Before version 7 the protocol name cannot be null."""
    if version < 7 and response.protocol_name is None:
        response.protocol_name = ""
    return response
