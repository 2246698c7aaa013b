"""A TCP proxy that does to connections what networks do: cut, hold, lose one direction, be slow.

with TcpProxy("127.0.0.1", 2181) as proxy:
    proxy.address                   # what the client is given
    proxy.cut()                     # all connections break, new ones are taken
    proxy.refuse()                  # and new ones are refused, until accept()
    proxy.hold(TO_CLIENT)           # nothing passes that way, until release()
    proxy.swallow(TO_CLIENT)        # what comes that way is lost; cut() ends it for new ones
    proxy.delay_ms = 200            # for every piece, each way
"""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import Self

TO_SERVER = "to-server"
TO_CLIENT = "to-client"


class TcpProxy:
    """Passes connections on to one server. Threads of its own; may be steered from any thread."""

    def __init__(self, host: str, port: int) -> None:
        self.delay_ms = 0
        self.bytes_passed = {TO_SERVER: 0, TO_CLIENT: 0}
        self.bytes_swallowed = {TO_SERVER: 0, TO_CLIENT: 0}
        self._target = (host, port)
        self._changed = threading.Condition()
        self._held: set[str] = set()
        self._swallowed: set[str] = set()
        self._refuses = False
        self._closed = False
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def connections(self) -> int:
        """How many are open."""
        with self._changed:
            return len(self._pairs)

    def cut(self) -> None:
        """Break all connections; what was held or swallowed is lost, new ones pass."""
        with self._changed:
            pairs, self._pairs = self._pairs, []
            self._held.clear()
            self._swallowed.clear()
            self._changed.notify_all()
        for pair in pairs:
            _close(*pair)

    def refuse(self) -> None:
        """Break all connections and take no new ones."""
        with self._changed:
            self._refuses = True
        self.cut()

    def accept(self) -> None:
        """Take connections again."""
        with self._changed:
            self._refuses = False

    def heal(self) -> None:
        """End all faults; connections break only if they have lost something."""
        self.delay_ms = 0
        self.accept()
        self.release()
        if self._swallowed:
            self.cut()

    def hold(self, *directions: str) -> None:
        """Keep back what comes from now on (default: both ways); connections stay open."""
        with self._changed:
            self._held.update(directions or (TO_SERVER, TO_CLIENT))

    def release(self) -> None:
        """Pass on what was held back."""
        with self._changed:
            self._held.clear()
            self._changed.notify_all()

    def swallow(self, direction: str) -> None:
        """Lose what comes this way on the open connections and on new ones, until `cut`."""
        with self._changed:
            self._swallowed.add(direction)

    def wait_swallowed(self, direction: str, timeout_s: float = 10) -> None:
        """Return when something has been lost since `swallow`; raises TimeoutError."""
        with self._changed:
            start = self.bytes_swallowed[direction]
            if not self._changed.wait_for(
                lambda: self.bytes_swallowed[direction] > start, timeout_s
            ):
                raise TimeoutError(f"nothing came {direction} in {timeout_s} s")

    def close(self) -> None:
        """End it with all connections."""
        with self._changed:
            self._closed = True
        self.refuse()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _accept(self) -> None:
        while not self._closed:
            try:
                client = self._listener.accept()[0]
            except OSError:
                return
            self._connect(client)

    def _connect(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(self._target, timeout=5)
        except OSError:
            _close(client)
            return
        server.settimeout(None)
        for end in (client, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        pair = (client, server)
        with self._changed:
            refused = self._refuses
            if not refused:
                self._pairs.append(pair)
        if refused:
            _close(*pair)
            return
        for source, sink, direction in (
            (client, server, TO_SERVER),
            (server, client, TO_CLIENT),
        ):
            threading.Thread(
                target=self._pass, args=(pair, source, sink, direction), daemon=True
            ).start()

    def _pass(
        self,
        pair: tuple[socket.socket, socket.socket],
        source: socket.socket,
        sink: socket.socket,
        direction: str,
    ) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if self.delay_ms:
                    time.sleep(self.delay_ms / 1000)
                if self._may_pass(pair, direction, len(data)):
                    sink.sendall(data)
        with self._changed:
            if pair in self._pairs:
                self._pairs.remove(pair)
        _close(*pair)

    def _may_pass(
        self, pair: tuple[socket.socket, socket.socket], direction: str, size_bytes: int
    ) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: direction not in self._held or pair not in self._pairs)
            lost = direction in self._swallowed or pair not in self._pairs
            counted = self.bytes_swallowed if lost else self.bytes_passed
            counted[direction] += size_bytes
            self._changed.notify_all()
            return not lost


def _close(*ends: socket.socket) -> None:
    for end in ends:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()
