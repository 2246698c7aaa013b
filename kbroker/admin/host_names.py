"""Names of hosts that stand in place of addresses: the address that the system finds for them.

Law: the system is asked on a daemon thread for each name, so that one that it does not find for
long holds up neither other work nor the end of the process.
"""

from __future__ import annotations

import asyncio
import re
import socket
from functools import partial

from kbroker.own_code import OwnCode, on_loop

PATIENCE_S = 5.0
_LEAST_PATIENCE_S = 0.001  # or it is not asked at all
_QUAD = re.compile(r"(0|[1-9]\d{0,2})(\.(0|[1-9]\d{0,2})){3}")
_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_.])?")


class AskedHosts:
    """The hosts that a request names, for which it waits `PATIENCE_S` all together."""

    def __init__(self) -> None:
        self._known: dict[str, str | None] = {}
        self._left_s = PATIENCE_S

    async def address_of(self, name: str) -> str | None:
        """As the function; a name that comes again is not looked up again."""
        if name not in self._known:
            loop = asyncio.get_running_loop()
            began_s = loop.time()
            self._known[name] = await address_of(name, self._left_s)
            self._left_s -= loop.time() - began_s
        return self._known[name]


async def address_of(name: str, patience_s: float | None = None) -> str | None:
    """Return the IPv4 address that a text is or names; None if there is none, or the system has not
    found it after so long.

    Colons never come here: the tree writes names as in URLs, and Kafka reads them as they are
    written there.
    """
    if is_address(name):
        return name
    if not may_be_host(name) or (patience_s is not None and patience_s < _LEAST_PATIENCE_S):
        return None
    loop, done, thread = asyncio.get_running_loop(), asyncio.Event(), OwnCode("host-name")
    ask = partial(socket.getaddrinfo, name, None, family=socket.AF_INET, type=socket.SOCK_STREAM)
    asked = thread.call(ask, on_done=partial(on_loop, loop, done.set))
    if asked is None:
        return None
    thread.stop()
    try:
        await asyncio.wait_for(done.wait(), patience_s)
    except TimeoutError:
        return None
    if not isinstance(asked.answer, list):  # it has raised
        return None
    return str(asked.answer[0][4][0])


def may_be_host(text: str) -> bool:
    """Whether a text could be an IPv4 address or the name of a host."""
    return bool(_NAME.fullmatch(text))


def is_address(text: str) -> bool:
    """Whether a text is an IPv4 address.

    >>> [is_address(text) for text in ("10.0.0.1", "256.1.1.1", "1.2.3", "localhost")]
    [True, False, False, False]
    """
    return bool(_QUAD.fullmatch(text)) and all(int(part) < 256 for part in text.split("."))
