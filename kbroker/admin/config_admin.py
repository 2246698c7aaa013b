"""ConfigAdmin: reads and alters dynamic settings under /config (KIP-339, KIP-226).

Law: a change is checked whole before it is written; the entity's node is written first, then a
notification that makes every broker read it again (`dynamic_config_manager`): the other way round a
broker could read the old node. Refusals of one resource are KafkaErrors with the sentences of Kafka
3.9, of groups with those of 4.3.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from functools import partial

from kbroker.admin.broker_loggers import alter_loggers, validate_logger_changes
from kbroker.admin.config_changes import OP_DELETE, OPERATIONS, apply_operations, check_count
from kbroker.admin.group_setting_changes import changed_group
from kbroker.admin.own_broker import broker_id_in
from kbroker.admin.stored_passwords import StoredPasswords
from kbroker.admin.tree_unavailable import patiently
from kbroker.config.config_def import ConfigKey
from kbroker.config.config_resources import ResourceType
from kbroker.config.dynamic_checks import is_fixed, validate_dynamic
from kbroker.config.kafka_config import KafkaConfig, config_key, dynamic_only_key
from kbroker.config.topic_config import topic_config_key, validate_overrides
from kbroker.errors import ConfigError, ErrorCode, KafkaError
from kbroker.peers.metadata_waiter import MetadataView
from kbroker.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kbroker.slices import slices
from kbroker.turns import ENTRIES, turn
from kbroker.zk import zk_paths
from kbroker.zk.nodes.entity_configs import (
    Change,
    Names,
    Overrides,
    ZkEntityConfigs,
    entity_name,
)
from kbroker.zk.tree import MAX_NODE_BYTES, NodeTooLargeError, NoNodeError
from kbroker.zk.zk_utils import ZkUtils

AlterConfigsResource = IncrementalAlterConfigsRequest.AlterConfigsResource

# The settings that a change starts from, given the ones in force.
Base = Callable[[Overrides], Overrides]

_RESOURCES_PER_TURN = 10
_OF_LISTENER = re.compile(r"listener\.name\.[^.]*\.(?P<base>.*)")
_OF_ALL_LISTENERS = ("max.connections", "max.connection.creation.rate", "num.network.threads")


class ConfigAdmin:
    """Describes and alters dynamic settings. One per broker. Owned by the event loop."""

    def __init__(
        self,
        zk: ZkUtils,
        config: Callable[[], KafkaConfig],
        metadata: MetadataView,
        checks: Sequence[Callable[[KafkaConfig], None]] = (),
    ) -> None:
        """`config` gives the settings in force. `checks` are asked what else this broker needs of
        settings of its own; they raise ConfigError.
        """
        self._tree = zk.tree
        self._stored = ZkEntityConfigs(zk)
        self._config = config
        self._metadata = metadata
        self._passwords = StoredPasswords(config().security)
        self._checks = checks

    @property
    def in_force(self) -> KafkaConfig:
        return self._config()

    async def topic_overrides(self, topic: str) -> Mapping[str, str]:
        """The topic's own settings; empty for none."""
        return await self._overrides(zk_paths.TOPIC_CONFIGS, topic)

    async def broker_overrides(self, broker_id: int | None) -> Mapping[str, str]:
        """The dynamic settings of one broker, or of the cluster (None)."""
        return await self._overrides(zk_paths.BROKER_CONFIGS, _broker_entity(broker_id))

    async def group_overrides(self, group_id: str) -> Mapping[str, str]:
        """The group's own settings; empty for none."""
        return await self._overrides(zk_paths.GROUP_CONFIGS, zk_paths.sanitized(group_id))

    async def groups(self) -> list[str]:
        """The groups that have settings of their own."""
        read = partial(self._stored.entities, zk_paths.GROUP_CONFIGS)
        found: list[str] = []
        for names in slices(await patiently(self._tree, read), ENTRIES):
            found += map(entity_name, names)
            await turn()
        return found

    async def entities(
        self, entity_type: str, inner_type: str | None = None
    ) -> Mapping[Names, Mapping[str, str]]:
        """Return the stored settings of all entities of a type, or of a type within those."""
        read = partial(self._stored.every, entity_type, inner_type)
        return await patiently(self._tree, read)

    async def incremental_alter(
        self,
        resources: Sequence[AlterConfigsResource],
        validate_only: bool,
        twice: Container[tuple[int, str]] = (),
    ) -> list[KafkaError | None]:
        """Alter resources, each by itself; None for success. `twice` are the resources, by type and
        name, that another entry names too.
        """
        return await self._alter_each(resources, validate_only, _kept, twice)

    async def replace(
        self,
        resources: Sequence[AlterConfigsResource],
        validate_only: bool,
        twice: Container[tuple[int, str]] = (),
    ) -> list[KafkaError | None]:
        """Give resources these settings and no others (KIP-133); None for success."""
        return await self._alter_each(resources, validate_only, _forgotten, twice)

    async def change_user(self, user: str, change: Change) -> None:
        """Replace what is stored of a user. Raises KafkaError."""
        await self.change_entity(zk_paths.USER_CONFIGS, zk_paths.sanitized(user), change)

    async def change_entity(self, entity_type: str, entity: str, change: Change) -> None:
        """Replace what is stored of a user, client or address, named as in the tree. Raises
        KafkaError.
        """
        await self._update(entity_type, entity, change)

    # ---- inside

    async def _alter_each(
        self,
        resources: Sequence[AlterConfigsResource],
        validate_only: bool,
        base: Base,
        twice: Container[tuple[int, str]],
    ) -> list[KafkaError | None]:
        counts = Counter((r.resource_type, r.resource_name) for r in resources)
        outcomes: list[KafkaError | None] = []
        for number, resource in enumerate(resources, start=1):
            if number % _RESOURCES_PER_TURN == 0:
                await turn()
            named = (resource.resource_type, resource.resource_name)
            try:
                if counts[named] > 1 or named in twice:
                    message = "Each resource must appear at most once."
                    raise KafkaError(ErrorCode.INVALID_REQUEST, message)
                await self._alter(resource, validate_only, base)
            except KafkaError as error:
                outcomes.append(error.with_traceback(None))  # or it would hold `outcomes`
            else:
                outcomes.append(None)
        return outcomes

    async def _overrides(self, entity_type: str, entity: str) -> Overrides:
        read = partial(self._stored.overrides, entity_type, entity)
        return await patiently(self._tree, read)

    async def _update(self, entity_type: str, entity: str, change: Change) -> None:
        try:
            await patiently(self._tree, partial(self._stored.update, entity_type, entity, change))
        except NodeTooLargeError as error:
            message = (
                f"The settings of {entity_type}/{entity} do not fit into a node of the tree, which "
                f"takes {MAX_NODE_BYTES} bytes"
            )
            raise KafkaError(ErrorCode.INVALID_CONFIG, message) from error

    async def _alter(self, resource: AlterConfigsResource, validate_only: bool, base: Base) -> None:
        _check_request(resource)
        if resource.resource_type == ResourceType.TOPIC:
            entity_type, entity = zk_paths.TOPIC_CONFIGS, resource.resource_name
            change = partial(self._altered_topic, resource, base)
        elif resource.resource_type == ResourceType.BROKER:
            entity_type, entity = zk_paths.BROKER_CONFIGS, _broker_entity(self._broker_id(resource))
            change = partial(self._altered_broker, resource, base, is_stored=not validate_only)
        elif resource.resource_type == ResourceType.BROKER_LOGGER and base is _kept:
            self._alter_loggers(resource, validate_only=validate_only)
            return
        elif resource.resource_type == ResourceType.GROUP:
            entity_type, entity = zk_paths.GROUP_CONFIGS, zk_paths.sanitized(resource.resource_name)
            change = partial(self._altered_group, resource, base)
        else:
            raise _unsupported(resource.resource_type)
        if validate_only:
            change(await self._overrides(entity_type, entity))
            return
        try:
            await self._update(entity_type, entity, change)
        except NoNodeError as error:
            raise _unknown_topic(entity) from error

    def _altered_topic(
        self, resource: AlterConfigsResource, base: Base, before: Overrides
    ) -> Overrides:
        topic = resource.resource_name
        if not topic:
            message = "Default topic resources are not allowed."
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)
        overrides = apply_operations(resource.configs, base(before), topic_config_key)
        if not self._metadata.contains_topic(topic):
            raise _unknown_topic(topic)
        try:
            validate_overrides(overrides)
        except KafkaError as error:
            raise _with_resource(error, topic) from error
        return overrides

    def _altered_group(
        self, resource: AlterConfigsResource, base: Base, before: Overrides
    ) -> Overrides:
        bounds = self._config().consumer_group
        return changed_group(resource.resource_name, resource.configs, base(before), bounds)

    def _altered_broker(
        self, resource: AlterConfigsResource, base: Base, before: Overrides, *, is_stored: bool
    ) -> Overrides:
        unknown = [c for c in resource.configs if c.config_operation not in OPERATIONS]
        if unknown:
            message = f"Unknown operations type {unknown[0].config_operation}"
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)
        overrides = apply_operations(resource.configs, base(before), _broker_config_key)
        kept = {name: text for name, text in overrides.items() if before.get(name) == text}
        readable, unreadable = self._passwords.readable(kept)
        meant = {n: text for n, text in (overrides | readable).items() if n not in unreadable}
        self._check_dynamic(meant, per_broker=bool(resource.resource_name))
        if not is_stored:  # as in Apache Kafka, which then does without a secret, too
            return overrides
        try:
            return self._passwords.stored(before, overrides)
        except KafkaError as error:
            raise _with_broker(error, resource.resource_name) from error

    def _broker_id(self, resource: AlterConfigsResource) -> int | None:
        name, own_id = resource.resource_name, self._config().server.broker_id
        if not name:
            return None
        if broker_id_in(name, "Node") != own_id:
            message = f"Unexpected broker id, expected {own_id}, but received {name}"
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)
        return own_id

    def _alter_loggers(self, resource: AlterConfigsResource, *, validate_only: bool) -> None:
        name, own_id = resource.resource_name, self._config().server.broker_id
        if broker_id_in(name, "Node") != own_id:
            message = f"Unexpected node id. Expected {own_id}, but received {name}"
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)
        validate_logger_changes(resource.configs)
        if not validate_only:
            alter_loggers(resource.configs)

    def _check_dynamic(self, overrides: Mapping[str, str], *, per_broker: bool) -> None:
        fixed, single = [], []
        for name, text in overrides.items():
            key = _broker_config_key(name)
            if not per_broker and _is_of_one_broker(name):
                single.append(name)
            elif is_fixed(name, text):
                fixed.append(name)
            elif key is None:
                continue  # unknown settings may belong to a plugin
            elif key.dynamic == "per-broker" and not per_broker:
                single.append(name)
            else:
                _parse(key, text)
        if fixed:
            message = f"Cannot update these configs dynamically: Set({', '.join(fixed)})"
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)
        if single:
            message = (
                "Cannot update these configs at default cluster level, "
                "broker id must be specified: "
                f"Set({', '.join(single)})"
            )
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)
        try:
            changed = validate_dynamic(self._config(), overrides, of_broker=per_broker)
            for check in self._checks if per_broker else ():
                check(changed)
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error


