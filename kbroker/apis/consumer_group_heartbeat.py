"""ConsumerGroupHeartbeat (key 68), versions 0 and 1: refused with UNSUPPORTED_VERSION.

So does Kafka if the group protocol of KIP-848 is off: with ZooKeeper, or at group.version 0. The
key is listed all the same, as by Kafka: librdkafka ends at this answer, and if the key is missing
it looks for another coordinator again and again. Whoever asks gets it, as in Kafka: it says nothing
of a group.
"""

from __future__ import annotations

from kbroker.apis.context import RequestContext
from kbroker.apis.registry import api
from kbroker.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kbroker.unserved import CONSUMER_PROTOCOL


@api(ConsumerGroupHeartbeatRequest)
def handle(
    ctx: RequestContext, _request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse:
    raise ctx.unserved(CONSUMER_PROTOCOL)
