"""BrokerClient: one connection from this broker to another one, for its controller's requests and
for what it asks the controller itself.

Law: one request is in flight, in the order of `send` calls. What goes wrong once, be it a cut, a
time-out, an answer to something else, or bytes that are none, ends the connection: the next request
opens another one, and no answer is ever taken for that of a request before. A request whose answer
did not come may have been carried out; whether it is sent again is for the caller to say.

Versions are settled by ApiVersions when the connection opens (KIP-35, KIP-511): the highest that
both sides know, so that Apache Kafka's brokers are spoken to as well.

Owned by the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from kbroker.errors import ErrorCode, KafkaError, ProtocolError
from kbroker.model import EndPoint
from kbroker.protocol.codec import decode, encode
from kbroker.protocol.frame import SIZE, next_frame
from kbroker.protocol.header import (
    API_VERSIONS_KEY,
    RequestHeader,
    decode_response_header,
    encode_request_header,
)
from kbroker.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kbroker.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from kbroker.protocol.messages.stop_replica import StopReplicaRequest
from kbroker.protocol.messages.update_metadata import UpdateMetadataRequest
from kbroker.protocol.schema import Message, Versions, response_class

ANSWER_BYTES_MAX = 100 * 1024 * 1024
_SOFTWARE_NAME = "kbroker"
_SOFTWARE_VERSION = "unknown"  # as Kafka says where nobody knows it
_ASKED_VERSION = 3  # of ApiVersions: what brokers since Kafka 2.4 know; older ones answer with 35
_LOWEST_VERSIONS: dict[type[Message], int] = {
    # What a controller says has its partitions under topics; before, it would say nothing.
    LeaderAndIsrRequest: 2,
    UpdateMetadataRequest: 5,
    StopReplicaRequest: 3,
}

Connect = Callable[[str, int], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


class BrokerClient:
    """Connects on the first `send`, and again on the first one after a failure."""

    def __init__(
        self,
        end_point: EndPoint,
        client_id: str,
        timeout_ms: float,
        connect: Connect = asyncio.open_connection,
    ) -> None:
        """`client_id` is this broker's id as text, as Kafka's brokers call themselves; `timeout_ms`
        bounds a `send` from its call on.
        """
        self.end_point = end_point
        self._client_id = client_id
        self._timeout_ms = timeout_ms
        self._connect = connect
        self._connection: _Connection | None = None
        self._turn = asyncio.Lock()  # first come, first served

    async def send(
        self,
        request: Message,
        *,
        timeout_ms: float | None = None,
        highest_version: int | None = None,
    ) -> Any:
        """Send a request and return its answer, a message of the response's class.

        Raises OSError or TimeoutError when there was no answer, KafkaError UNSUPPORTED_VERSION when
        the other broker knows no version of the request that we know.
        """
        async with self._turn_of(type(request).__name__, timeout_ms):
            connection = await self._connected()
            version = self._choose(request, connection.served, highest_version)
            return await connection.ask(request, version)

    async def serves(self, key: int, version: int, *, timeout_ms: float | None = None) -> bool:
        """True when the other broker lists that version of an API. Raises as `send`."""
        async with self._turn_of("ApiVersionsRequest", timeout_ms):
            connection = await self._connected()
            return version in connection.served.get(key, Versions(0, -1))

    def close(self) -> None:
        """Close the connection; a request in flight fails, a later one opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @property
    def _peer(self) -> str:
        return f"the broker at {self.end_point.host}:{self.end_point.port}"

    @asynccontextmanager
    async def _turn_of(self, what: str, timeout_ms: float | None) -> AsyncIterator[None]:
        """One use of the connection; it ends with anything that goes wrong but a refusal."""
        limit_ms = self._timeout_ms if timeout_ms is None else timeout_ms
        try:
            async with asyncio.timeout(max(limit_ms, 0) / 1000), self._turn:
                try:
                    yield
                except KafkaError:
                    raise  # nothing was sent
                except BaseException:
                    self.close()  # an answer that comes later must not be taken for another
                    raise
        except TimeoutError as error:
            raise TimeoutError(
                f"{self._peer} gave no answer to {what} within {limit_ms / 1000:g} s"
            ) from error
        except (EOFError, ProtocolError) as error:
            reason = "closed the connection" if isinstance(error, EOFError) else f"sent {error}"
            raise ConnectionResetError(
                f"{self._peer} {reason} instead of an answer to {what}"
            ) from error

    async def _connected(self) -> _Connection:
        if self._connection is not None and not self._connection.is_open:
            self.close()
        if self._connection is None:
            reader, writer = await self._connect(self.end_point.host, self.end_point.port)
            self._connection = _Connection(reader, writer, self._client_id)
            await self._connection.negotiate()
        return self._connection

    def _choose(
        self, request: Message, served: dict[int, Versions], highest_version: int | None
    ) -> int:
        key, known = request.spec.key, request.spec.versions
        assert key is not None, "only requests are sent"
        theirs = served.get(key, Versions(0, -1))
        highest = min(known.highest, theirs.highest)
        if highest_version is not None:
            highest = min(highest, highest_version)
        lowest = max(theirs.lowest, _LOWEST_VERSIONS.get(type(request), known.lowest))
        if highest < lowest:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"{self._peer} knows {request.spec.name} in versions {theirs}, needed is "
                f"{lowest} to {highest_version or known.highest}",
            )
        return highest


