"""Changes of the settings of one group, checked as by Kafka 4.3.

Pure. Nothing is read or written here. Refusals are KafkaErrors with the sentences of Kafka 4.3: up
to 3.9 brokers have no such settings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kbroker.admin.config_changes import (
    OP_APPEND,
    OP_SUBTRACT,
    AlterableConfig,
    apply_operations,
)
from kbroker.config.consumer_group_config import ConsumerGroupConfig
from kbroker.config.group_settings import group_config_key, validate_group
from kbroker.errors import ErrorCode, KafkaError
from kbroker.zk.zk_paths import has_node

_LIST_OPERATIONS = {OP_APPEND: "APPEND", OP_SUBTRACT: "SUBTRACT"}


def changed_group(
    group_id: str,
    changes: Sequence[AlterableConfig],
    before: Mapping[str, str],
    config: ConsumerGroupConfig,
) -> dict[str, str]:
    """The settings of a group after `changes`, under those of its broker. Raises KafkaError."""
    if not group_id:
        message = "Default group resources are not allowed."
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    if not has_node(group_id):
        message = f"A group named {group_id} cannot have settings: no node can have this name."
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    for change in changes:
        if change.config_operation in _LIST_OPERATIONS:  # a group has no lists
            verb = _LIST_OPERATIONS[change.config_operation]
            message = f"Can't {verb} to key {change.name} because its type is not LIST."
            raise KafkaError(ErrorCode.INVALID_CONFIG, message)
    after = apply_operations(changes, before, group_config_key)
    validate_group(config, _of_this_release(after, before))
    return after


def _of_this_release(after: Mapping[str, str], before: Mapping[str, str]) -> dict[str, str]:
    """Leave out what stands there already and is not known: a later release may have written it,
    and it must not keep the others from being changed.
    """
    return {
        name: text
        for name, text in after.items()
        if group_config_key(name) is not None or before.get(name) != text
    }
