"""The connection end of a request, for tests without connections: remembers what it was told."""

from __future__ import annotations

from kbroker.errors import ProtocolError
from kbroker.protocol.header import RequestHeader
from kbroker.protocol.request import ConnectionInfo, FutureLike, NoResponse, Request, Response


class RecordingReplier:
    """Keeps results and failures in the order they came."""

    def __init__(self) -> None:
        self.results: list[Response | NoResponse] = []
        self.failures: list[ProtocolError] = []
        self.is_closed = False

    def complete(self, result: Response | NoResponse) -> None:
        """The answer of a request."""
        self.results.append(result)

    def accept(self, outcome: FutureLike) -> RecordingReplier:
        """Its answer comes later."""
        return self

    def fail(self, error: ProtocolError) -> None:
        """The connection would be closed."""
        self.failures.append(error)


def local_connection() -> ConnectionInfo:
    """A connection from this machine to itself."""
    return ConnectionInfo(
        connection_id="127.0.0.1:9092-127.0.0.1:50000-0",
        listener_name="PLAINTEXT",
        security_protocol="PLAINTEXT",
        local_host="127.0.0.1",
        local_port=9092,
        peer_host="127.0.0.1",
        peer_port=50000,
    )


def request_of(key: int, version: int, body: bytes, *, correlation_id: int = 7) -> Request:
    """A request whose frame is its body alone."""
    header = RequestHeader(key, version, correlation_id, "test")
    return Request(header, memoryview(bytearray(body)), 0, local_connection(), len(body))
