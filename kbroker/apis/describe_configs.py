"""DescribeConfigs (key 32): the settings of topics and brokers, and the levels of loggers.

v0: is_default instead of the source. v1: sources and synonyms. v3: types and documentation. v4:
flexible. As Kafka 3.9 in ZooKeeper mode answers: an unknown kind of resource spoils the whole
request, client metrics are refused, and an empty list of names stands for all names.

Tools ask for all topics at once. Most have the same settings: rows of such topics are made and
written once for all of them, and the loop is left to others after some resources.
"""

from __future__ import annotations

from collections.abc import Iterable

from kbroker.admin.broker_loggers import describe_loggers
from kbroker.admin.own_broker import broker_id_in
from kbroker.admin.topic_validation import validate_topic_name
from kbroker.apis.authorization import ForEach, config_resource
from kbroker.apis.authorizer import AclOperation
from kbroker.apis.context import RequestContext
from kbroker.apis.registry import api
from kbroker.apis.request_parts import Parts
from kbroker.config.config_resources import ConfigSource, ResourceType
from kbroker.config.config_view import (
    ConfigEntry,
    describe_broker,
    describe_cluster_default,
    describe_topic,
    select,
)
from kbroker.config.kafka_config import KafkaConfig
from kbroker.errors import ConfigError, ErrorCode, KafkaError
from kbroker.protocol.codec import keep_encoded
from kbroker.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
)
from kbroker.turns import turn

Row = DescribeConfigsResponse.DescribeConfigsResourceResult
Rows = dict[tuple[object, ...], list[Row]]  # by what the rows of a topic depend on

_RESOURCES_PER_TURN = 10
_KNOWN_TYPES = frozenset(ResourceType)
_MALFORMED = (
    "This most likely occurs because of a request being malformed by the client library "
    "or the message was sent "
    "to an incompatible broker. See the broker logs for more details."
)


@api(
    DescribeConfigsRequest,
    ForEach(
        operation=AclOperation.DESCRIBE_CONFIGS,
        resource=config_resource,
        asked="resources",
        answered="results",
    ),
    parts=Parts("resources", "results"),
)
async def handle(ctx: RequestContext, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """Answer every resource by itself."""
    if any(resource.resource_type not in _KNOWN_TYPES for resource in request.resources):
        refusal = KafkaError(ErrorCode.INVALID_REQUEST, _MALFORMED)
        return DescribeConfigsResponse(
            results=[_refused(resource, refusal) for resource in request.resources]
        )
    broker_id = ctx.services.config.server.broker_id
    of_cluster = await ctx.services.configs.broker_overrides(None)
    of_broker = await ctx.services.configs.broker_overrides(broker_id)
    try:
        config = ctx.services.config.with_dynamic(of_cluster, of_broker)
    except ConfigError:  # stored by another hand; the broker passes them over too, and says so
        config = ctx.services.configs.in_force
    results = []
    shared: Rows = {}
    for number, resource in enumerate(request.resources, start=1):
        try:
            if resource.resource_type == ResourceType.TOPIC:
                rows = await _topic_rows(ctx, config, request, resource, shared)
            else:
                rows = _rows(request, resource, _broker_entries(config, resource))
        except KafkaError as error:
            results.append(_refused(resource, error))
        else:
            result = _described(resource, rows)
            keep_encoded(result, ctx.api_version)  # so that little is left for the whole answer
            results.append(result)
        if number % _RESOURCES_PER_TURN == 0:
            await turn()
    return DescribeConfigsResponse(results=results)


async def _topic_rows(
    ctx: RequestContext,
    config: KafkaConfig,
    request: DescribeConfigsRequest,
    resource: DescribeConfigsRequest.DescribeConfigsResource,
    shared: Rows,
) -> list[Row]:
    name = resource.resource_name
    validate_topic_name(name)
    if not ctx.services.metadata.contains_topic(name):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
    overrides = await ctx.services.configs.topic_overrides(name)
    key = (tuple(sorted(overrides.items())), tuple(resource.configuration_keys or ()))
    rows = shared.get(key)
    if rows is None:
        rows = shared[key] = _rows(request, resource, describe_topic(config, overrides))
        for row in rows:
            keep_encoded(row, ctx.api_version)
    return rows


def _broker_entries(
    config: KafkaConfig, resource: DescribeConfigsRequest.DescribeConfigsResource
) -> list[ConfigEntry]:
    name = resource.resource_name
    if resource.resource_type == ResourceType.BROKER:
        if not name:
            return describe_cluster_default(config)
        _check_broker_id(name, config.server.broker_id, " or empty string,")
        return describe_broker(config)
    if resource.resource_type == ResourceType.BROKER_LOGGER:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
        _check_broker_id(name, config.server.broker_id, "")
        return describe_loggers()
    message = "Config type client-metrics is only supported on KRaft clusters"
    raise KafkaError(ErrorCode.INVALID_REQUEST, message)


def _check_broker_id(name: str, broker_id: int, or_else: str) -> None:
    if broker_id_in(name) != broker_id:
        message = f"Unexpected broker id, expected {broker_id}{or_else} but received {name}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)


def _refused(
    resource: DescribeConfigsRequest.DescribeConfigsResource, error: KafkaError
) -> DescribeConfigsResponse.DescribeConfigsResult:
    return DescribeConfigsResponse.DescribeConfigsResult(
        error_code=error.code,
        error_message=error.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def _described(
    resource: DescribeConfigsRequest.DescribeConfigsResource, rows: list[Row]
) -> DescribeConfigsResponse.DescribeConfigsResult:
    return DescribeConfigsResponse.DescribeConfigsResult(
        error_message="",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=rows,
    )


def _rows(
    request: DescribeConfigsRequest,
    resource: DescribeConfigsRequest.DescribeConfigsResource,
    entries: Iterable[ConfigEntry],
) -> list[Row]:
    return [_row(request, entry) for entry in select(entries, resource.configuration_keys)]


def _row(request: DescribeConfigsRequest, entry: ConfigEntry) -> Row:
    synonyms = entry.synonyms if request.include_synonyms else ()
    return Row(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        is_default=entry.source is ConfigSource.DEFAULT_CONFIG,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=[
            DescribeConfigsResponse.DescribeConfigsSynonym(name=name, value=value, source=source)
            for name, value, source in synonyms
        ],
        config_type=entry.type,
        documentation=entry.documentation if request.include_documentation else None,
    )
