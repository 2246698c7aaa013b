"""The parts that differ from listener to listener: the wire, and the channel at its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kbroker.errors import ConfigError
from kbroker.model import EndPoint
from kbroker.network.channel import Channel
from kbroker.network.channel_owner import ChannelOwner
from kbroker.network.wire import MakeWire, SocketWire, Wire

MakeChannel = Callable[[ChannelOwner, Wire], Channel]
"""Makes the channel of a new connection."""


class ListenerParts(NamedTuple):
    """The parts of one listener; by itself a channel asks for no login."""

    make_wire: MakeWire
    make_channel: MakeChannel = Channel


MakeParts = Callable[[EndPoint], ListenerParts]
"""Gives a listener its parts. Raises ConfigError if it cannot be served."""


def plaintext_parts(listener: EndPoint) -> ListenerParts:
    """Give the parts of a listener without TLS and logins. Raises ConfigError for any other."""
    if listener.security_protocol == "PLAINTEXT":
        return ListenerParts(SocketWire)
    raise ConfigError(
        f"listener {listener} asks for {listener.security_protocol}; only PLAINTEXT is served"
    )
