"""IncrementalAlterConfigs (key 44), versions 0 and 1: changes settings (KIP-339).

v1: flexible. Topics, this broker or the cluster's default, and the levels of this broker's loggers
(KIP-412).
"""

from __future__ import annotations

from kbroker.acl.acl import AclOperation
from kbroker.apis.authorization import ForEach, config_resource
from kbroker.apis.context import RequestContext
from kbroker.apis.registry import api
from kbroker.apis.request_parts import Parts
from kbroker.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


@api(
    IncrementalAlterConfigsRequest,
    ForEach(
        operation=AclOperation.ALTER_CONFIGS,
        resource=config_resource,
        asked="resources",
        answered="responses",
    ),
    parts=Parts("resources", "responses", key="resource_type+resource_name"),
)
async def handle(
    ctx: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """Alter every resource by itself."""
    outcomes = await ctx.services.configs.incremental_alter(
        request.resources, request.validate_only, ctx.twice
    )
    return IncrementalAlterConfigsResponse(
        responses=[
            _answer(resource, outcome)
            for resource, outcome in zip(request.resources, outcomes, strict=True)
        ]
    )


def _answer(
    resource: IncrementalAlterConfigsRequest.AlterConfigsResource, outcome: KafkaError | None
) -> IncrementalAlterConfigsResponse.AlterConfigsResourceResponse:
    return IncrementalAlterConfigsResponse.AlterConfigsResourceResponse(
        error_code=outcome.code if outcome else ErrorCode.NONE,
        error_message=outcome.message if outcome else None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
