"""One HTTP connection, within limits, of which h11 reads and writes the bytes.

Law: requests of a connection are answered one by one, in order, and the next one is read when the
last is answered. A connection whose client has made no progress for two looks has ended, and no
more than `Limits.connections` are open: beyond these, one that has rested for a while makes room
for a new one, so that a crowd that asks nothing, or sends no whole request, keeps nobody out.
Answers that slow clients have not taken yet are no more than `Limits.waiting_bytes` for longer than
two looks.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Any, Final

import h11

from kbroker.http.answers import Application
from kbroker.http.exchange import Exchange
from kbroker.ip_addresses import unmapped

_log = logging.getLogger(__name__)

_WHOLE: Final = (h11.DONE, h11.MUST_CLOSE, h11.CLOSED, h11.SWITCHED_PROTOCOL)
_UNANSWERED: Final = (h11.IDLE, h11.SEND_RESPONSE)
_FULL: Final = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The bounds of one address; the broker's own connections need the rest of the descriptors."""

    connections: int = 256
    look_s: float = 10.0  # between two looks at whether a client makes progress
    keep_alive_s: int = 5  # that a connection may rest between two requests
    head_bytes: int = 16 * 1024  # of a request line with its headers
    rest_s: float = 1.0  # after which one without a whole request makes room, if it has to
    waiting_bytes: int = 64 * 1024 * 1024  # of the answers of all connections


@dataclass(slots=True, eq=False, repr=False)
class Shared:
    """The application and the limits of one address, and all that is open there."""

    application: Application
    limits: Limits
    scheme: str = "http"
    connections: set[HttpConnection] = field(default_factory=set)
    answering: set[asyncio.Task[None]] = field(default_factory=set)
    # The connections without a whole request, those that rest for longest first, and since when,
    # by the loop's clock; some may have been asked since.
    resting: dict[HttpConnection, float] = field(default_factory=dict)


