"""A received request, and the pieces of its answer, as they pass between the network and the APIs.

A request keeps a view of the frame it came in: message bodies are decoded from it and record data
stays a view of it. The view is valid until the answer has been handed back.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from kbroker.model import new_tuple
from kbroker.protocol.header import RequestHeader


class FileSlice(Protocol):
    """Bytes of an open file that go to the socket without becoming a bytes object here."""

    position: int  # absolute byte position in the file

    def __len__(self) -> int: ...

    def fileno(self) -> int:
        """Descriptor of the open file, for use at once. OSError if the file is gone."""
        ...

    def read(self) -> bytes:
        """The bytes themselves, for those who need them in memory."""
        ...


Piece = bytes | bytearray | memoryview | FileSlice

OWN_SOFTWARE = "kbroker"  # what our commands and brokers call themselves (KIP-511)
NO_VERSION = "unknown"  # Kafka's word if nobody knows it

_NO_FRAME = memoryview(b"")


class ShortWay(Protocol):
    """Answers the requests that a connection repeats."""

    is_viewed: bool
    """Whether the request that was answered last is still looked at, as its answer is to come."""

    def answer(self, buffer: bytearray, start: int, end: int, /) -> Any:
        """The answer to the request in `buffer[start:end]`: a frame with its size, empty if there
        is nothing to send, or what the handler of requests gives; None for a request that is not
        known: nothing is done then. Raises ProtocolError.
        """
        ...


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class ConnectionInfo:
    """The client at the other end of a connection, and how it reached us."""

    connection_id: str  # "local:port-peer:port-index", as Kafka names connections
    listener_name: str
    security_protocol: str
    local_host: str
    local_port: int
    peer_host: str
    peer_port: int
    principal: str = "User:ANONYMOUS"
    has_token: bool = False  # it has logged in by a delegation token
    certificate: bytes | None = None  # of the client, in DER; the handshake has checked it
    client_id: str | None = None  # as it said when it asked for versions; others may follow
    client_software_name: str = "unknown"
    client_software_version: str = NO_VERSION
    is_forwarded: bool = False  # of a client that asked another broker
    number: int = 0  # rises with each connection of this process
    is_closed: bool = False
    when_closed: tuple[Callable[[], None], ...] = ()  # called in this order
    waits_for: FutureLike | None = None  # what the request in work waits for, and nobody else
    short_way: ShortWay | None = None

    def close(self) -> None:
        """Note that the client is gone, and end what waits for it."""
        self.is_closed = True
        if self.waits_for is not None:
            self.waits_for.cancel()
        for give_up in self.when_closed:
            give_up()


_SHOWN_CHARACTERS = 100  # of what clients call themselves, which is anything


def shown_client(connection: ConnectionInfo, client_id: str | None, address: str) -> str:
    """A client in a line of the log: its id, its address and its software, escaped and cut."""
    name = f"client {client_id[:_SHOWN_CHARACTERS]!r}" if client_id else "a client"
    software = connection.client_software_name
    if software == "unknown":
        return f"{name} at {address}"
    version = connection.client_software_version
    shown = software if version == NO_VERSION else f"{software} {version}"
    return f"{name} at {address} ({shown[:_SHOWN_CHARACTERS]})"


class Request(NamedTuple):
    """A frame whose header has been read. `body_offset` is the start of the message in `frame`;
    `size_bytes` is what was received, even after the frame has been let go.
    """

    header: RequestHeader
    frame: memoryview
    body_offset: int
    connection: ConnectionInfo
    size_bytes: int

    def without_frame(self) -> Request:
        """The same request without the received bytes: an answer that waits must not keep them."""
        request: Request = new_tuple(
            Request, (self.header, _NO_FRAME, self.body_offset, self.connection, self.size_bytes)
        )
        return request


class Response(NamedTuple):
    """The answer to a request, ready for the socket.

    The pieces hold header and body, without the size field.
    """

    pieces: list[Piece]
    throttle_ms: int = 0  # for so long the connection is muted afterwards (KIP-219)
    share: object = None  # of the memory for large requests: held until the answer has left


@dataclass(slots=True)
class NoResponse:
    """Nothing is sent (acks=0); `close` closes the connection, which is how an error shows."""

    close: bool = False
    throttle_ms: int = 0


class FutureLike(Protocol):
    """A future of the event loop."""

    def result(self) -> Any:
        """The value, once it is there."""
        ...

    def cancel(self) -> bool:
        """Give it up: nobody waits for it any more."""
        ...

    def cancelled(self) -> bool: ...

    def add_done_callback(self, callback: Callable[[Any], object], /) -> None:
        """Call `callback` with this when it is done."""
        ...

    def __await__(self) -> Generator[Any, None, Any]: ...


T = TypeVar("T")
R = TypeVar("R")


class Coming(Generic[T]):
    """The coming answer of a request, which needs no task: `finish()` makes it when `outcome` is
    done. Until then its connection begins no other request, and if that is gone, `outcome` is
    cancelled. The request's frame is not needed any more.
    """

    __slots__ = ("finish", "outcome")

    def __init__(self, outcome: FutureLike, finish: Callable[[], T]) -> None:
        self.outcome = outcome
        self.finish = finish

    def ended_by(self, finish: Callable[[], R]) -> Coming[R]:
        """The same request, whose answer is made in another way from now on."""
        changed: Coming[Any] = self
        changed.finish = finish
        return changed

    def __await__(self) -> Generator[Any, None, T]:
        yield from self.outcome.__await__()
        return self.finish()


class Accepted(Coming[T]):
    """The coming answer of a request that has been carried out: the next request of its connection
    may begin before it is answered.
    """

    __slots__ = ()
