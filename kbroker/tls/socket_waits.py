"""Waits for a socket on which no transport of the loop is."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress

_READ_BYTES = 64 * 1024


async def readable(sock: socket.socket) -> None:
    """Return when something can be received, or the connection has ended."""
    loop = asyncio.get_running_loop()
    await _ready(sock.fileno(), loop.add_reader, loop.remove_reader)


async def writable(sock: socket.socket) -> None:
    """Return when something can be sent, or the connection has ended."""
    loop = asyncio.get_running_loop()
    await _ready(sock.fileno(), loop.add_writer, loop.remove_writer)


async def ended(sock: socket.socket, limit_s: float) -> None:
    """Send no more, and read what comes until the other side ends the connection, too, or the time
    is up. A socket that is closed with bytes in it would be reset, and what was sent lost.
    """
    with suppress(OSError):  # TimeoutError among them
        sock.shutdown(socket.SHUT_WR)
        async with asyncio.timeout(limit_s):
            await readable(sock)
            while sock.recv(_READ_BYTES):
                await readable(sock)


async def _ready(fd: int, add: Callable[..., None], remove: Callable[[int], bool]) -> None:
    ready = asyncio.Event()
    add(fd, ready.set)
    try:
        await ready.wait()
    finally:
        remove(fd)
