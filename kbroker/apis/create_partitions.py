"""CreatePartitions (key 37), versions 0 to 3: topics get more partitions.

v2: flexible. v3: same bytes. Only the controller does it; others answer NOT_CONTROLLER.
"""

from __future__ import annotations

from kbroker.apis.context import RequestContext
from kbroker.apis.registry import api
from kbroker.errors import ErrorCode
from kbroker.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
)

CreatePartitionsTopicResult = CreatePartitionsResponse.CreatePartitionsTopicResult


@api(CreatePartitionsRequest, serves="0-3")
async def handle(ctx: RequestContext, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    """Add the partitions and wait until this broker shows their leaders."""
    if not ctx.controller.is_active:
        return CreatePartitionsResponse(
            results=[
                CreatePartitionsTopicResult(name=topic.name, error_code=ErrorCode.NOT_CONTROLLER)
                for topic in request.topics
            ]
        )
    results = await ctx.topics.create_partitions(
        request.topics, request.timeout_ms, request.validate_only
    )
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(
                name=result.name, error_code=result.error, error_message=result.message
            )
            for result in results
        ]
    )
