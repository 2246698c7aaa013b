"""The settings of several brokers in one process, made from those of one: consecutive ids, ports
and directories, everything else alike.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from dataclasses import replace

from kbroker.config.http_addresses import HTTP_LISTENERS
from kbroker.config.kafka_config import ORIGIN_OVERRIDE, ORIGIN_PROFILE, KafkaConfig
from kbroker.errors import ConfigError
from kbroker.model import EndPoint

_MAX_PORT = 65_535
_NO_ID = -1  # one is generated

IsFree = Callable[[str, int], bool]  # (host, port)


def configs_of_brokers(
    config: KafkaConfig, count: int, is_free: IsFree | None = None
) -> list[KafkaConfig]:
    """Return the settings of each broker. The first listens as `config` says, the others on the
    next ports that `is_free`; a port of 0 stays 0. Raises ConfigError.
    """
    first_id = _first_id(config)
    # Each broker has an HTTP address of its own, as a broker is what is scraped and is ready or
    # not. Those that nobody has asked for find their ports by themselves.
    http = config.http_end_points() if config.is_http_asked_for() else ()
    rows = _listeners((*config.end_points(), *http), count, is_free or _can_be_bound)
    listeners = [row[: len(row) - len(http)] for row in rows]
    configs = []
    for number in range(count):
        broker_id = _NO_ID if first_id == _NO_ID else first_id + number
        values = {
            "broker.id": str(broker_id),
            "node.id": str(broker_id),
            "listeners": ",".join(map(str, listeners[number])),
            "log.dirs": ",".join(
                f"{path.rstrip('/')}/broker-{number if broker_id == _NO_ID else broker_id}"
                for path in config.log.data_directories()
            ),
        }
        if http:
            ends = rows[number][len(listeners[number]) :]
            values[HTTP_LISTENERS] = ",".join(str(e).partition("://")[2] for e in ends)
        if number:
            values |= _advertised(config, listeners[0], listeners[number])
        configs.append(with_values(config, values))
    return configs


def with_values(config: KafkaConfig, values: dict[str, str]) -> KafkaConfig:
    """The same settings with some of them replaced."""
    origins = {**config.origins, **dict.fromkeys(values, ORIGIN_OVERRIDE)}
    return KafkaConfig({**config.texts, **values}, origins)


def listeners_of(end_points: Sequence[EndPoint]) -> dict[str, str]:
    """The setting that makes a broker listen on these end points."""
    return {"listeners": ",".join(map(str, end_points))}


def _first_id(config: KafkaConfig) -> int:
    is_wish = config.server.broker_id >= 0 and config.origin("broker.id") != ORIGIN_PROFILE
    if config.zk.zookeeper_connect and not is_wish:
        return _NO_ID
    return max(config.server.broker_id, 0)


def _listeners(
    first: Sequence[EndPoint], count: int, is_free: IsFree
) -> list[tuple[EndPoint, ...]]:
    rows = [tuple(first)]
    taken = {end_point.port for end_point in first}
    for _ in range(1, count):
        row = []
        for before in rows[-1]:
            port = before.port
            while port and (port in taken or not is_free(before.host, port)):
                port += 1
                if port > _MAX_PORT:
                    where = ", ".join(map(str, first))
                    raise ConfigError(
                        f"listeners: fewer than {count} ports are free from {where} on"
                    )
            taken.add(port)
            row.append(replace(before, port=port))
        rows.append(tuple(row))
    return rows


def _advertised(
    config: KafkaConfig, first: Sequence[EndPoint], own: Sequence[EndPoint]
) -> dict[str, str]:
    """Return advertised addresses, as far from the first broker's as the ports are."""
    steps = {a.listener_name: b.port - a.port for a, b in zip(first, own, strict=True)}
    advertise, listeners = (
        config.kbroker.kbroker_advertise,
        config.socket_server.advertised_listeners,
    )
    if not advertise and not listeners:
        return {}
    if not all(end_point.port for end_point in first):
        name = "kbroker.advertise" if advertise else "advertised.listeners"
        raise ConfigError(f"{name} with several brokers needs listeners with fixed ports")
    values = {}
    if advertise:
        host, _, port = advertise.rpartition(":")
        if port.isdecimal():
            values["kbroker.advertise"] = f"{host}:{int(port) + steps[first[0].listener_name]}"
    if listeners:
        values["advertised.listeners"] = ",".join(
            str(replace(e, port=e.port + steps.get(e.listener_name, 0)))
            for e in config.advertised_end_points()
        )
    return values


def _can_be_bound(host: str, port: int) -> bool:
    """Whether nobody listens there. If another process is quicker, the broker's start says so."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(address)
            sock.listen(1)
    except OSError:
        return False
    return True
