"""The parts of kazoo's client that are replaced: its threads, its way to servers, its table of
watches, its log, and the connection, which speaks up before its login is done.
"""

from __future__ import annotations

import logging
import select
import threading
from collections.abc import Callable
from socket import socket
from ssl import SSLSocket
from typing import Any

from kazoo.exceptions import AuthFailedError
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.serialization import SASL

from kbroker.zk.ensemble.tls_connector import TlsConnector

_SASL_MESSAGES = 8  # of one login; DIGEST-MD5 takes three
_NOT_A_REASON = {"Transition to CONNECTING", "Session has expired"}


class LoggingIn(ConnectionHandler):  # type: ignore[misc]
    """kazoo's connection, which says when its login is done: kazoo speaks up before."""

    def _connect(self, host: str, hostip: str, port: int) -> tuple[float, float]:
        timeouts: tuple[float, float] = super()._connect(host, hostip, port)
        self.client.on_logged_in()
        return timeouts

    def _submit(self, request: Any, timeout: float, xid: int | None = None) -> None:
        # A server that knows no SASL answers nothing to nothing, for ever.
        if isinstance(request, SASL) and xid is not None and xid > _SASL_MESSAGES:
            raise AuthFailedError("the server takes no login by SASL")
        super()._submit(request, timeout, xid)


class AnyWatcher:
    """Stands in for kazoo's table of watches: it has the same watcher for every path."""

    def __init__(self, watcher: Callable[[Any], None]) -> None:
        self._watchers = (watcher,)

    def pop(self, _path: str, _default: object) -> tuple[Callable[[Any], None], ...]:
        return self._watchers

    def __getitem__(self, _path: str) -> AnyWatcher:
        return self

    def add(self, watcher: object) -> None:
        """Nothing needs to be remembered."""


class KazooThreads(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's threads: only the connection's own, which runs callbacks itself."""

    def __init__(
        self,
        timeout_s: float,
        thread_ended: Callable[[BaseException | None], None],
        tls: TlsConnector | None,
    ) -> None:
        super().__init__()
        self.hosts = 1
        self._tls = tls
        self._timeout_s = timeout_s
        self._thread_ended = thread_ended

    def start(self) -> None:
        self._running = True

    def stop(self) -> None:
        self._running = False

    def dispatch_callback(self, callback: Any) -> None:
        callback.func(*callback.args)

    def select(
        self, readers: list[Any], writers: list[Any], _other: list[Any], timeout_s: float | None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        # kazoo makes a selector, which is a file, for each of the four calls per request.
        poll = select.poll()
        for reader in readers:
            poll.register(reader, select.POLLIN)
        for writer in writers:
            poll.register(writer, select.POLLOUT)
        # What TLS has decrypted already, poll does not see.
        held = {r.fileno() for r in readers if isinstance(r, SSLSocket) and r.pending()}
        timeout_s = 0 if held else timeout_s
        ready = held | {fd for fd, _ in poll.poll(None if timeout_s is None else timeout_s * 1000)}
        return (
            [reader for reader in readers if reader.fileno() in ready],
            [writer for writer in writers if writer.fileno() in ready],
            [],
        )

    def create_connection(
        self, address: tuple[str, int], hostname: str, **_its_own_tls: Any
    ) -> socket:
        # A host that does not answer may not use up the time of the session alone.
        timeout_s = self._timeout_s / self.hosts
        if self._tls is not None:
            return self._tls.connect(address, hostname, timeout_s)
        plain: socket = super().create_connection(address, timeout=timeout_s)
        return plain

    def spawn(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> threading.Thread:
        def run() -> None:
            ended: BaseException | None = None
            try:
                func(*args, **kwargs)
            except Exception as error:
                ended = error  # reported below; kazoo ends its loop with errors of all kinds
            self._thread_ended(ended)

        thread = threading.Thread(target=run, name="kazoo", daemon=True)
        thread.start()
        return thread


class LastWarning(logging.Logger):
    """kazoo's log, kept to its last sentence: the reason why there is no connection."""

    def __init__(self) -> None:
        super().__init__("kazoo", logging.WARNING)
        self.last = ""

    def handle(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if message not in _NOT_A_REASON:
            self.last = message
