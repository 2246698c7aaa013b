"""The loggers of this process, whose levels can be described and altered while it runs
(KIP-412).

Law: names are those of Python's loggers (`root`, `kbroker.network.acceptor`, `kazoo.client`) and
levels those of Kafka, so that Kafka's tools can set them. A level lasts until the process ends and
is stored nowhere, as in Kafka. A logger whose level was never set, or was deleted, has its
parent's. The brokers of one process share their loggers.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from kbroker.admin.config_changes import (
    OP_APPEND,
    OP_DELETE,
    OP_SET,
    OP_SUBTRACT,
    AlterableConfig,
)
from kbroker.config.config_resources import ConfigSource
from kbroker.config.config_values import ConfigType
from kbroker.config.config_view import ConfigEntry
from kbroker.errors import ErrorCode, KafkaError

ROOT = "root"
TRACE = 5  # which Python does not have
_LEVELS = {
    "TRACE": TRACE,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
_OFF = "OFF"  # shown for a library's logger that lets nothing through; not to be set, as in Kafka
_REFUSED_NAMES = {OP_APPEND: "APPEND", OP_SUBTRACT: "SUBTRACT"}


def describe_loggers() -> list[ConfigEntry]:
    """Every logger there is, and every name above one, with the level in force."""
    names = sorted(logging.Logger.manager.loggerDict)
    return [_entry(name) for name in (*names, ROOT)]


def validate_logger_changes(changes: Sequence[AlterableConfig]) -> None:
    """Raises KafkaError for the first change that cannot be made."""
    for change in changes:
        _validate(change)


def alter_loggers(changes: Sequence[AlterableConfig]) -> None:
    """Make changes that `validate_logger_changes` has passed."""
    for change in changes:
        is_set = change.config_operation == OP_SET
        _logger(change.name).setLevel(_LEVELS[change.value or ""] if is_set else logging.NOTSET)


def _validate(change: AlterableConfig) -> None:
    name, operation = change.name, change.config_operation
    if operation not in (OP_SET, OP_DELETE):
        kind = _REFUSED_NAMES.get(operation)
        if kind is None:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)  # Kafka's answer, for topics too
        message = f"{kind} operation is not allowed for the BROKER_LOGGER resource"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    if name != ROOT and name not in logging.Logger.manager.loggerDict:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
    if operation == OP_SET and change.value not in _LEVELS:
        message = (
            f"Cannot set the log level of {name} to {change.value} as it is not a supported log "
            f"level. Valid log levels are {', '.join(sorted(_LEVELS))}"
        )
        raise KafkaError(ErrorCode.INVALID_CONFIG, message)
    if operation == OP_DELETE and name == ROOT:
        message = f"Removing the log level of the {ROOT} logger is not allowed"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)


def _entry(name: str) -> ConfigEntry:
    return ConfigEntry(
        name=name,
        value=_level(name),
        source=ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG,
        read_only=False,
        is_sensitive=False,
        type=ConfigType.UNKNOWN,
        synonyms=(),
        documentation=None,
    )


def _level(name: str) -> str:
    number = _logger(name).getEffectiveLevel()
    return next((level for level, known in _LEVELS.items() if number <= known), _OFF)


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT else name)
