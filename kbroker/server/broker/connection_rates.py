"""How many connections a broker takes in a second, by its settings in force (KIP-612)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from kbroker.admin.dynamic_config_manager import DynamicConfigManager
from kbroker.config.config_values import MAX_INT
from kbroker.config.kafka_config import KafkaConfig
from kbroker.network.socket_server import SocketServer
from kbroker.zk import zk_paths

_RATE = "max.connection.creation.rate"


def follow_rates(
    server: SocketServer, config: Callable[[], KafkaConfig], changes: DynamicConfigManager
) -> None:
    """Put the rates of the settings in force, now and whenever they change."""

    def put(_entity: str = "", _overrides: Mapping[str, str] | None = None) -> None:
        server.put_creation_rates(*_rates(config()))

    put()
    changes.add_handler(zk_paths.BROKER_CONFIGS, put)


def _rates(config: KafkaConfig) -> tuple[int, Mapping[str, int], str | None]:
    names = [each.listener_name for each in config.end_points()]
    # As in Kafka, clients do not keep brokers away that have a listener of their own.
    spared = config.inter_broker_listener_name() if len(names) > 1 else None
    by_listener = {}
    for name in names:
        found, value = config.listener_setting(_RATE, name)
        by_listener[name] = MAX_INT if found == _RATE else cast("int", value)
    return config.socket_server.max_connection_creation_rate, by_listener, spared
