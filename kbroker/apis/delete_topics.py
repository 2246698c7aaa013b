"""DeleteTopics (key 20), versions 0 to 6.

v3: TOPIC_DELETION_DISABLED is known (older clients get INVALID_REQUEST). v5: error messages. v6:
topics by id. Only the controller deletes topics; others pass the request on, and answer
NOT_CONTROLLER when it cannot be reached.
"""

from __future__ import annotations

from uuid import UUID

from kbroker.apis.authorization import AskedInside
from kbroker.apis.authorizer import AclOperation, ResourceType
from kbroker.apis.context import RequestContext
from kbroker.apis.registry import api
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import ZERO_UUID
from kbroker.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse

DeletableTopicResult = DeleteTopicsResponse.DeletableTopicResult
_FIRST_WITH_DISABLED_CODE = 3
_FIRST_WITH_IDS = 6


def _is_shown(
    ctx: RequestContext, _request: DeleteTopicsRequest, response: DeleteTopicsResponse
) -> bool:
    return not any(
        result.error_code == ErrorCode.NONE
        and ctx.services.metadata.contains_topic(result.name or "")
        for result in response.responses
    )


@api(
    DeleteTopicsRequest,
    AskedInside(AclOperation.DELETE, ResourceType.TOPIC),
    AskedInside(AclOperation.DESCRIBE, ResourceType.TOPIC),
    forwarded=_is_shown,
)
async def handle(ctx: RequestContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    """Ask for the topics to be deleted and wait until this broker no longer shows them."""
    asked = _asked(ctx, request)
    refusal = _refusal(ctx)
    answers = []
    known: list[tuple[str, DeletableTopicResult]] = []
    for name, topic_id in asked:
        answer = DeletableTopicResult(name=name, topic_id=topic_id)
        answers.append(answer)
        if refusal is not ErrorCode.NONE:
            answer.error_code = refusal
            continue
        if name is None and topic_id == ZERO_UUID:
            answer.error_code = ErrorCode.INVALID_REQUEST
            answer.error_message = "Neither topic name nor id were specified."
            continue
        if name is None:
            answer.name = name = ctx.services.metadata.topic_name(topic_id)
        if name is None:
            answer.error_code = ErrorCode.UNKNOWN_TOPIC_ID
        else:
            known.append((name, answer))
    known = _authorized(ctx, known)
    for name, answer in known:
        if answer.topic_id == ZERO_UUID:
            answer.topic_id = ctx.services.metadata.topic_id(name)
    results = await ctx.services.topics.delete_topics(
        [name for name, _ in known], request.timeout_ms
    )
    for (_, answer), result in zip(known, results, strict=True):
        answer.error_code = result.error
    return DeleteTopicsResponse(responses=answers)


def _authorized(
    ctx: RequestContext, known: list[tuple[str, DeletableTopicResult]]
) -> list[tuple[str, DeletableTopicResult]]:
    """Return the topics that the client may delete. The others are answered, without a name that
    the client may not know.
    """
    names = [name for name, _ in known]
    kept = ctx.refused(AclOperation.DELETE, ResourceType.TOPIC, names)
    hidden = ctx.refused(AclOperation.DESCRIBE, ResourceType.TOPIC, names)
    if not kept and not hidden:
        return known
    authorized = []
    for name, answer in known:
        is_by_id = answer.topic_id != ZERO_UUID
        if name in kept or (is_by_id and name in hidden):
            answer.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            answer.name = None if is_by_id and name in hidden else name
        else:
            authorized.append((name, answer))
    return authorized


def _asked(ctx: RequestContext, request: DeleteTopicsRequest) -> list[tuple[str | None, UUID]]:
    if ctx.api_version < _FIRST_WITH_IDS:
        return [(name, ZERO_UUID) for name in request.topic_names]
    asked = [(topic.name, topic.topic_id) for topic in request.topics]
    if any(name is not None and topic_id != ZERO_UUID for name, topic_id in asked):
        message = "Topic name and topic ID can not both be specified."
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    return asked


def _refusal(ctx: RequestContext) -> ErrorCode:
    if not ctx.services.controller.is_active:
        return ErrorCode.NOT_CONTROLLER
    if ctx.services.config.server.delete_topic_enable:
        return ErrorCode.NONE
    if ctx.api_version < _FIRST_WITH_DISABLED_CODE:
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.TOPIC_DELETION_DISABLED
