"""What travels between the network and the APIs: a received request, and the pieces of its answer.

A request keeps a view of the frame it came in: message bodies are decoded from it and record data
stays a view of it. The view is valid until the answer has been handed back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from kbroker.protocol.header import RequestHeader


class FileSlice(Protocol):
    """Bytes of an open file that go to the socket without becoming a bytes object here."""

    position: int  # absolute byte position in the file

    def __len__(self) -> int:
        """Size in bytes."""
        ...

    def fileno(self) -> int:
        """Descriptor of the open file, for use at once. OSError where the file is gone."""
        ...

    def read(self) -> bytes:
        """The bytes themselves, for those who need them in memory."""
        ...


Piece = bytes | bytearray | memoryview | FileSlice


@dataclass(slots=True, kw_only=True)
class ConnectionInfo:
    """Who is on the other end, and how it reached us."""

    connection_id: str  # "local:port-peer:port-index", as Kafka names connections
    listener_name: str
    security_protocol: str
    local_host: str
    local_port: int
    peer_host: str
    peer_port: int
    principal: str = "User:ANONYMOUS"
    client_software_name: str = "unknown"
    client_software_version: str = "unknown"
    is_forwarded: bool = False  # of a client that asked another broker


class Request(NamedTuple):
    """A frame whose header has been read; `body_offset` is where the message starts in `frame`."""

    header: RequestHeader
    frame: memoryview
    body_offset: int
    connection: ConnectionInfo


class Response(NamedTuple):
    """The answer to a request, ready for the socket.

    The pieces hold header and body, without the size field.
    """

    pieces: list[Piece]
    throttle_ms: int = 0  # for so long the connection is muted afterwards (KIP-219)


@dataclass(slots=True)
class NoResponse:
    """Nothing is sent (acks=0); `close` closes the connection, which is how an error shows."""

    close: bool = False
    throttle_ms: int = 0
