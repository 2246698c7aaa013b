"""One HTTP connection, within limits: uvicorn's protocol has none for a client that sends its
request by drops, or takes its answer by drops.

Law: a connection whose client has made no progress for two looks has ended, and no more than
`Limits.connections` are open: beyond these, one that has rested for a while makes room for a new
one, so that a crowd that asks nothing keeps nobody out. Answers that slow clients have not taken
yet are no more than `Limits.waiting_bytes` for longer than two looks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

_WHOLE: Final = (h11.DONE, h11.MUST_CLOSE, h11.CLOSED, h11.SWITCHED_PROTOCOL)
_FULL: Final = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The bounds of one address; the broker's own connections need the rest of the descriptors."""

    connections: int = 256
    look_s: float = 10.0  # between two looks at whether a client makes progress
    keep_alive_s: int = 5  # that a connection may rest between two requests
    head_bytes: int = 16 * 1024  # of a request line with its headers
    rest_s: float = 1.0  # after which a connection without a request makes room, if it has to
    waiting_bytes: int = 64 * 1024 * 1024  # of the answers of all connections


Resting: TypeAlias = "dict[BoundedConnection, float]"
"""The connections of one address without a request, those that rest for longest first, and since
when, by the loop's clock; some may have been asked since."""


class BoundedConnection(H11Protocol):
    """The protocol of one connection. Owned by the loop of the HTTP thread."""

    def __init__(
        self, config: Config, state: ServerState, limits: Limits, resting: Resting
    ) -> None:
        super().__init__(config=config, server_state=state, app_state={})
        self._limits = limits
        self._resting = resting
        self._looking: asyncio.TimerHandle | None = None
        self._seen: tuple[object, ...] = ()
        self._waited_bytes = 0  # that were to be taken at the last look
        self._drained = 0  # how often the client has taken enough for more

    def connection_made(self, transport: Any) -> None:
        """Refuse the connection if there are too many, or look after it from now on."""
        super().connection_made(transport)
        if len(self.connections) > self._limits.connections and not self._makes_room():
            transport.write(_FULL)
            transport.close()
            return
        self._resting[self] = self.loop.time()
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop looking after it."""
        self._resting.pop(self, None)
        if self._looking is not None:
            self._looking.cancel()
        super().connection_lost(exc)

    def resume_writing(self) -> None:
        """Note that the client has taken some of its answer."""
        self._drained += 1
        super().resume_writing()

    def on_response_complete(self) -> None:
        """Note that the connection rests from now on."""
        self._resting.pop(self, None)
        self._resting[self] = self.loop.time()
        super().on_response_complete()

    @property
    def is_asked(self) -> bool:
        """Whether there is a request without a whole answer."""
        return self.cycle is not None and not self.cycle.response_complete

    def _makes_room(self) -> bool:
        """End the connection that rests for longest, if it has for a while."""
        while self._resting:
            longest, since_s = next(iter(self._resting.items()))
            if longest.is_asked:  # it comes back with its answer
                del self._resting[longest]
                continue
            if self.loop.time() - since_s < self._limits.rest_s:
                return False
            del self._resting[longest]
            longest.transport.abort()
            return True
        return False

    def _all(self) -> Iterator[BoundedConnection]:
        return (each for each in self.connections if isinstance(each, BoundedConnection))

    def _is_too_much(self) -> bool:
        """Whether the answers that wait for clients take up too much together."""
        sizes: Iterator[int] = (each.transport.get_write_buffer_size() for each in self._all())
        return sum(sizes) > self._limits.waiting_bytes

    def _look(self) -> None:
        waiting_bytes = self.transport.get_write_buffer_size()
        is_whole = self.conn.their_state in _WHOLE
        seen = (self.cycle, is_whole, waiting_bytes, self._drained)
        is_client_awaited = not is_whole or waiting_bytes > 0
        is_slow = waiting_bytes > 0 and self._waited_bytes > 0
        if (is_client_awaited and seen == self._seen) or (is_slow and self._is_too_much()):
            self.transport.abort()
            return
        self._seen, self._waited_bytes = seen, waiting_bytes
        self._looking = self.loop.call_later(self._limits.look_s, self._look)
