"""The addresses that a broker registers for its clients."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import replace
from enum import Enum

from kbroker.config.kafka_config import KafkaConfig
from kbroker.errors import ConfigError
from kbroker.ip_addresses import EVERYWHERE
from kbroker.model import EndPoint


class Reach(Enum):
    """The places from which a registered address has to work."""

    CLIENTS = "clients"  # of a single broker: each gets the address it came by
    PROCESS = "process"  # and the other brokers of this process
    MACHINES = "machines"  # and brokers anywhere


def advertised_end_points(
    config: KafkaConfig, bound: Sequence[EndPoint], reach: Reach = Reach.CLIENTS
) -> tuple[EndPoint, ...]:
    """Return the end points to register; `bound` are those listened on, with their real ports.

    A listener without a host is announced to each client under the address it came by, or under
    this machine's name, as in Kafka, if brokers of other machines need it. Raises ConfigError.
    """
    if config.kbroker.kbroker_advertise is not None:
        first = _forced(config.kbroker.kbroker_advertise, bound[0])
        return (first, *_reachable(bound[1:], reach))
    if config.advertises_per_connection():
        if reach is Reach.CLIENTS:
            return tuple(replace(end_point, host="") for end_point in bound)
        return _reachable(bound, reach)
    ports = {end_point.listener_name: end_point.port for end_point in bound}
    return _reachable(
        [
            replace(end_point, port=end_point.port or ports.get(end_point.listener_name, 0))
            for end_point in config.advertised_end_points()
        ],
        reach,
    )


def _reachable(end_points: Sequence[EndPoint], reach: Reach) -> tuple[EndPoint, ...]:
    """Give end points on all interfaces a host that works within reach."""
    if reach is Reach.CLIENTS:
        return tuple(end_points)
    host = socket.gethostname() if reach is Reach.MACHINES else ""
    return tuple(
        replace(end_point, host=host) if end_point.host in EVERYWHERE else end_point
        for end_point in end_points
    )


def _forced(address: str, listener: EndPoint) -> EndPoint:
    host, separator, port = address.rpartition(":")
    if not separator or not host or not port.isdecimal() or not 0 < int(port) < 65_536:
        raise ConfigError(f"kbroker.advertise={address} is not HOST:PORT")
    return replace(listener, host=host.strip("[]"), port=int(port))
