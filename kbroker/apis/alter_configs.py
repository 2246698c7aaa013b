"""AlterConfigs (key 33), versions 0 to 2: replaces all settings of a resource (KIP-133).

Older clients and tools use it, kafka-configs of 3.9 for brokers too. v2: flexible. A resource named
twice is refused; Apache Kafka never answers that.
"""

from __future__ import annotations

from kbroker.acl.acl import AclOperation
from kbroker.admin.config_admin import AlterConfigsResource
from kbroker.admin.config_changes import MOST_SETTINGS, AlterableConfig
from kbroker.apis.authorization import ForEach, config_resource
from kbroker.apis.context import RequestContext
from kbroker.apis.registry import api
from kbroker.apis.request_parts import Parts
from kbroker.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse


@api(
    AlterConfigsRequest,
    ForEach(
        operation=AclOperation.ALTER_CONFIGS,
        resource=config_resource,
        asked="resources",
        answered="responses",
    ),
    parts=Parts("resources", "responses", key="resource_type+resource_name"),
)
async def handle(ctx: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
    """Alter every resource by itself."""
    resources = [_as_changes(resource) for resource in request.resources]
    outcomes = await ctx.services.configs.replace(resources, request.validate_only, ctx.twice)
    return AlterConfigsResponse(
        responses=[
            _answer(resource, outcome)
            for resource, outcome in zip(request.resources, outcomes, strict=True)
        ]
    )


def _as_changes(resource: AlterConfigsRequest.AlterConfigsResource) -> AlterConfigsResource:
    configs = resource.configs[: MOST_SETTINGS + 1]  # one too many is refused like all of them
    return AlterConfigsResource(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[AlterableConfig(name=c.name, value=c.value) for c in configs],
    )


def _answer(
    resource: AlterConfigsRequest.AlterConfigsResource, outcome: KafkaError | None
) -> AlterConfigsResponse.AlterConfigsResourceResponse:
    return AlterConfigsResponse.AlterConfigsResourceResponse(
        error_code=outcome.code if outcome else ErrorCode.NONE,
        error_message=outcome.message if outcome else None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
