"""Checks of the settings of a running broker, beyond the bounds of each: they must fit together,
and the number of threads changes in small steps only.

Law: whatever Kafka 3.9 refuses is refused. A value that passes can be applied by every part of the
broker and described to clients: the tree never holds one that no broker can use. The names of code
that runs in the broker are for those who write its settings files: Kafka loads whatever class
AlterConfigs names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from kbroker.config.config_values import ConfigType
from kbroker.config.kafka_config import KafkaConfig, config_key, overriding_key
from kbroker.errors import ConfigError

_THREADS = (
    "background.threads",
    "log.cleaner.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
)


def is_fixed(name: str, text: str) -> bool:
    """Whether a broker has this setting from its start alone, also of one listener if it names a
    function of Python.
    """
    key = config_key(name)
    if key is not None and key.dynamic == "read-only":
        return True
    key = key or overriding_key(name)
    return key is not None and key.type is ConfigType.CLASS and ":" in text


def validate_dynamic(
    current: KafkaConfig, proposed: Mapping[str, str], *, of_broker: bool
) -> KafkaConfig:
    """Return the settings in force once `proposed` are the dynamic settings of this broker, or else
    of all brokers. Raises ConfigError unless they can be.
    """
    _check_listeners_own(proposed)
    for name, text in proposed.items():
        # Also of a listener that is not there, as in Kafka: it may come with the next start.
        if (key := overriding_key(name)) is not None:
            key.parse(text)
    if of_broker:
        changed = current.with_dynamic(current.dynamic_default, proposed)
    else:
        changed = current.with_dynamic(proposed, current.dynamic_broker)
    for name in _THREADS:
        _check_threads(name, cast("int", current.value(name)), cast("int", changed.value(name)))
    if changed.log.log_retention_ms_effective() == 0:
        raise ConfigError("log.retention.ms must be unlimited (-1) or, greater than or equal to 1")
    if changed.socket_server.max_connections == 0:
        raise ConfigError("Invalid max.connections 0")
    return changed


def _check_listeners_own(proposed: Mapping[str, str]) -> None:
    """Key and trust stores are changed for one listener at a time (KIP-226)."""
    names = [
        name
        for name in sorted(proposed)
        if name.startswith("ssl.")
        and (key := config_key(name)) is not None
        and key.dynamic == "per-broker"
    ]
    if names:
        raise ConfigError(
            "These security configs can be dynamically updated only per-listener using the "
            f"listener prefix: Set({', '.join(names)})"
        )


def _check_threads(name: str, now: int, wanted: int) -> None:
    if wanted == now:
        return
    if wanted < 1:
        rule = "value should be at least 1"
    elif wanted > 2 * now:
        rule = f"value should not be greater than double the current value {now}"
    elif wanted < now // 2:
        rule = f"value should be at least half the current value {now}"
    else:
        return
    raise ConfigError(f"Dynamic thread count update validation failed for {name}={wanted}, {rule}")
