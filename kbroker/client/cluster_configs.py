"""Describes and alters settings of topics, groups, brokers and loggers in a running cluster."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kbroker.client.cluster_links import ClusterLinks
from kbroker.config.config_resources import ConfigSource, ResourceType
from kbroker.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
)
from kbroker.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kbroker.protocol.schema import Message

DEFAULT_ORIGIN = "default"
MIN_ISR = "min.insync.replicas"
_AT_ONCE = 200  # topics: an answer has about 40 settings of each, and is waited for 5 s
_OF_TOPIC, _SET = "topic", "set"  # old brokers say no more than the second
_OWN_ORIGINS = (_OF_TOPIC, _SET)
_ORIGINS: Mapping[int, str] = {
    ConfigSource.DYNAMIC_TOPIC_CONFIG: _OF_TOPIC,
    ConfigSource.DYNAMIC_BROKER_CONFIG: "broker (dynamic)",
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG: "cluster (dynamic)",
    ConfigSource.STATIC_BROKER_CONFIG: "broker (static)",
    ConfigSource.DEFAULT_CONFIG: DEFAULT_ORIGIN,
    ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG: "logger",
    ConfigSource.DYNAMIC_GROUP_CONFIG: "group",
}
AlterableConfig = IncrementalAlterConfigsRequest.AlterableConfig


class Resource(NamedTuple):
    """The owner of settings: a topic or a group by name, a broker or its loggers by id; all brokers
    if the name is empty.
    """

    type: ResourceType
    name: str

    def __str__(self) -> str:
        if self.type is ResourceType.TOPIC:
            return self.name
        if self.type is ResourceType.GROUP:
            return f"group {self.name}"
        return f"broker {self.name}" if self.name else "all brokers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A setting of a resource; `value` is None if there is none, and for a secret. `source`: that
    of the value, as Kafka numbers it (-1: the broker is too old to say). `is_read_only`: nobody can
    change it while the broker runs. `synonyms`: source, name
    and value of all settings that could give it one, the strongest first, if they were asked for.
    """

    name: str
    value: str | None
    origin: str
    is_secret: bool
    source: int = -1
    is_read_only: bool = False
    synonyms: tuple[tuple[int, str, str | None], ...] = ()


def describe_configs(
    links: ClusterLinks,
    resources: Collection[Resource],
    names: Sequence[str] = (),
    *,
    with_synonyms: bool = False,
) -> dict[Resource, list[Setting]]:
    """Return the settings of each resource, sorted by name; `names`: only these.

    Raises OSError, and KafkaError for the first resource that is refused.
    """
    found: dict[Resource, list[Setting]] = {}
    each = describe_each(links, resources, names, with_synonyms=with_synonyms)
    for resource, settings in each.items():
        if isinstance(settings, KafkaError):
            raise settings
        found[resource] = settings
    return found


def minimums_in_sync(links: ClusterLinks, topics: Iterable[str]) -> dict[str, int]:
    """Return `min.insync.replicas` by topic. Raises as `describe_configs`."""
    resources = [Resource(ResourceType.TOPIC, name) for name in topics]
    return {
        resource.name: int(setting.value)
        for resource, settings in describe_configs(links, resources, [MIN_ISR]).items()
        for setting in settings
        if setting.value is not None
    }


def describe_each(
    links: ClusterLinks,
    resources: Collection[Resource],
    names: Sequence[str] = (),
    *,
    with_synonyms: bool = False,
) -> dict[Resource, list[Setting] | KafkaError]:
    """Return the settings of each resource, or the refusal to describe it.

    Raises OSError, and KafkaError if the broker does not know the request.
    """
    topics = [resource for resource in resources if _node_of(resource) is None]
    questions = [topics[at : at + _AT_ONCE] for at in range(0, len(topics), _AT_ONCE)]
    questions += [[resource] for resource in resources if _node_of(resource) is not None]
    found: dict[Resource, list[Setting] | KafkaError] = {}
    for question in questions:
        request = DescribeConfigsRequest(
            resources=[
                DescribeConfigsRequest.DescribeConfigsResource(
                    resource_type=resource.type,
                    resource_name=resource.name,
                    configuration_keys=list(names) or None,
                )
                for resource in question
            ],
            include_synonyms=with_synonyms,
        )
        for result in _ask(links, question[0], request).results:
            resource = Resource(ResourceType(result.resource_type), result.resource_name)
            settings = [_setting(row) for row in result.configs]
            ordered = sorted(settings, key=lambda setting: setting.name)
            found[resource] = _refusal(resource, result) or ordered
    return found


def origin_named(source: int) -> str | None:
    """Return a source of Kafka's in words, None for one that is not known."""
    return _ORIGINS.get(source)


def own_settings(settings: Iterable[Setting]) -> dict[str, str]:
    """Return the values of the settings that a topic has of its own; secrets are left out."""
    return {
        each.name: each.value
        for each in settings
        if each.origin in _OWN_ORIGINS and each.value is not None and not each.is_secret
    }


def alter_configs(
    links: ClusterLinks,
    resource: Resource,
    changes: Sequence[AlterableConfig],
    *,
    only_checks: bool = False,
) -> None:
    """Change single settings of a resource. Raises OSError, and KafkaError if it is refused."""
    request = IncrementalAlterConfigsRequest(
        resources=[
            IncrementalAlterConfigsRequest.AlterConfigsResource(
                resource_type=resource.type, resource_name=resource.name, configs=list(changes)
            )
        ],
        validate_only=only_checks,
    )
    (result,) = _ask(links, resource, request).responses
    refusal = _refusal(resource, result)
    if refusal is not None:
        raise refusal


def _ask(links: ClusterLinks, resource: Resource, request: Message) -> Any:
    node_id = _node_of(resource)
    return links.ask_any(request) if node_id is None else links.ask(node_id, request)


def _node_of(resource: Resource) -> int | None:
    """Return the one broker that knows the settings; None if any does."""
    if resource.type in (ResourceType.TOPIC, ResourceType.GROUP) or not resource.name:
        return None
    return int(resource.name)


def _refusal(resource: Resource, result: Any) -> KafkaError | None:
    code = ErrorCode(result.error_code)
    if code == ErrorCode.NONE:
        return None
    return KafkaError(code, f"{resource}: {result.error_message or code.name}")


def _setting(row: DescribeConfigsResponse.DescribeConfigsResourceResult) -> Setting:
    # A version without sources, or a source that is newer than this, has none.
    origin = origin_named(row.config_source) or (DEFAULT_ORIGIN if row.is_default else _SET)
    return Setting(
        name=row.name,
        value=row.value,
        origin=origin,
        is_secret=row.is_sensitive,
        source=row.config_source,
        is_read_only=row.read_only,
        synonyms=tuple((each.source, each.name, each.value) for each in row.synonyms),
    )
