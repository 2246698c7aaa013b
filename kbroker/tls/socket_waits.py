"""Waits for a socket on which no transport of the loop is."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable


async def readable(sock: socket.socket) -> None:
    """Return when something can be received, or the connection has ended."""
    loop = asyncio.get_running_loop()
    await _ready(sock.fileno(), loop.add_reader, loop.remove_reader)


async def writable(sock: socket.socket) -> None:
    """Return when something can be sent, or the connection has ended."""
    loop = asyncio.get_running_loop()
    await _ready(sock.fileno(), loop.add_writer, loop.remove_writer)


async def _ready(fd: int, add: Callable[..., None], remove: Callable[[int], bool]) -> None:
    ready = asyncio.Event()
    add(fd, ready.set)
    try:
        await ready.wait()
    finally:
        remove(fd)
