"""Serves an ASGI application at sockets that listen already: the part of the HTTP thread that
brings h11 along.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from functools import partial

from kbroker.http.answers import Application
from kbroker.http.connection import HttpConnection, Limits, Shared


async def serve_until(
    end: asyncio.Event, sockets: Sequence[socket.socket], application: Application, limits: Limits
) -> None:
    """Serve until `end` is set; then connections are cut and the sockets closed."""
    shared = Shared(application, limits)
    loop = asyncio.get_running_loop()
    made = partial(HttpConnection, shared)
    servers = [
        await loop.create_server(made, sock=sock, backlog=socket.SOMAXCONN) for sock in sockets
    ]
    await end.wait()
    for server in servers:
        server.close()
    for connection in list(shared.connections):
        connection.transport.abort()
    for task in list(shared.answering):
        task.cancel()
    await asyncio.gather(*shared.answering, return_exceptions=True)
