"""Whether groups of the consumer protocol (KIP-848) are served at the moment."""

from __future__ import annotations

from kbroker.apis.context import RequestContext
from kbroker.features import GROUP_VERSION

_CONSUMER = "consumer"


def serves_consumer_groups(ctx: RequestContext) -> bool:
    """Whether the cluster has settled on consumer groups, and this broker is to serve them."""
    services = ctx.services
    if services.metadata.finalized_features.levels.get(GROUP_VERSION, 0) < 1:
        return False
    return (
        _CONSUMER in services.config.group.group_coordinator_rebalance_protocols
        and services.groups.serves_consumer_groups
    )
