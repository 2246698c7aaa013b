"""Which addresses a broker registers for its clients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kbroker.config.kafka_config import KafkaConfig
from kbroker.errors import ConfigError
from kbroker.model import EndPoint


def advertised_end_points(config: KafkaConfig, bound: Sequence[EndPoint]) -> tuple[EndPoint, ...]:
    """The end points to register; `bound` are those listened on, with their real ports.

    A listener without host is announced to each client under the address that client came by.
    Raises ConfigError.
    """
    if config.kbroker.kbroker_advertise is not None:
        first = _forced(config.kbroker.kbroker_advertise, bound[0])
        return (first, *bound[1:])
    if config.advertises_per_connection():
        return tuple(replace(end_point, host="") for end_point in bound)
    ports = {end_point.listener_name: end_point.port for end_point in bound}
    return tuple(
        replace(end_point, port=end_point.port or ports.get(end_point.listener_name, 0))
        for end_point in config.advertised_end_points()
    )


def _forced(address: str, listener: EndPoint) -> EndPoint:
    host, separator, port = address.rpartition(":")
    if not separator or not host or not port.isdecimal() or not 0 < int(port) < 65_536:
        raise ConfigError(f"kbroker.advertise={address} is no HOST:PORT")
    return replace(listener, host=host.strip("[]"), port=int(port))
