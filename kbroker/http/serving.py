"""Serves an ASGI application at sockets that listen already: the part of the HTTP thread that
brings h11 along.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from kbroker.http.answers import Application
from kbroker.http.connection import HttpConnection, Limits, Shared

if TYPE_CHECKING:
    from kbroker.http.tls_line import MakeTls


async def serve_until(
    end: asyncio.Event,
    sockets: Sequence[socket.socket],
    application: Application,
    limits: Limits,
    tls: MakeTls | None,
) -> None:
    """Serve until `end` is set, by `tls` if there is one; then connections are cut and the sockets
    closed.
    """
    scheme, over_tls = "http", None
    if tls is not None:
        from kbroker.http.tls_line import TlsLine  # few brokers have TLS

        scheme, over_tls = "https", partial(TlsLine, tls)
    shared = Shared(application, limits, scheme)

    def made() -> asyncio.Protocol:
        connection = HttpConnection(shared)
        return connection if over_tls is None else over_tls(connection)

    loop = asyncio.get_running_loop()
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
