"""CreatePartitions (key 37), versions 0 to 3: topics get more partitions.

v2: flexible. v3: same bytes, and THROTTLING_QUOTA_EXCEEDED is known. Only the controller does it;
others pass the request on, and answer NOT_CONTROLLER when it cannot be reached.
"""

from __future__ import annotations

from collections.abc import Iterator

from kbroker.acl.acl import AclOperation
from kbroker.admin.new_topics import TopicResult
from kbroker.apis.authorization import ForEach, topic_in
from kbroker.apis.context import RequestContext
from kbroker.apis.controller_mutations import ControllerMutations
from kbroker.apis.registry import api
from kbroker.apis.request_parts import Again, Parts
from kbroker.errors import ErrorCode
from kbroker.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
)
from kbroker.turns import in_turns

CreatePartitionsTopicResult = CreatePartitionsResponse.CreatePartitionsTopicResult
_FIRST_WITH_THROTTLING_CODE = 3


def _is_shown(
    ctx: RequestContext, request: CreatePartitionsRequest, response: CreatePartitionsResponse
) -> bool:
    grown = {result.name for result in response.results if result.error_code == ErrorCode.NONE}
    return request.validate_only or all(
        ctx.services.metadata.is_led(topic.name, topic.count)
        for topic in request.topics
        if topic.name in grown
    )


@api(
    CreatePartitionsRequest,
    ForEach(
        operation=AclOperation.ALTER,
        resource=topic_in("name"),
        asked="topics",
        answered="results",
        text=lambda _code: "The topic authorization is failed.",
    ),
    forwarded=_is_shown,
    parts=Parts("topics", "results", key="name", again=Again.LEFT_OUT),
)
async def handle(ctx: RequestContext, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    """Add the partitions and wait until this broker shows their leaders."""
    response = CreatePartitionsResponse()
    if not ctx.services.controller.is_active:
        await in_turns(_refuse(request, response))
        return response
    mutations = ControllerMutations(ctx, _FIRST_WITH_THROTTLING_CODE)
    results = await ctx.services.topics.create_partitions(
        request.topics, request.timeout_ms, request.validate_only, ctx.twice, mutations.count
    )
    response.throttle_time_ms = mutations.throttle_ms
    await in_turns(_answer(results, response))
    return response


def _refuse(request: CreatePartitionsRequest, response: CreatePartitionsResponse) -> Iterator[None]:
    for topic in request.topics:
        response.results.append(
            CreatePartitionsTopicResult(name=topic.name, error_code=ErrorCode.NOT_CONTROLLER)
        )
        yield


def _answer(results: list[TopicResult], response: CreatePartitionsResponse) -> Iterator[None]:
    for result in results:
        response.results.append(
            CreatePartitionsTopicResult(
                name=result.name, error_code=result.error, error_message=result.message
            )
        )
        yield
