"""Way: the way into a listener of other brokers, plain or by TLS, with a login or without."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from kbroker.peers.broker_connection import BrokerConnection
from kbroker.protocol.schema import Message

Connect = Callable[[Callable[[], BrokerConnection], str, int], Awaitable[Any]]
"""Makes a connection to host and port, as an event loop's create_connection. Raises OSError,
NotLetInError among them.
"""
Ask = Callable[[Message], Awaitable[Any]]
"""Sends a request and returns its answer. Raises as a BrokerClient's `send`."""
LogIn = Callable[[Ask, str], Awaitable[float | None]]
"""Logs in at the broker named last. Returns for how many seconds that is valid, None: as long as
the connection. Raises what `Ask` raises, and NotLetInError.
"""


class NotLetInError(ConnectionError):
    """A broker to which no connection opens until somebody puts something right: a certificate, a
    name, a password. Holds no secret.
    """


async def connect_plainly(make: Callable[[], BrokerConnection], host: str, port: int) -> None:
    """Connect without TLS, as `Connect` says."""
    await asyncio.get_running_loop().create_connection(make, host, port)


def _say_nothing(_: NotLetInError) -> None: ...


class Way(NamedTuple):
    """How to connect, and what to do about connections that are not let in."""

    connect: Connect = connect_plainly
    log_in: LogIn | None = None
    on_refused: Callable[[NotLetInError], None] = _say_nothing


PLAIN_WAY = Way()
