"""Listener texts to addresses: `NAME://host:port,...` with the map from listener name to security
protocol.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from kbroker.config.config_values import invalid_value
from kbroker.model import SECURITY_PROTOCOLS, EndPoint

_END_POINT = re.compile(r"([^:/,]+)://\[?([0-9a-zA-Z\-%._:]*?)\]?:(-?[0-9]+)")
_MAX_PORT = 65535


def parse_security_protocol_map(name: str, text: str) -> dict[str, str]:
    """Security protocol by listener name, from `NAME:PROTOCOL,...`; raises ConfigError."""
    protocols: dict[str, str] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        listener, _, protocol = pair.partition(":")
        if protocol.strip().upper() not in SECURITY_PROTOCOLS:
            raise invalid_value(
                name, text, f"{pair} is not of the form NAME:{'|'.join(SECURITY_PROTOCOLS)}"
            )
        protocols[listener.strip().upper()] = protocol.strip().upper()
    return protocols


def parse_end_points(
    name: str, text: str, protocols: dict[str, str], without: Collection[str] = ()
) -> tuple[EndPoint, ...]:
    """The addresses in `text`, in order; an empty host stands for every interface. Listeners of
    the names in `without` are left out, and need no protocol.

    Raises ConfigError.
    """
    end_points: list[EndPoint] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        if part.partition("://")[0].upper() in without:
            continue
        end_point = _parse_end_point(name, part, protocols)
        if any(end_point.listener_name == other.listener_name for other in end_points):
            raise invalid_value(
                name, text, f"listener name {end_point.listener_name} is used twice"
            )
        end_points.append(end_point)
    return tuple(end_points)


def _parse_end_point(name: str, text: str, protocols: dict[str, str]) -> EndPoint:
    match = _END_POINT.fullmatch(text)
    if match is None:
        raise invalid_value(name, text, "an address is NAME://host:port")
    listener, host, port = match[1].upper(), match[2], int(match[3])
    if not 0 <= port <= _MAX_PORT:
        raise invalid_value(name, text, f"a port is 0 to {_MAX_PORT}")
    if listener not in protocols:
        reason = f"listener.security.protocol.map has no security protocol for {listener}"
        raise invalid_value(name, text, reason)
    return EndPoint(
        listener_name=listener, host=host, port=port, security_protocol=protocols[listener]
    )
