"""Changes of settings: set, delete, append to and subtract from a list (KIP-339).

Law: nothing is read or written here, so that a change can be checked before any part of it is
stored. Refusals are KafkaErrors with the sentences of Kafka 3.9, because tools show them as they
are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Sized

from kbroker.config.config_def import ConfigKey
from kbroker.config.config_values import ConfigType, to_text
from kbroker.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest

AlterableConfig = IncrementalAlterConfigsRequest.AlterableConfig

# Ways to change a setting; the numbers travel in requests.
OPERATIONS = OP_SET, OP_DELETE, OP_APPEND, OP_SUBTRACT = range(4)
_OP_NAMES = {OP_APPEND: "append", OP_SUBTRACT: "subtract"}

MOST_SETTINGS = 1_000  # of one resource: a broker knows 400, and some again for each listener


def check_count(settings: Sized) -> None:
    """Raises KafkaError for more settings than one resource may have: all of them are looked at
    together, with each change and each time that they are described. Kafka 4 refuses 10,000.
    """
    if len(settings) > MOST_SETTINGS:
        message = f"One resource has {MOST_SETTINGS:,} settings at most."
        raise KafkaError(ErrorCode.POLICY_VIOLATION, message)


def apply_operations(
    changes: Sequence[AlterableConfig],
    before: Mapping[str, str],
    key_of: Callable[[str], ConfigKey | None],
) -> dict[str, str]:
    """The overrides after `changes`.

    Raises KafkaError for an operation the setting does not have, and for too many of them.
    """
    overrides = dict(before)
    for change in changes:
        name, value = change.name, change.value or ""
        if change.config_operation == OP_SET:
            overrides[name] = value
        elif change.config_operation == OP_DELETE:
            overrides.pop(name, None)
        elif change.config_operation in _OP_NAMES:
            overrides[name] = _list_change(change.config_operation, name, value, overrides, key_of)
        else:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    if len(overrides) > len(before):  # what was stored under other bounds can still be reduced
        check_count(overrides)
    return overrides


def _list_change(
    operation: int,
    name: str,
    value: str,
    overrides: Mapping[str, str],
    key_of: Callable[[str], ConfigKey | None],
) -> str:
    key = key_of(name)
    if key is None or key.type is not ConfigType.LIST:
        message = f"Config value {_OP_NAMES[operation]} is not allowed for config key: {name}"
        raise KafkaError(ErrorCode.INVALID_CONFIG, message)
    current = _elements(overrides.get(name, to_text(key.default) or ""))
    given = _elements(value) or [""]  # refused by lists that name their possible elements
    if operation == OP_APPEND:
        return ",".join([*current, *(e for e in given if e not in current)])
    return ",".join(e for e in current if e not in given)


def _elements(text: str) -> list[str]:
    return [element.strip() for element in text.split(",") if element.strip()]
