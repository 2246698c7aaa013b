"""ConsumerGroupHeartbeat (key 68), versions 0 and 1: a member of a consumer group joins, is alive,
or goes (KIP-848).

Below group.version 1, and where `group.coordinator.rebalance.protocols` leaves the protocol out, it
is refused with UNSUPPORTED_VERSION, as by Kafka. The key is listed all the
same: librdkafka ends at this answer, and if the key is missing it looks for another coordinator
again and again. Whoever asks gets it: it says nothing of a group.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from kbroker.acl.acl import AclOperation, AclResource, AclResourceType
from kbroker.apis.authorization import AskedInside
from kbroker.apis.authorizer import ALLOW_ALL
from kbroker.apis.context import RequestContext
from kbroker.apis.group_protocols import serves_consumer_groups
from kbroker.apis.now_or_later import NowOrLater
from kbroker.apis.registry import api
from kbroker.apis.request_parts import AS_A_WHOLE
from kbroker.apis.visible_topics import visible_topics
from kbroker.coordinator.group.consumer_group_requests import ConsumerGroupRequests
from kbroker.errors import ErrorCode
from kbroker.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kbroker.slices import slices
from kbroker.turns import ENTRIES, turn
from kbroker.unserved import CONSUMER_PROTOCOL


@api(
    ConsumerGroupHeartbeatRequest,
    AskedInside(AclOperation.READ, AclResourceType.GROUP),
    AskedInside(AclOperation.DESCRIBE, AclResourceType.TOPIC),
    parts=AS_A_WHOLE,
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
    if len(topics) > ENTRIES and ctx.services.authorizer is not ALLOW_ALL:
        return _authorized_in_turns(ctx, request, topics)
    if ctx.refused(AclOperation.DESCRIBE, AclResourceType.TOPIC, topics):
        return _refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return _answered(ctx, request)


async def _authorized_in_turns(
    ctx: RequestContext, request: ConsumerGroupHeartbeatRequest, topics: Sequence[str]
) -> ConsumerGroupHeartbeatResponse:
    refused: frozenset[str] = frozenset()
    for some in slices(topics, ENTRIES):  # each is asked about, as its decision may be logged
        refused |= ctx.refused(AclOperation.DESCRIBE, AclResourceType.TOPIC, some)
        await turn()
    if refused:
        return _refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    outcome = _answered(ctx, request)
    return await outcome if isinstance(outcome, Awaitable) else outcome


def _answered(
    ctx: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> NowOrLater[ConsumerGroupHeartbeatResponse]:
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
