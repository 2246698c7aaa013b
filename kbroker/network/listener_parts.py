"""The parts that differ from listener to listener: the wire, and the login in front of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from kbroker.errors import ConfigError
from kbroker.model import EndPoint
from kbroker.network.wire import MakeWire, SocketWire
from kbroker.protocol.request import ConnectionInfo

if TYPE_CHECKING:  # a broker without logins does without it
    from kbroker.network.connection_login import ConnectionLogin

BeginLogin = Callable[[ConnectionInfo], "ConnectionLogin"]
"""Begins the login of a new connection."""


class ListenerParts(NamedTuple):
    """The parts of one listener; without `begin_login` clients need no login there."""

    make_wire: MakeWire
    begin_login: BeginLogin | None = None


MakeParts = Callable[[EndPoint], ListenerParts]
"""Gives a listener its parts. Raises ConfigError if it cannot be served."""


def plaintext_parts(listener: EndPoint) -> ListenerParts:
    """Give the parts of a listener without TLS and logins. Raises ConfigError for any other."""
    if listener.security_protocol == "PLAINTEXT":
        return ListenerParts(SocketWire)
    raise ConfigError(
        f"listener {listener} asks for {listener.security_protocol}; only PLAINTEXT is served"
    )
