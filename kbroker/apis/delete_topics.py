"""DeleteTopics (key 20), versions 0 to 6.

v3: TOPIC_DELETION_DISABLED is known (older clients get INVALID_REQUEST). v5: error messages, and
THROTTLING_QUOTA_EXCEEDED is known. v6: topics by id; one that is named in both ways stays. Only the
controller deletes topics; others pass the request on, and answer NOT_CONTROLLER when it cannot be
reached.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias
from uuid import UUID

from kbroker.acl.acl import AclOperation, AclResource
from kbroker.admin.new_topics import TopicResult
from kbroker.apis.authorization import ForEach, named_topic, topic_or_id
from kbroker.apis.context import RequestContext
from kbroker.apis.controller_mutations import ControllerMutations
from kbroker.apis.registry import api
from kbroker.apis.request_parts import AS_A_WHOLE
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import ZERO_UUID
from kbroker.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kbroker.turns import in_turns

DeletableTopicResult = DeleteTopicsResponse.DeletableTopicResult
_Known: TypeAlias = list[tuple[str, DeletableTopicResult]]  # topics, and their answers
_FIRST_WITH_DISABLED_CODE = 3
_FIRST_WITH_IDS = 6
_FIRST_WITH_THROTTLING_CODE = 5


def _is_shown(
    ctx: RequestContext, _request: DeleteTopicsRequest, response: DeleteTopicsResponse
) -> bool:
    return not any(
        result.error_code == ErrorCode.NONE
        and ctx.services.metadata.contains_topic(result.name or "")
        for result in response.responses
    )


def _by_id(
    ctx: RequestContext, request: DeleteTopicsRequest, entry: DeleteTopicsRequest.DeleteTopicState
) -> AclResource | ErrorCode | None:
    """Return a topic whose name the client may not have known."""
    return None if entry.name else topic_or_id(ctx, request, entry)


def _hide_name(_ctx: RequestContext, answer: DeletableTopicResult) -> None:
    answer.name = None


def _add_name(ctx: RequestContext, answer: DeletableTopicResult) -> None:
    """Name a topic that the client may see, but not delete."""
    if not answer.name:
        answer.name = ctx.services.metadata.topic_name(answer.topic_id)


@api(
    DeleteTopicsRequest,
    ForEach(
        operation=AclOperation.DESCRIBE,
        resource=_by_id,
        asked="topics",
        answered="responses",
        complete=_hide_name,
    ),
    ForEach(
        operation=AclOperation.DELETE,
        resource=topic_or_id,
        asked="topics",
        answered="responses",
        complete=_add_name,
    ),
    ForEach(
        operation=AclOperation.DELETE,
        resource=named_topic,
        asked="topic_names",
        answered="responses",
    ),
    forwarded=_is_shown,
    parts=AS_A_WHOLE,
)
async def handle(ctx: RequestContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    """Ask for the topics to be deleted and wait until this broker no longer shows them."""
    response = DeleteTopicsResponse()
    known: _Known = []
    await in_turns(_check(request))
    await in_turns(_sort(ctx, _asked(ctx, request), response, known))
    await in_turns(_refuse_mixed(known, response))
    await in_turns(_add_ids(ctx, known))
    mutations = ControllerMutations(ctx, _FIRST_WITH_THROTTLING_CODE)
    await in_turns(_count(ctx, mutations, known))
    results = await ctx.services.topics.delete_topics(
        [name for name, _ in known], request.timeout_ms
    )
    await in_turns(_add_codes(known, results))
    response.throttle_time_ms = mutations.throttle_ms
    return response


def _sort(
    ctx: RequestContext,
    asked: Iterable[tuple[str | None, UUID]],
    response: DeleteTopicsResponse,
    known: _Known,
) -> Iterator[None]:
    """Answer one topic after the other, with a refusal or as one that is `known`."""
    refusal = _refusal(ctx)
    for name, topic_id in asked:
        answer = DeletableTopicResult(name=name, topic_id=topic_id)
        response.responses.append(answer)
        yield
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


def _refuse_mixed(known: _Known, response: DeleteTopicsResponse) -> Iterator[None]:
    """Refuse the topics that are named both by name and by id, each in one answer; they are no
    longer `known`. Yields after each topic.
    """
    by_name: set[str] = set()
    by_id: dict[str, DeletableTopicResult] = {}
    for name, answer in known:
        if answer.topic_id == ZERO_UUID:
            by_name.add(name)
        else:
            by_id.setdefault(name, answer)
        yield
    mixed = {name: answer for name, answer in by_id.items() if name in by_name}
    if not mixed:
        return
    for answer in mixed.values():
        answer.error_code = ErrorCode.INVALID_REQUEST
        answer.error_message = "The topic is named both by name and by id."
    known[:] = [each for each in known if each[0] not in mixed]
    response.responses = [
        each for each in response.responses if mixed.get(each.name or "", each) is each
    ]


def _add_ids(ctx: RequestContext, known: _Known) -> Iterator[None]:
    for name, answer in known:
        if answer.topic_id == ZERO_UUID:
            answer.topic_id = ctx.services.metadata.topic_id(name)
        yield


def _count(ctx: RequestContext, mutations: ControllerMutations, known: _Known) -> Iterator[None]:
    """Count the partitions of the topics that are there; those that have to wait are no longer
    `known`. Yields after each topic.
    """
    open_to_delete = []
    for name, answer in known:
        try:
            if ctx.services.metadata.contains_topic(name):
                mutations.count(ctx.services.metadata.partition_count(name))
            open_to_delete.append((name, answer))
        except KafkaError as error:
            answer.error_code = error.code
        yield
    known[:] = open_to_delete


def _add_codes(known: _Known, results: list[TopicResult]) -> Iterator[None]:
    for (_, answer), result in zip(known, results, strict=True):
        answer.error_code = result.error
        yield


def _check(request: DeleteTopicsRequest) -> Iterator[None]:
    """Raises KafkaError INVALID_REQUEST for a topic with a name and an id."""
    for topic in request.topics:
        if topic.name is not None and topic.topic_id != ZERO_UUID:
            message = "Topic name and topic ID can not both be specified."
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)
        yield


def _asked(ctx: RequestContext, request: DeleteTopicsRequest) -> Iterator[tuple[str | None, UUID]]:
    if ctx.api_version < _FIRST_WITH_IDS:
        return ((name, ZERO_UUID) for name in request.topic_names)
    return ((topic.name, topic.topic_id) for topic in request.topics)


def _refusal(ctx: RequestContext) -> ErrorCode:
    if not ctx.services.controller.is_active:
        return ErrorCode.NOT_CONTROLLER
    if ctx.services.config.server.delete_topic_enable:
        return ErrorCode.NONE
    if ctx.api_version < _FIRST_WITH_DISABLED_CODE:
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.TOPIC_DELETION_DISABLED
