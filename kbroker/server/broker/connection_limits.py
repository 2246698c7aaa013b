"""How many connections a broker takes, in all and in a second, by its settings in force (KIP-402,
KIP-612).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from kbroker.admin.dynamic_config_manager import DynamicConfigManager
from kbroker.config.config_values import MAX_INT
from kbroker.config.kafka_config import KafkaConfig
from kbroker.network.socket_server import SocketServer
from kbroker.zk import zk_paths

_RATE, _CONNECTIONS = "max.connection.creation.rate", "max.connections"


def follow_limits(
    server: SocketServer, config: Callable[[], KafkaConfig], changes: DynamicConfigManager
) -> None:
    """Put the limits of the settings in force, now and whenever they change."""

    def put(_entity: str = "", _overrides: Mapping[str, str] | None = None) -> None:
        now = config()
        names = [each.listener_name for each in now.end_points()]
        # As in Kafka, clients do not keep brokers away that have a listener of their own.
        spared = now.inter_broker_listener_name() if len(names) > 1 else None
        rate, connections = (
            now.socket_server.max_connection_creation_rate,
            now.socket_server.max_connections,
        )
        server.put_creation_rates(rate, _limits_by_listener(now, _RATE, names), spared)
        server.quotas.put_limits(connections, _limits_by_listener(now, _CONNECTIONS, names), spared)

    put()
    changes.add_handler(zk_paths.BROKER_CONFIGS, put)


def _limits_by_listener(config: KafkaConfig, base: str, listeners: list[str]) -> dict[str, int]:
    """The limits that are set for each listener alone."""
    settings = ((each, config.listener_setting(base, each)) for each in listeners)
    return {
        listener: MAX_INT if name == base else cast("int", value)
        for listener, (name, value) in settings
    }
