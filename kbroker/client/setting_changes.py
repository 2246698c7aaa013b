"""Changes settings of a running cluster, and says what became of each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from kbroker.admin.config_changes import OP_APPEND, OP_DELETE, OP_SET, OP_SUBTRACT
from kbroker.client.cluster_configs import (
    AlterableConfig,
    Resource,
    alter_configs,
    describe_configs,
)
from kbroker.client.cluster_links import ClusterLinks
from kbroker.config.config_resources import ResourceType
from kbroker.errors import ErrorCode, KafkaError
from kbroker.near_names import did_you_mean

# Kafka's own sentence names the resource as a Java object; ours has named it already.
_JAVA_PREFIX = re.compile(r"Invalid config value for resource ConfigResource\([^)]*\): ")
_NONE: Mapping[str, str] = {}
_CAN_RUN = {  # the setting in another unit, which a running broker takes
    "log.retention.hours": "log.retention.ms",
    "log.retention.minutes": "log.retention.ms",
    "log.roll.hours": "log.roll.ms",
    "log.roll.jitter.hours": "log.roll.jitter.ms",
}


class SettingChanges(NamedTuple):
    """Values to set, names to delete, and values to add to lists and to take from them."""

    sets: Mapping[str, str] = _NONE
    deletes: Sequence[str] = ()
    appends: Mapping[str, str] = _NONE
    subtracts: Mapping[str, str] = _NONE

    def entries(self) -> list[AlterableConfig]:
        """Return the entries of a request."""
        values = ((OP_SET, self.sets), (OP_APPEND, self.appends), (OP_SUBTRACT, self.subtracts))
        return [
            AlterableConfig(name=name, config_operation=operation, value=value)
            for operation, pairs in values
            for name, value in pairs.items()
        ] + [
            AlterableConfig(name=name, config_operation=OP_DELETE, value=None)
            for name in self.deletes
        ]


def changed(
    links: ClusterLinks,
    resources: Iterable[Resource],
    wanted: SettingChanges,
    tell: Callable[[str], None],
    *,
    only_checks: bool = False,
) -> list[str]:
    """Change settings and say so; return a sentence for each resource that was refused.

    Raises OSError if a broker does not answer.
    """
    changes, deletes = wanted.entries(), wanted.deletes
    names = sorted({change.name for change in changes})
    failures = []
    for resource in resources:
        mistake = _mistake(links, resource, names, deletes)
        if mistake is not None:
            failures.append(mistake)
            continue
        try:
            alter_configs(links, resource, changes, only_checks=only_checks)
        except KafkaError as error:
            is_name = error.code in (ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST)
            hint = near_setting(names, _known(links, resource)) if is_name else ""
            said = _read_only(resource, names) or _JAVA_PREFIX.sub("", error.message or "")
            failures.append(f"{said} ({error.code.name}){hint}")
        else:
            said = "can be altered" if only_checks else "altered"
            tell(f"{resource}: {', '.join(names)} {said}")
            if resource.type is ResourceType.BROKER:  # it also takes names that it does not know
                there = _known(links, resource)
                for name in sorted(set(names) - set(deletes) - there):
                    if not _is_of_listener(name):
                        tell(f"warning: unknown setting {name}{did_you_mean(name, there)}")
    return failures


def _mistake(
    links: ClusterLinks, resource: Resource, names: Sequence[str], deletes: Sequence[str]
) -> str | None:
    """Find a mistake that a broker would accept: it stores any name, and deletes missing ones."""
    if resource.type is ResourceType.BROKER_LOGGER:
        return None
    known = _known(links, resource)
    for name in names:
        if name not in known and (owners := _owners(name)):
            default = broker_default(name) if resource.type is ResourceType.BROKER else None
            hint = f": of a broker it is {default}" if default else ""
            return f"{resource}: {name} is a setting of {owners}{hint}"
    strange = sorted(set(deletes) - known)
    if strange:
        there = {each.name for each in describe_configs(links, [resource])[resource]}
        for name in strange:
            if name not in there:
                return f"{resource}: unknown setting {name}{did_you_mean(name, known | there)}"
    return None


def _owners(name: str) -> str:
    """Name those who can have a setting, empty if that are brokers, or nobody."""
    if name in topic_settings():
        return "topics"
    return "groups" if name in group_settings() else ""


def _read_only(resource: Resource, names: Iterable[str]) -> str | None:
    """Return what to do about a setting that no running broker takes; None if there is none."""
    from kbroker.config.kafka_config import config_key

    if resource.type is not ResourceType.BROKER:
        return None
    for name in names:
        key = config_key(name)
        if key is not None and key.dynamic == "read-only":
            instead = _CAN_RUN.get(name)
            way = f", or change {instead} now" if instead else ""
            return f"{name} needs a restart: put it in the broker's settings file{way}"
    return None


def broker_default(name: str) -> str | None:
    """Return the broker setting that is the default of this topic setting."""
    from kbroker.config.topic_config import TopicConfig

    found = next((key.synonyms for key in TopicConfig.keys if key.name == name), ())
    return found[0] if found else None


def topic_settings() -> set[str]:
    """Return the names of all settings that a topic can have."""
    from kbroker.config.topic_config import TopicConfig

    return {key.name for key in TopicConfig.keys}


def broker_settings() -> set[str]:
    """Return the names of all settings that a broker can have."""
    from kbroker.config.kafka_config import DYNAMIC_ONLY, config_keys

    return {*(key.name for key in config_keys()), *DYNAMIC_ONLY}


def group_settings() -> set[str]:
    """Return the names of all settings that a group can have."""
    from kbroker.config.group_settings import GroupSettings

    return {key.name for key in GroupSettings.keys}


def near_setting(names: Iterable[str], known: Iterable[str]) -> str:
    """Return the hint for the first of `names` that is not known."""
    there = set(known)
    unknown = next((name for name in names if name not in there), None)
    return did_you_mean(unknown, there) if unknown is not None else ""


def _is_of_listener(name: str) -> bool:
    from kbroker.config.kafka_config import overriding_key

    return overriding_key(name) is not None


def _known(links: ClusterLinks, resource: Resource) -> set[str]:
    if resource.type is ResourceType.TOPIC:
        return topic_settings()
    if resource.type is ResourceType.BROKER:
        return broker_settings()
    if resource.type is ResourceType.GROUP:
        return group_settings()
    return {each.name for each in describe_configs(links, [resource])[resource]}
