"""Names of hosts that stand in place of addresses: the address that the system finds for them."""

from __future__ import annotations

import asyncio
import re
import socket

PATIENCE_S = 5.0
_QUAD = re.compile(r"(0|[1-9]\d{0,2})(\.(0|[1-9]\d{0,2})){3}")
_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_.])?")


async def address_of(name: str) -> str | None:
    """Return the IPv4 address that a text is or names; None if there is none, or the system takes
    longer than `PATIENCE_S` to find it.

    Colons never come here: the tree writes names as in URLs, and Kafka reads them as they are
    written there.
    """
    if is_address(name):
        return name
    if not may_be_host(name):
        return None
    asking = asyncio.get_running_loop().getaddrinfo(
        name, None, family=socket.AF_INET, type=socket.SOCK_STREAM
    )
    try:
        found = await asyncio.wait_for(asking, PATIENCE_S)
    except (OSError, UnicodeError, TimeoutError):
        return None
    return str(found[0][4][0])


def may_be_host(text: str) -> bool:
    """Whether a text could be an IPv4 address or the name of a host."""
    return bool(_NAME.fullmatch(text))


def is_address(text: str) -> bool:
    """Whether a text is an IPv4 address.

    >>> [is_address(text) for text in ("10.0.0.1", "256.1.1.1", "1.2.3", "localhost")]
    [True, False, False, False]
    """
    return bool(_QUAD.fullmatch(text)) and all(int(part) < 256 for part in text.split("."))
