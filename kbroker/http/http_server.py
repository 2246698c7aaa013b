"""HttpServer: the HTTP address of one broker, from its start on.

Law: until the first connection this is a listening socket and a thread that sleeps in the kernel:
nothing is imported, and nothing wakes. That connection wakes the thread, whatever keeps the
broker's loop: it loads the web server, and serves on a loop of its own until the broker stops.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import select
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from kbroker.config.http_addresses import HTTP_LISTENERS
from kbroker.errors import ConfigError
from kbroker.model import EndPoint
from kbroker.network.acceptor import opened, refusal

if TYPE_CHECKING:
    from kbroker.http.answers import Application
    from kbroker.http.broker_loop import BrokerLoop
    from kbroker.http.connection import Limits
    from kbroker.http.tls_line import MakeTls

_log = logging.getLogger(__name__)

_NEXT_PORTS = 100  # that are tried instead of one that is taken
_LAST_PORT = 65_535

MakeApplication = Callable[["BrokerLoop"], "Application"]
"""Makes the ASGI application; called on the HTTP thread."""


class HttpServer:
    """Sockets, and the thread that serves them. Owned by the broker's loop."""

    def __init__(
        self,
        end_points: Sequence[EndPoint],
        make_application: MakeApplication,
        *,
        may_move: bool = False,
        limits: Limits | None = None,
        setting: str = HTTP_LISTENERS,
        tls: MakeTls | None = None,
    ) -> None:
        """`may_move`: another free port is used if one is taken. `setting` has the addresses. `tls`
        is asked for each connection, on the HTTP thread; without it there is no TLS.
        """
        self._wanted = end_points
        self._make_application = make_application
        self._may_move = may_move
        self._limits = limits
        self._setting = setting
        self._tls = tls
        self._sockets: list[socket.socket] = []
        self._thread: _HttpThread | None = None
        self.end_points: tuple[EndPoint, ...] = ()  # with their real ports

    def start(self) -> None:
        """Listen, and wait for the first connection. Raises ConfigError."""
        bound = []
        try:
            for wanted in self._wanted:
                sock, end_point = self._listening(wanted)
                self._sockets.append(sock)
                bound.append(end_point)
        except ConfigError:
            self._close_sockets()
            raise
        self.end_points = tuple(bound)
        self._thread = _HttpThread(self._sockets, self._make_application, self._limits, self._tls)
        self._thread.start()

    async def stop(self) -> None:
        """Cut the connections, and return when thread and sockets are gone."""
        thread, self._thread = self._thread, None
        if thread is not None:
            await thread.stop()
        self._close_sockets()

    def _close_sockets(self) -> None:
        while self._sockets:
            self._sockets.pop().close()

    def _listening(self, wanted: EndPoint) -> tuple[socket.socket, EndPoint]:
        last = min(wanted.port + _NEXT_PORTS, _LAST_PORT) if self._may_move else wanted.port
        ports = [*range(wanted.port, last + 1), *([0] if self._may_move else [])]
        for port in ports:
            end_point = replace(wanted, port=port)
            try:
                sock = _listen(end_point)
            except OSError as error:
                if error.errno == errno.EADDRINUSE and port != ports[-1]:
                    continue
                raise refusal(end_point, error, self._setting) from error
            return sock, replace(wanted, port=sock.getsockname()[1])
        raise AssertionError("the last port is taken or refused")


class _HttpThread:
    """The thread of the web server. Made and stopped on the broker's loop."""

    def __init__(
        self,
        sockets: list[socket.socket],
        make_application: MakeApplication,
        limits: Limits | None,
        tls: MakeTls | None,
    ) -> None:
        self._sockets = sockets
        self._make_application = make_application
        self._limits = limits
        self._tls = tls
        self._broker_loop = asyncio.get_running_loop()
        self._gone = asyncio.Event()
        self._stop = threading.Event()  # says so to a thread that has no loop yet
        self._woken, self._waker = os.pipe()  # wakes it before the first connection
        self._set_end: Callable[[], object] = lambda: None
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)

    def start(self) -> None:
        """Serve from the first connection on, on the thread."""
        self._thread.start()

    async def stop(self) -> None:
        """Return when the thread has ended."""
        self._stop.set()
        os.write(self._waker, b"\0")
        self._set_end()
        await self._gone.wait()
        self._thread.join()  # it has nothing left to do
        os.close(self._woken)
        os.close(self._waker)

    def _run(self) -> None:
        try:
            self._wait_for_somebody()
            if not self._stop.is_set():
                # uvloop is the broker's; this loop shares the interpreter with it, and is as slow
                # as what runs on it.
                with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
                    runner.run(self._serve())
        except Exception:
            _log.exception("the HTTP address is given up until the next start")
        finally:
            for sock in self._sockets:
                sock.close()
            with suppress(RuntimeError):  # the broker's loop is closed
                self._broker_loop.call_soon_threadsafe(self._gone.set)

    def _wait_for_somebody(self) -> None:
        """Sleep until there is a connection, or this is to stop."""
        poll = select.poll()
        for descriptor in (self._woken, *(sock.fileno() for sock in self._sockets)):
            poll.register(descriptor, select.POLLIN)
        poll.poll()

    async def _serve(self) -> None:
        from kbroker.http.broker_loop import BrokerLoop
        from kbroker.http.connection import Limits
        from kbroker.http.serving import serve_until

        end = asyncio.Event()
        loop = asyncio.get_running_loop()

        def set_end() -> None:
            with suppress(RuntimeError):  # it has ended by itself
                loop.call_soon_threadsafe(end.set)

        self._set_end = set_end
        if self._stop.is_set():
            return
        application = self._make_application(BrokerLoop(self._broker_loop))
        try:
            limits = self._limits or Limits()
            await serve_until(end, self._sockets, application, limits, self._tls)
        finally:
            application.close()


def _listen(end_point: EndPoint) -> socket.socket:
    sock, address = opened(end_point)
    try:
        sock.bind(address)
        sock.listen(socket.SOMAXCONN)
    except OSError:
        sock.close()
        raise
    sock.setblocking(False)
    return sock
