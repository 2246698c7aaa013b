"""ListConfigResources (key 74), versions 0 and 1: what has settings (KIP-1142).

v0: client metrics alone (ListClientMetricsResources up to Kafka 4.0). v1: the types asked for, all
if none is. Client metrics have no settings if ZooKeeper keeps the metadata. Groups are listed if
they have settings of their own, once consumer groups of KIP-848 are served.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from kbroker.acl.acl import AclOperation
from kbroker.apis.authorization import ForRequest, the_cluster
from kbroker.apis.context import RequestContext
from kbroker.apis.large_answers import is_large, written
from kbroker.apis.now_or_later import NowOrLater
from kbroker.apis.registry import api
from kbroker.config.config_resources import ResourceType
from kbroker.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from kbroker.slices import slices
from kbroker.turns import ENTRIES

Listed = ListConfigResourcesResponse.ConfigResource

_BYTES_OF_NAME = 40
_KNOWN_TYPES = frozenset(ResourceType)


@api(ListConfigResourcesRequest, ForRequest(AclOperation.DESCRIBE_CONFIGS, the_cluster))
def handle(
    ctx: RequestContext, request: ListConfigResourcesRequest
) -> NowOrLater[ListConfigResourcesResponse]:
    """List the resources of the types asked for."""
    if ctx.api_version == 0:
        return ListConfigResourcesResponse()
    wanted = set(request.resource_types)
    if not wanted <= _KNOWN_TYPES:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    if not wanted or ResourceType.GROUP in wanted:
        return _with_groups(ctx, wanted)
    return _listed(ctx, wanted, [])


async def _with_groups(ctx: RequestContext, wanted: set[int]) -> ListConfigResourcesResponse:
    answer: ListConfigResourcesResponse | Awaitable[ListConfigResourcesResponse]
    answer = _listed(ctx, wanted, await ctx.services.configs.groups())
    return answer if isinstance(answer, ListConfigResourcesResponse) else await answer


def _listed(
    ctx: RequestContext, wanted: set[int], groups: Sequence[str]
) -> NowOrLater[ListConfigResourcesResponse]:
    metadata = ctx.services.metadata
    brokers = [str(broker.broker_id) for broker in metadata.alive_brokers()]
    names = {
        ResourceType.GROUP: groups,
        ResourceType.BROKER_LOGGER: brokers,
        ResourceType.BROKER: brokers,
        ResourceType.TOPIC: metadata.topics(),
    }
    resources = (
        Listed(resource_name=name, resource_type=kind)
        for kind in names
        if kind in wanted or not wanted
        for name in names[kind]
    )
    size_bytes = _BYTES_OF_NAME * sum(map(len, names.values()))
    response = ListConfigResourcesResponse()
    if is_large(size_bytes):
        return written(ctx, response, "config_resources", slices(resources, ENTRIES), size_bytes)
    response.config_resources = list(resources)
    return response
