"""An HttpServer on a loop in a thread of its own, which stands for the broker's."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from types import TracebackType
from typing import Self

from kbroker.http.answers import Answer, Application
from kbroker.http.broker_loop import BrokerLoop
from kbroker.http.connection import Limits
from kbroker.http.guard import Guard
from kbroker.http.health import Check
from kbroker.http.health_routes import health_routes
from kbroker.http.http_server import HttpServer
from kbroker.http.routes import Request, Route, RouteTable
from kbroker.http.tls_line import MakeTls
from kbroker.http.trace_routes import FindTracer, trace_routes
from kbroker.model import EndPoint

_ESTABLISHED = "01"  # in /proc/net/tcp
LARGE_BYTES = 32 << 20  # more than sockets take at once


class HttpHere:
    """Serves health, `/large` and the requests that a tracer sees on a free port of 127.0.0.1 until the `with` block ends."""

    def __init__(
        self,
        limits: Limits | None = None,
        guard: Guard | None = None,
        tracer: FindTracer = lambda: None,
        tls: MakeTls | None = None,
        otherwise: Application | None = None,
    ) -> None:
        self._limits = limits
        self._otherwise = otherwise
        self._tracer = tracer
        self._guard = guard or Guard()
        self._tls = tls
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._server: HttpServer | None = None
        self.port = 0
        self.checks = [Check(name="disks")]

    def connect(self) -> HTTPConnection:
        return HTTPConnection("127.0.0.1", self.port, timeout=30)

    def raw(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)

    def get(self, path: str, **headers: str) -> tuple[int, str]:
        """The status and the text of an answer."""
        connection = self.connect()
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        status, text = answer.status, answer.read().decode()
        connection.close()
        return status, text

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep the loop of the broker from anything for as long as the block lasts."""
        begun, over = threading.Event(), threading.Event()

        def hold() -> None:
            begun.set()
            over.wait()

        self._loop.call_soon_threadsafe(hold)
        begun.wait()
        try:
            yield
        finally:
            over.set()

    def on_loop(self, call: Callable[[], object]) -> None:
        """Call this on the loop of the broker, and return when it has returned."""

        async def run() -> None:
            call()

        asyncio.run_coroutine_threadsafe(run(), self._loop).result()

    def wait_until_no_connection_is_open(self) -> None:
        """Return when the server has closed all that it had accepted."""
        mine = f":{self.port:04X}"
        while any(
            row.split()[1].endswith(mine) and row.split()[3] == _ESTABLISHED
            for row in Path("/proc/net/tcp").read_text().splitlines()[1:]
        ):
            os.sched_yield()

    def stop(self) -> None:
        """Stop the server, and return when it has stopped."""
        assert self._server is not None
        asyncio.run_coroutine_threadsafe(self._server.stop(), self._loop).result()

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._begin(), self._loop).result()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _begin(self) -> None:
        wanted = EndPoint(listener_name="HTTP", host="127.0.0.1", port=0)
        self._server = HttpServer([wanted], self._application, limits=self._limits, tls=self._tls)
        self._server.start()
        self.port = self._server.end_points[0].port

    def _application(self, loop: BrokerLoop) -> RouteTable:
        async def large(_: Request) -> Answer:
            return Answer(body=b"x" * LARGE_BYTES)

        async def broken(_: Request) -> Answer:
            raise RuntimeError("a bug")

        routes = {
            "/large": Route(answer=large),
            "/broken": Route(answer=broken),
            **health_routes(loop, lambda: iter(self.checks)),
            **trace_routes(loop, self._tracer),
        }
        return RouteTable(routes=routes, guard=self._guard, otherwise=self._otherwise)