class _Connection:
    """A connection that is open, and what the other side serves."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, client_id: str
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._client_id = client_id
        self._correlation_id = 0
        self.served: dict[int, Versions] = {}

    @property
    def is_open(self) -> bool:
        """False when the other side has closed it: after connections.max.idle.ms, say."""
        return not (self._reader.at_eof() or self._writer.is_closing())

    def close(self) -> None:
        """Close it at once."""
        self._writer.transport.abort()

    async def negotiate(self) -> None:
        """Learn what the other side serves."""
        ask = ApiVersionsRequest(
            client_software_name=_SOFTWARE_NAME, client_software_version=_SOFTWARE_VERSION
        )
        version = _ASKED_VERSION
        body, offset = await self._exchange(ask, version)
        if _error_code(body, offset) == ErrorCode.UNSUPPORTED_VERSION:
            # Said in the form of version 0, which everybody can read; with the range of this key.
            refusal, _ = decode(ApiVersionsResponse, 0, body, offset)
            own = next((k for k in refusal.api_keys if k.api_key == API_VERSIONS_KEY), None)
            version = min(version, own.max_version) if own else 0
            body, offset = await self._exchange(ask, version)
        answer, _ = decode(ApiVersionsResponse, version, body, offset)
        if answer.error_code != ErrorCode.NONE:
            raise ProtocolError(f"error {answer.error_code}")
        self.served = {
            entry.api_key: Versions(entry.min_version, entry.max_version)
            for entry in answer.api_keys
        }

    async def ask(self, request: Message, version: int) -> Message:
        """Send a request in a version that both sides know."""
        body, offset = await self._exchange(request, version)
        return decode(response_class(type(request)), version, body, offset)[0]

    async def _exchange(self, request: Message, version: int) -> tuple[memoryview, int]:
        """One request and the frame that answers it, with the offset of its message."""
        key = request.spec.key
        assert key is not None
        correlation_id = self._correlation_id
        self._correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        head = encode_request_header(RequestHeader(key, version, correlation_id, self._client_id))
        frame = encode(request, version, head)
        self._writer.write(SIZE.pack(len(frame)) + frame)
        await self._writer.drain()
        size_field = await self._reader.readexactly(SIZE.size)
        next_frame(size_field, 0, SIZE.size, ANSWER_BYTES_MAX)  # raises for a size that is none
        body = memoryview(await self._reader.readexactly(SIZE.unpack(size_field)[0]))
        answered, offset = decode_response_header(body, key, version)
        if answered != correlation_id:
            raise ProtocolError(f"an answer to request {answered}, not {correlation_id}")
        return body, offset


def _error_code(body: memoryview, offset: int) -> int:
    """The error code of an ApiVersions answer: first in every version."""
    if len(body) - offset < 2:
        raise ProtocolError("an answer without an error code")
    return int.from_bytes(body[offset : offset + 2], "big", signed=True)
