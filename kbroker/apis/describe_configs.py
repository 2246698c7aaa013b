"""DescribeConfigs (key 32): the settings of topics, brokers and groups, and the levels of loggers.

v0: is_default instead of the source. v1: sources and synonyms. v3: types and documentation. v4:
flexible. As Kafka 3.9 in ZooKeeper mode answers: an unknown kind of resource spoils the whole
request, client metrics are refused, and an empty list of names stands for all names. A group is
such an unknown kind as long as consumer groups of KIP-848 are not served; any group has settings
then, whether it exists or not, as in Kafka 4.

Tools ask for all topics at once. Most have the same settings: rows of such topics are made and
written once for all of them, and the loop is left to others after some resources. An answer takes
a hundred times the bytes of its request.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from functools import partial

from kbroker.acl.acl import AclOperation
from kbroker.admin.broker_loggers import describe_loggers
from kbroker.admin.own_broker import broker_id_in
from kbroker.admin.topic_validation import validate_topic_name
from kbroker.apis.authorization import ForEach, config_resource, in_words
from kbroker.apis.context import RequestContext
from kbroker.apis.large_answers import is_large, written
from kbroker.apis.registry import api
from kbroker.apis.request_parts import Parts
from kbroker.config.config_resources import ConfigSource, ResourceType
from kbroker.config.config_view import (
    ConfigEntry,
    describe_broker,
    describe_cluster_default,
    describe_group,
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
from kbroker.slices import slices
from kbroker.turns import turn
from kbroker.zk.zk_paths import has_node

Resource = DescribeConfigsRequest.DescribeConfigsResource
Result = DescribeConfigsResponse.DescribeConfigsResult
Row = DescribeConfigsResponse.DescribeConfigsResourceResult
View = Callable[[KafkaConfig], Iterable[ConfigEntry]]

_RESOURCES_PER_TURN = 10
_SETTINGS_PER_TURN = 100  # that are new: 2 ms
_KINDS_SHARED = 16  # of rows that are kept for further topics: 50 KB each
_BYTES_OF_NAMED = 100  # a setting that is asked for by its name
_BYTES_OF_BROKER = 20_000
_BYTES_OF_TYPE: Mapping[int, int] = {ResourceType.TOPIC: 2_500, ResourceType.GROUP: 300}
_BYTES_OF_TEXTS = 200  # of a setting
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
        text=in_words,
    ),
    parts=Parts("resources", "results"),
)
async def handle(ctx: RequestContext, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """Answer every resource by itself. Raises KafkaError for an unknown kind of resource."""
    if any(resource.resource_type not in _KNOWN_TYPES for resource in request.resources):
        raise KafkaError(ErrorCode.INVALID_REQUEST, _MALFORMED)
    size_bytes = sum(_bytes_of(request, resource) for resource in request.resources)
    if is_large(size_bytes):
        parts = _told_in_parts(ctx, request)
        return await written(ctx, DescribeConfigsResponse(), "results", parts, size_bytes)
    await turn()
    results = [result async for part in _in_parts(ctx, request) for result in part]
    return DescribeConfigsResponse(results=results)


def _bytes_of(request: DescribeConfigsRequest, resource: Resource) -> int:
    """Return what the answer to one resource takes, about."""
    size_bytes = _BYTES_OF_TYPE.get(resource.resource_type, _BYTES_OF_BROKER)
    if resource.configuration_keys:
        size_bytes = min(size_bytes, _BYTES_OF_NAMED * len(resource.configuration_keys))
    has_texts = request.include_documentation or request.include_synonyms
    return size_bytes + has_texts * (size_bytes // _BYTES_OF_NAMED) * _BYTES_OF_TEXTS


async def _told_in_parts(
    ctx: RequestContext, request: DescribeConfigsRequest
) -> AsyncIterator[list[Result]]:
    async for results in _in_parts(ctx, request):
        ctx.tell_refusals(request, DescribeConfigsResponse(results=results))
        yield results


async def _in_parts(
    ctx: RequestContext, request: DescribeConfigsRequest
) -> AsyncIterator[list[Result]]:
    """Describe some resources after the other."""
    broker_id = ctx.services.config.server.broker_id
    of_cluster = await ctx.services.configs.broker_overrides(None)
    of_broker = await ctx.services.configs.broker_overrides(broker_id)
    try:
        config = ctx.services.config.with_dynamic(of_cluster, of_broker)
    except ConfigError:  # stored by another hand; the broker passes them over too, and says so
        config = ctx.services.configs.in_force
    rows = _Rows(ctx, request, config)
    results: list[Result] = []
    for resource in request.resources:
        rows.are_new = False
        try:
            results.append(_described(resource, await rows.of(resource)))
        except KafkaError as error:
            results.append(_refused(resource, error))
        if rows.are_new or len(results) == _RESOURCES_PER_TURN:
            yield results
            results = []
    yield results


class _Rows:
    """Rows of settings: made and written once for all resources that have the same."""

    def __init__(
        self, ctx: RequestContext, request: DescribeConfigsRequest, config: KafkaConfig
    ) -> None:
        self._ctx = ctx
        self._request = request
        self._config = config
        self._shared: dict[tuple[object, ...], list[Row]] = {}
        self.are_new = False  # the last ones: some milliseconds of work

    async def of(self, resource: Resource) -> list[Row]:
        """The rows of one resource. Raises KafkaError."""
        view, differs_by = await self._view(resource)
        key = (differs_by, tuple(resource.configuration_keys or ()))
        rows = self._shared.get(key)
        self.are_new = rows is None
        if rows is None:
            if len(self._shared) >= _KINDS_SHARED:
                self._shared.clear()
            rows = []
            entries = select(view(self._config), resource.configuration_keys)
            for some in slices(entries, _SETTINGS_PER_TURN):
                if rows:
                    await turn()
                for entry in some:
                    rows.append(_row(self._request, entry))
                    keep_encoded(rows[-1], self._ctx.api_version)
            self._shared[key] = rows
        return rows

    async def _view(self, resource: Resource) -> tuple[View, object]:
        """Find the view of a resource's settings, and the key that tells them from others'."""
        if resource.resource_type == ResourceType.GROUP:
            return await self._view_group(resource.resource_name)
        if resource.resource_type != ResourceType.TOPIC:
            view = _broker_view(resource, self._config.server.broker_id)
            return view, view
        name = resource.resource_name
        validate_topic_name(name)
        if not self._ctx.services.metadata.contains_topic(name):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
        overrides = await self._ctx.services.configs.topic_overrides(name)
        return partial(describe_topic, overrides=overrides), tuple(sorted(overrides.items()))

    async def _view_group(self, group_id: str) -> tuple[View, object]:
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
        own: Mapping[str, str] = {}
        if has_node(group_id):
            own = await self._ctx.services.configs.group_overrides(group_id)
        return partial(describe_group, own=own), (ResourceType.GROUP, *sorted(own.items()))


def _broker_view(resource: Resource, broker_id: int) -> View:
    name = resource.resource_name
    if resource.resource_type == ResourceType.BROKER:
        if not name:
            return describe_cluster_default
        _check_broker_id(name, broker_id, " or empty string,")
        return describe_broker
    if resource.resource_type == ResourceType.BROKER_LOGGER:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
        _check_broker_id(name, broker_id, "")
        return _view_loggers
    message = "Config type client-metrics is only supported on KRaft clusters"
    raise KafkaError(ErrorCode.INVALID_REQUEST, message)


def _view_loggers(_config: KafkaConfig) -> list[ConfigEntry]:
    return describe_loggers()


def _check_broker_id(name: str, broker_id: int, or_else: str) -> None:
    if broker_id_in(name) != broker_id:
        message = f"Unexpected broker id, expected {broker_id}{or_else} but received {name}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)


def _refused(resource: Resource, error: KafkaError) -> Result:
    return Result(
        error_code=error.code,
        error_message=error.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def _described(resource: Resource, rows: list[Row]) -> Result:
    return Result(
        error_message="",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=rows,
    )


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