def _kept(before: Overrides) -> Overrides:
    return before


def _forgotten(_before: Overrides) -> Overrides:
    return {}


def _is_of_one_broker(name: str) -> bool:
    """Whether it is a setting of one listener, which all brokers cannot share."""
    found = _OF_LISTENER.fullmatch(name)
    return found is not None and found["base"] not in _OF_ALL_LISTENERS


def _check_request(resource: AlterConfigsResource) -> None:
    check_count(resource.configs)
    names = [change.name for change in resource.configs]
    if len(set(names)) != len(names):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = [
        change.name
        for change in resource.configs
        if change.value is None and change.config_operation != OP_DELETE
    ]
    if nulls:
        message = f"Null value not supported for : {', '.join(nulls)}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)


def _unsupported(resource_type: int) -> KafkaError:
    message = f"Unknown resource type {resource_type}"
    if resource_type == ResourceType.CLIENT_METRICS:
        message = (
            "AlterConfigs is only supported for topics and brokers, "
            "but resource type is CLIENT_METRICS"
        )
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def _unknown_topic(topic: str) -> KafkaError:
    message = f"The topic '{topic}' does not exist."
    return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)


def _with_resource(error: KafkaError, topic: str) -> KafkaError:
    # Kafka names the resource if the value is wrong, but not if the name is.
    if error.message is None or not error.message.startswith("Invalid value"):
        return error
    resource = f"ConfigResource(type=TOPIC, name='{topic}')"
    message = f"Invalid config value for resource {resource}: {error.message}"
    return KafkaError(error.code, message)


def _with_broker(error: KafkaError, broker: str) -> KafkaError:
    resource = f"ConfigResource(type=BROKER, name='{broker}')"
    message = f"Invalid config value for resource {resource}: {error.message}"
    return KafkaError(error.code, message)


def _parse(key: ConfigKey, text: str) -> None:
    try:
        key.parse(text)
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error


def _broker_config_key(name: str) -> ConfigKey | None:
    return config_key(name) or dynamic_only_key(name)


def _broker_entity(broker_id: int | None) -> str:
    return zk_paths.DEFAULT_ENTITY if broker_id is None else str(broker_id)
