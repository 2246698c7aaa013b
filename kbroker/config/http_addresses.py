"""The addresses of `kbroker.http.listeners`, from text, and who reaches them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kbroker.config.config_values import invalid_value
from kbroker.model import EndPoint

HTTP_LISTENERS = "kbroker.http.listeners"
_ADDRESS = re.compile(r"(\[[0-9a-fA-F:.%]+\]|[0-9a-zA-Z\-_.]*):([0-9]{1,5})")
_MAX_PORT = 65_535
_LOOPBACK = re.compile(r"localhost|::1|127(\.[0-9]{1,3}){3}", re.IGNORECASE)


def parse_http_addresses(name: str, texts: Sequence[str]) -> tuple[EndPoint, ...]:
    """The addresses in their order; an empty host stands for every interface. Raises ConfigError
    for one that is not HOST:PORT, or has no such port.
    """
    return tuple(_parsed(name, text) for text in texts)


def check_http_addresses(name: str, texts: Sequence[str]) -> None:
    """Raises ConfigError as `parse_http_addresses` does."""
    parse_http_addresses(name, texts)


def is_loopback(host: str) -> bool:
    """Whether only programs of this machine reach a listener on this host."""
    return _LOOPBACK.fullmatch(host) is not None


def _parsed(name: str, text: str) -> EndPoint:
    match = _ADDRESS.fullmatch(text)
    if match is None:
        raise invalid_value(name, text, "an address is HOST:PORT")
    port = int(match[2])
    if port > _MAX_PORT:
        raise invalid_value(name, text, f"a port is 0 to {_MAX_PORT}")
    return EndPoint(listener_name="HTTP", host=match[1].strip("[]"), port=port)
