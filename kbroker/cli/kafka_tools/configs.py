"""kafka-configs: shows and changes settings of topics and brokers while they run, quotas of clients
and credentials of users.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from kbroker.admin.config_changes import OP_DELETE, OP_SET
from kbroker.cli.arguments.connection import cluster_links
from kbroker.cli.kafka_tools import configs_of_clients
from kbroker.cli.kafka_tools.tool_options import BOOTSTRAP, Given, Option, Tool, ToolError, pairs
from kbroker.cli.shown.output import print_text
from kbroker.client.cluster_configs import (
    AlterableConfig,
    Resource,
    Setting,
    alter_configs,
    describe_configs,
)
from kbroker.client.cluster_links import ClusterLinks
from kbroker.config.config_resources import ConfigSource, ResourceType
from kbroker.errors import KafkaError

_COMMA = re.compile(r",(?![^\[\]]*\])")  # one that is not in brackets


class _Kind(NamedTuple):
    """A kind of entity: its word in sentences, and the source of its own settings."""

    word: str
    type: ResourceType
    source: ConfigSource


_BROKER = _Kind("broker", ResourceType.BROKER, ConfigSource.DYNAMIC_BROKER_CONFIG)
_KINDS = {
    "topics": _Kind("topic", ResourceType.TOPIC, ConfigSource.DYNAMIC_TOPIC_CONFIG),
    "brokers": _BROKER,
    "broker-loggers": _Kind(
        "broker-logger", ResourceType.BROKER_LOGGER, ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG
    ),
}
_SHORT = {"topic": "topics", "broker": "brokers", "broker-logger": "broker-loggers"}
_DEFAULTS = "broker-defaults"


class _Entity(NamedTuple):
    """The owner of settings. `name` None: all of the kind; empty: the defaults of brokers."""

    kind: _Kind
    name: str | None


def entity_of(given: Given) -> _Entity:
    """Return whose settings are meant. ToolError if several options say it."""
    for others in (("entity-type",), ("entity-name", "entity-default")):
        given.at_most_one(*_SHORT, _DEFAULTS, *others)
    for option, kind in _SHORT.items():
        if given.has(option):
            return _Entity(_KINDS[kind], given.one(option))
    if given.has(_DEFAULTS):
        return _Entity(_BROKER, "")
    kind = given.needed("entity-type")
    if kind not in _KINDS:
        served = ", ".join((*_KINDS, "users", "clients", "ips"))
        other = "; `kbroker config alter --group NAME` does it" if kind == "groups" else ""
        raise ToolError(f"--entity-type {kind} is not served here (there are {served}){other}")
    if given.has("entity-default"):
        if kind != "brokers":
            raise ToolError(f"--entity-default is for brokers, not for {kind}")
        return _Entity(_BROKER, "")
    return _Entity(_KINDS[kind], given.one("entity-name"))


def _run(given: Given) -> int:
    action = given.action("describe", "alter")
    if configs_of_clients.are_meant(given):
        return _run_for_clients(given, action)
    entity = entity_of(given)
    with cluster_links(given.bootstrap()) as links:
        if action == "describe":
            for line in _described(links, entity, shows_all=given.has("all")):
                print_text(line)
            return 0
        changes = changes_of(given)
        if entity.name is None:
            raise ToolError("--alter needs --entity-name, or --entity-default")
        resource = Resource(entity.kind.type, entity.name)
        try:
            alter_configs(links, resource, changes)
        except KafkaError as error:
            raise ToolError(
                f"Error while executing config command: {error.message or error.code.name}"
            ) from error
    if entity.name:
        print_text(f"Completed updating config for {entity.kind.word} {entity.name}.")
    else:
        print_text(f"Completed updating default config for {entity.kind.word}s in the cluster.")
    return 0


def _run_for_clients(given: Given, action: str) -> int:
    wanted = configs_of_clients.whose(given)
    with cluster_links(given.bootstrap()) as links:
        if action == "describe":
            for line in configs_of_clients.described(links, wanted):
                print_text(line)
            return 0
        configs_of_clients.alter(links, wanted, changes_of(given))
    print_text(configs_of_clients.done(wanted))
    return 0


def changes_of(given: Given) -> list[AlterableConfig]:
    """Return the changes that are asked for. ToolError if there are none."""
    added = [text for texts in given.all("add-config") for text in _COMMA.split(texts)]
    settings = pairs("add-config", (text.strip() for text in added))
    changes = [
        AlterableConfig(name=name.strip(), config_operation=OP_SET, value=_bare(value.strip()))
        for name, value in settings.items()
    ]
    changes += [
        AlterableConfig(name=name.strip(), config_operation=OP_DELETE, value=None)
        for name in ",".join(given.all("delete-config")).split(",")
        if name.strip()
    ]
    if not changes:
        raise ToolError("At least one of --add-config or --delete-config must be specified")
    return changes


def _bare(value: str) -> str:
    return value[1:-1] if value.startswith("[") and value.endswith("]") else value


def _source(entity: _Entity) -> ConfigSource:
    return ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG if entity.name == "" else entity.kind.source


def _described(links: ClusterLinks, entity: _Entity, *, shows_all: bool) -> Iterator[str]:
    for each in _entities(links, entity):
        resource = Resource(each.kind.type, str(each.name))
        settings = describe_configs(links, [resource], with_synonyms=True)[resource]
        if each.name:
            lead = "All" if shows_all else "Dynamic"
            yield f"{lead} configs for {each.kind.word} {each.name} are:"
        else:
            yield f"Default configs for {each.kind.word}s in the cluster are:"
        for setting in settings:
            if shows_all or setting.source == _source(each):
                yield _line(setting)


def _entities(links: ClusterLinks, entity: _Entity) -> list[_Entity]:
    if entity.name is not None:
        return [entity]
    described = links.describe(None)
    if entity.kind.type is ResourceType.TOPIC:
        return [
            _Entity(entity.kind, name)
            for name in sorted(str(topic.name) for topic in described.topics)
        ]
    brokers = sorted(broker.node_id for broker in described.brokers)
    found = [_Entity(entity.kind, str(broker)) for broker in brokers]
    return [*found, _Entity(entity.kind, "")] if entity.kind is _BROKER else found


def _line(setting: Setting) -> str:
    synonyms = ", ".join(
        f"{ConfigSource(source).name}:{name}={_text(value)}"
        for source, name, value in setting.synonyms
    )
    secret = str(setting.is_secret).lower()
    return f"  {setting.name}={_text(setting.value)} sensitive={secret} synonyms={{{synonyms}}}"


def _text(value: str | None) -> str:
    return "null" if value is None else value


TOOL = Tool(
    summary="shows and changes settings of topics and brokers, quotas, SCRAM users.",
    options={
        **BOOTSTRAP,
        "describe": Option("Print settings that were changed."),
        "alter": Option("Change settings."),
        "all": Option("Print all settings, not just those that were changed."),
        "entity-type": Option(
            "topics, brokers, broker-loggers, users, clients or ips; users and clients together "
            "are clients of a user.",
            "TYPE",
        ),
        "entity-name": Option("Name of the entity, or id of the broker.", "NAME"),
        "entity-default": Option("All brokers, or the default of users, clients or ips."),
        "topic": Option("The topic of this name.", "NAME"),
        "broker": Option("The broker of this id.", "ID"),
        "broker-logger": Option("The loggers of the broker of this id.", "ID"),
        _DEFAULTS: Option("The settings of all brokers."),
        "user": Option("The user of this name.", "NAME"),
        "user-defaults": Option("The default of users."),
        "client": Option("The client id of this name.", "NAME"),
        "client-defaults": Option("The default of client ids."),
        "ip": Option("This address.", "ADDRESS"),
        "ip-defaults": Option("The default of addresses."),
        "add-config": Option("Settings to set, with commas; [a,b] is a list.", "K=V,..."),
        "delete-config": Option("Settings to set back, with commas.", "K,..."),
    },
    run=_run,
)
