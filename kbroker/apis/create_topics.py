"""CreateTopics (key 19), versions 0 to 7.

v1: validate_only. v4: -1 asks for the broker's defaults (taken in every version, as Kafka does).
v5: the answer holds the topic's layout and settings. v6: THROTTLING_QUOTA_EXCEEDED is known. v7:
its id. Only the controller creates topics; others pass the request on, and answer NOT_CONTROLLER
when it cannot be reached.
"""

from __future__ import annotations

from collections.abc import Iterable

from kbroker.acl.acl import AclOperation, AclResourceType
from kbroker.admin.new_topics import TopicResult
from kbroker.apis.authorization import ForAnswer, ForEach, topic_in
from kbroker.apis.authorizer import Purpose
from kbroker.apis.context import RequestContext
from kbroker.apis.controller_mutations import ControllerMutations
from kbroker.apis.registry import api
from kbroker.apis.request_parts import Parts
from kbroker.config.config_view import ConfigEntry
from kbroker.errors import ErrorCode
from kbroker.protocol.codec import keep_encoded
from kbroker.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kbroker.turns import turn

Row = CreateTopicsResponse.CreatableTopicConfigs
Rows = dict[int, list[Row]]  # by the identity of the list that they show

_TOPICS_PER_TURN = 64
_FIRST_WITH_THROTTLING_CODE = 6


def _is_shown(
    ctx: RequestContext, request: CreateTopicsRequest, response: CreateTopicsResponse
) -> bool:
    created = [topic for topic in response.topics if topic.error_code == ErrorCode.NONE]
    return request.validate_only or all(
        ctx.services.metadata.is_led(topic.name, max(topic.num_partitions, 1)) for topic in created
    )


def _hide_configs(ctx: RequestContext, response: CreateTopicsResponse) -> None:
    """Take out the layout and the settings of topics whose settings the client may not see."""
    created = [topic for topic in response.topics if topic.error_code == ErrorCode.NONE]
    names = [topic.name for topic in created]
    hidden = ctx.refused(
        AclOperation.DESCRIBE_CONFIGS, AclResourceType.TOPIC, names, Purpose.TO_CHOOSE
    )
    for topic in created:
        if topic.name in hidden:
            unknown = CreateTopicsResponse.CreatableTopicResult()
            topic.num_partitions = unknown.num_partitions
            topic.replication_factor = unknown.replication_factor
            topic.configs = unknown.configs
            topic.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED


@api(
    CreateTopicsRequest,
    ForEach(
        operation=AclOperation.CREATE,
        resource=topic_in("name"),
        asked="topics",
        answered="topics",
        unless=AclOperation.CREATE,
        text=lambda _code: "Authorization failed.",
    ),
    ForAnswer(AclOperation.DESCRIBE_CONFIGS, AclResourceType.TOPIC, _hide_configs),
    forwarded=_is_shown,
    parts=Parts("topics", "topics", key="name"),
)
async def handle(ctx: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
    """Create the topics and wait until this broker shows them."""
    if not ctx.services.controller.is_active:
        return CreateTopicsResponse(
            topics=[
                CreateTopicsResponse.CreatableTopicResult(
                    name=topic.name, error_code=ErrorCode.NOT_CONTROLLER, error_message=None
                )
                for topic in request.topics
            ]
        )
    mutations = ControllerMutations(ctx, _FIRST_WITH_THROTTLING_CODE)
    results = await ctx.services.topics.create_topics(
        request.topics, request.timeout_ms, request.validate_only, ctx.twice, mutations.count
    )
    response = CreateTopicsResponse(throttle_time_ms=mutations.throttle_ms)
    rows: Rows = {}
    for number, result in enumerate(results, start=1):
        response.topics.append(_answer(result, rows, ctx.api_version))
        if number % _TOPICS_PER_TURN == 0:
            await turn()
    return response


def _answer(
    result: TopicResult, rows: Rows, version: int
) -> CreateTopicsResponse.CreatableTopicResult:
    if result.error != ErrorCode.NONE:
        return CreateTopicsResponse.CreatableTopicResult(
            name=result.name,
            topic_id=result.topic_id,
            error_code=result.error,
            error_message=result.message,
        )
    if id(result.configs) not in rows:
        rows[id(result.configs)] = _rows(result.configs, version)
    return CreateTopicsResponse.CreatableTopicResult(
        name=result.name,
        topic_id=result.topic_id,
        error_message=None,
        num_partitions=result.num_partitions,
        replication_factor=result.replication_factor,
        configs=rows[id(result.configs)],
    )


def _rows(configs: Iterable[ConfigEntry], version: int) -> list[Row]:
    """Of all topics with the same settings; written once, too."""
    rows = [
        Row(
            name=entry.name,
            value=entry.value,
            read_only=entry.read_only,
            config_source=entry.source,
            is_sensitive=entry.is_sensitive,
        )
        for entry in configs
    ]
    for row in rows:
        keep_encoded(row, version)
    return rows