class HttpConnection(asyncio.Protocol):
    """The broker's end of one connection. Owned by the loop of the HTTP thread."""

    transport: asyncio.Transport

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._limits = shared.limits
        self._loop = asyncio.get_running_loop()
        self._parser = h11.Connection(h11.SERVER, shared.limits.head_bytes)
        self._exchange: Exchange | None = None
        self._looking: asyncio.TimerHandle | None = None
        self._closing: asyncio.TimerHandle | None = None  # as nothing is asked
        self._writable = asyncio.Event()
        self._writable.set()
        self._seen: tuple[object, ...] = ()
        self._waited_bytes = 0  # that were to be taken at the last look
        self._drained = 0  # how often the client has taken enough for more

    @property
    def scheme(self) -> str:
        return self._shared.scheme

    @property
    def client(self) -> tuple[str, int]:
        host, port, *_ = self.transport.get_extra_info("peername") or ("", 0)  # if it has gone
        return unmapped(host), port

    @property
    def is_asked(self) -> bool:
        """Whether there is a whole request without a whole answer."""
        is_unanswered = self._exchange is not None and not self._exchange.is_answered
        return is_unanswered and self._parser.their_state in _WHOLE

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Refuse the connection if there are too many, or look after it from now on."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._shared.connections.add(self)
        if len(self._shared.connections) > self._limits.connections and not self._makes_room():
            transport.write(_FULL)
            transport.close()
            return
        self._shared.resting[self] = self._loop.time()
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  asyncio's signature
        """Stop looking after it, and tell who answers."""
        self._shared.connections.discard(self)
        self._shared.resting.pop(self, None)
        if self._looking is not None:
            self._looking.cancel()
        self._expect_nothing()
        if self._exchange is not None:
            self._exchange.leave()
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        """Read what has come of requests; nothing follows one that was to be the last."""
        self._expect_nothing()
        if self._parser.their_state is not h11.MUST_CLOSE:
            self._parser.receive_data(data)
            self._go_on()

    def pause_writing(self) -> None:
        """Let the application wait for the client."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Note that the client has taken some of its answer."""
        self._drained += 1
        self._writable.set()

    # What a request uses.

    async def until_writable(self) -> None:
        await self._writable.wait()

    def write(self, *events: Any) -> None:
        for event in events:
            self.transport.write(self._parser.send(event))

    def read_on(self) -> None:
        self.transport.resume_reading()

    def stop_reading(self) -> None:
        self.transport.pause_reading()

    def answered(self) -> None:
        self._shared.resting.pop(self, None)
        self._shared.resting[self] = self._loop.time()
        if self._parser.our_state is h11.MUST_CLOSE:
            self.transport.close()
        if self.transport.is_closing():
            return
        self._closing = self._loop.call_later(self._limits.keep_alive_s, self.transport.close)
        self.read_on()
        self._begin_anew()

    # Requests.

    def _go_on(self) -> None:
        """Take what is there of the present request, and begin with the next one."""
        while True:
            try:
                event = self._parser.next_event()
            except h11.RemoteProtocolError:  # strangers' bytes are no news
                self._refuse(400)
                return
            if event is h11.PAUSED:  # the next request waits for the present answer
                self.stop_reading()
                return
            if isinstance(event, h11.Request):
                self._begin(event)
            elif isinstance(event, h11.Data) and self._exchange is not None:
                self._exchange.take(event.data)
            elif isinstance(event, h11.EndOfMessage) and self._exchange is not None:
                self._exchange.take_end()
                if self._exchange.is_answered:
                    self._begin_anew()
                    return
                if self._parser.their_state is h11.MUST_CLOSE:
                    return
            else:
                return

    def _begin(self, head: Any) -> None:
        self._expect_nothing()
        expects_word = self._parser.they_are_waiting_for_100_continue
        self._exchange = exchange = Exchange(self, head, expects_word=expects_word)
        task = self._loop.create_task(self._answer(exchange), name="http-request")
        self._shared.answering.add(task)
        task.add_done_callback(self._shared.answering.discard)

    def _begin_anew(self) -> None:
        """Begin with the next request, if both have said all about the last."""
        if self._parser.our_state is h11.DONE and self._parser.their_state is h11.DONE:
            self._parser.start_next_cycle()
            self._go_on()

    async def _answer(self, exchange: Exchange) -> None:
        try:
            await self._shared.application(exchange.scope, exchange.receive, exchange.send)
        except Exception:
            _log.exception("the answer to %s ends early", ascii(exchange.scope["path"]))
        finally:  # also when it was given up
            if not exchange.is_answered:
                self._refuse(500)

    def _refuse(self, status: int) -> None:
        """End the connection, with this status if no other answer has begun."""
        if self._parser.our_state in _UNANSWERED and not self.transport.is_closing():
            headers = [(b"connection", b"close"), (b"content-length", b"0")]
            self.write(h11.Response(status_code=status, headers=headers), h11.EndOfMessage())
        self.transport.close()
        if self._exchange is not None:
            self._exchange.leave()

    # Limits.

    def _expect_nothing(self) -> None:
        """The connection need not end as nothing is asked."""
        if self._closing is not None:
            self._closing.cancel()
            self._closing = None

    def _makes_room(self) -> bool:
        """End the connection that rests for longest, if it has for a while."""
        resting = self._shared.resting
        while resting:
            longest, since_s = next(iter(resting.items()))
            if longest.is_asked:  # it comes back with its answer
                del resting[longest]
                continue
            if self._loop.time() - since_s < self._limits.rest_s:
                return False
            del resting[longest]
            longest.transport.abort()
            return True
        return False

    def _is_too_much(self) -> bool:
        """Whether the answers that wait for clients take up too much together."""
        sizes = (each.transport.get_write_buffer_size() for each in self._shared.connections)
        return sum(sizes) > self._limits.waiting_bytes

    def _look(self) -> None:
        waiting_bytes = self.transport.get_write_buffer_size()
        is_whole = self._parser.their_state in _WHOLE
        seen = (self._exchange, is_whole, waiting_bytes, self._drained)
        is_client_awaited = not is_whole or waiting_bytes > 0
        is_slow = waiting_bytes > 0 and self._waited_bytes > 0
        if (is_client_awaited and seen == self._seen) or (is_slow and self._is_too_much()):
            self.transport.abort()
            return
        self._seen, self._waited_bytes = seen, waiting_bytes
        self._looking = self._loop.call_later(self._limits.look_s, self._look)
