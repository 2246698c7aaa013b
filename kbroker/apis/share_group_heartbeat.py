"""ShareGroupHeartbeat (key 76), version 1: refused with UNSUPPORTED_VERSION.

So does Kafka if share groups (KIP-932) are off, at share.version 0. The key is listed all the same,
for the reason that `consumer_group_heartbeat` has.
"""

from __future__ import annotations

from kbroker.apis.context import RequestContext
from kbroker.apis.registry import api
from kbroker.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from kbroker.unserved import SHARE_GROUPS


@api(ShareGroupHeartbeatRequest)
def handle(
    ctx: RequestContext, _request: ShareGroupHeartbeatRequest
) -> ShareGroupHeartbeatResponse:
    raise ctx.unserved(SHARE_GROUPS)
