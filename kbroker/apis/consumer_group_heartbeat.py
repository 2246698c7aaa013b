"""ConsumerGroupHeartbeat (key 68), versions 0 and 1: a member of a consumer group joins, is alive,
or goes (KIP-848).

Below group.version 1, and where `group.coordinator.rebalance.protocols` leaves the protocol out, it
is refused with UNSUPPORTED_VERSION, as by Kafka. The key is listed all the
same: librdkafka ends at this answer, and if the key is missing it looks for another coordinator
again and again. Whoever asks gets it: it says nothing of a group.
"""

from __future__ import annotations

from kbroker.acl.acl import AclOperation, AclResource, AclResourceType
from kbroker.apis.authorization import AskedInside
from kbroker.apis.context import RequestContext
from kbroker.apis.group_protocols import serves_consumer_groups
from kbroker.apis.now_or_later import NowOrLater
from kbroker.apis.registry import api
from kbroker.apis.visible_topics import visible_topics
from kbroker.coordinator.group.consumer_group_requests import ConsumerGroupRequests
from kbroker.errors import ErrorCode
from kbroker.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kbroker.unserved import CONSUMER_PROTOCOL


@api(
    ConsumerGroupHeartbeatRequest,
    AskedInside(AclOperation.READ, AclResourceType.GROUP),
    AskedInside(AclOperation.DESCRIBE, AclResourceType.TOPIC),
)
def handle(
    ctx: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> NowOrLater[ConsumerGroupHeartbeatResponse]:
    """Answer once what the answer rests on is stored."""
    if not serves_consumer_groups(ctx):
        raise ctx.unserved(CONSUMER_PROTOCOL)
    group = AclResource(AclResourceType.GROUP, request.group_id)
    if not ctx.is_authorized(AclOperation.READ, group):
        return _refused(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    topics = request.subscribed_topic_names or ()
    if ctx.refused(AclOperation.DESCRIBE, AclResourceType.TOPIC, topics):
        return _refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    groups: ConsumerGroupRequests = ctx.services.groups.consumer_groups
    return groups.heartbeat(
        request,
        api_version=ctx.api_version,
        client_id=ctx.client_id or "",
        client_host=f"/{ctx.connection.peer_host}",
        visible=visible_topics(ctx),
    )


def _refused(code: ErrorCode) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=int(code))
