"""Serves an ASGI application at sockets that listen already: the part of the HTTP thread that
brings uvicorn along.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Sequence
from typing import Any, Final

from uvicorn.config import Config
from uvicorn.server import ServerState

from kbroker.http.connection import BoundedConnection, Limits, Resting

_HEADERS: Final = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"same-origin"),  # with none at all, a form's Origin is null
    (b"cache-control", b"no-store"),
]


async def serve_until(
    end: asyncio.Event, sockets: Sequence[socket.socket], app: Any, limits: Limits
) -> None:
    """Serve until `end` is set; then connections are cut and the sockets closed."""
    # Strangers' bytes are no news, and what goes wrong with an answer is logged by the table.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    config = Config(
        app,
        loop="none",
        http=BoundedConnection,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        timeout_keep_alive=limits.keep_alive_s,
        h11_max_incomplete_event_size=limits.head_bytes,
    )
    config.load()
    state = ServerState()
    state.default_headers = _HEADERS
    loop = asyncio.get_running_loop()
    resting: Resting = {}

    def connection() -> BoundedConnection:
        return BoundedConnection(config, state, limits, resting)

    servers = [
        await loop.create_server(connection, sock=sock, backlog=socket.SOMAXCONN)
        for sock in sockets
    ]
    await end.wait()
    for server in servers:
        server.close()
    for open_connection in list(state.connections):
        open_connection.transport.abort()
    for task in list(state.tasks):
        task.cancel()
    await asyncio.gather(*state.tasks, return_exceptions=True)
