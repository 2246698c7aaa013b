"""BrokerConnection: one open connection to another broker, with several requests in flight.

Law: answers come in the order of requests, each to the oldest request that has none. Anything else,
be it an answer to something else, a size out of bounds or the end, ends the connection, and every
request in flight fails with it. Nothing is taken for an answer after that.

A BufferedProtocol: small answers are collected in one buffer and copied out of it; a large one is
received into the memory that it is read from (`large_answer`).

Owned by the event loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from math import inf
from typing import NamedTuple, cast

from kbroker.errors import ErrorCode, ProtocolError
from kbroker.peers.large_answer import LargeAnswer
from kbroker.protocol.codec import decode, encode
from kbroker.protocol.frame import SIZE, frame_size, next_frame
from kbroker.protocol.header import (
    API_VERSIONS_KEY,
    RequestHeader,
    decode_response_header,
    encode_request_header,
)
from kbroker.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kbroker.protocol.request import NO_VERSION, OWN_SOFTWARE
from kbroker.protocol.schema import Message, Versions

ANSWER_BYTES_MAX = 100 * 1024 * 1024
_SMALL_BYTES = 32 * 1024  # of the buffer that all answers begin in
_EARLY_S = 0.001  # by which the loop may be before a time that is set
_ASKED_VERSION = 3  # of ApiVersions: known to brokers since Kafka 2.4; older ones answer with 35

Answer = tuple[memoryview, int]
"""The frame of an answer, and the position of its message in it."""


class _Asked(NamedTuple):
    """A request in flight."""

    correlation_id: int
    key: int
    version: int
    answered: asyncio.Future[Answer]  # cancelled when nobody waits for the answer any more
    deadline_s: float  # of the answer, in the loop's time


class BrokerConnection(asyncio.BufferedProtocol):
    """A connection that `negotiate` has made ready until `is_open` is False."""

    __slots__ = (
        "_alarm",
        "_alarm_s",
        "_changed",
        "_client_id",
        "_correlation_id",
        "_end",
        "_in_flight",
        "_in_flight_max",
        "_is_writable",
        "_large",
        "_loop",
        "_small",
        "_transport",
        "ended_s",
        "is_open",
        "renew_s",
        "served",
    )

    def __init__(self, client_id: str, in_flight_max: int) -> None:
        self._client_id = client_id
        self._in_flight_max = in_flight_max
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._in_flight: deque[_Asked] = deque()
        self._alarm: asyncio.TimerHandle | None = None  # one for all requests in flight
        self._alarm_s = inf  # when it rings
        self._correlation_id = 0
        self._is_writable = True
        self._changed: asyncio.Future[None] | None = None
        self._small = bytearray(_SMALL_BYTES)
        self._end = 0  # of the bytes received into `_small`
        self._large = LargeAnswer()
        self.is_open = True
        self.ended_s = 0.0  # when, in the loop's time
        self.renew_s: float | None = None  # when to log in again, in the loop's time; None: never
        self.served: dict[int, Versions] = {}

    # For the client.

    @property
    def has_room(self) -> bool:
        """False while the other side has enough to answer, or does not read."""
        return self._is_writable and len(self._in_flight) < self._in_flight_max

    async def wait_for_change(self) -> None:
        """Return when there may be room, or the connection has ended. For one waiter at a time."""
        self._changed = self._loop.create_future()
        await self._changed

    def ask(
        self, request: Message, version: int, deadline_s: float = inf
    ) -> asyncio.Future[Answer]:
        """Send a request: there is room. The answer fails with what ends the connection, or with
        TimeoutError at the deadline, in the loop's time.
        """
        key = request.spec.key
        assert key is not None, "only requests are sent"
        assert self._transport is not None, "it has been made"
        correlation_id = self._correlation_id
        self._correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        head = encode_request_header(RequestHeader(key, version, correlation_id, self._client_id))
        frame = encode(request, version, head)
        answered: asyncio.Future[Answer] = self._loop.create_future()
        self._in_flight.append(_Asked(correlation_id, key, version, answered, deadline_s))
        if deadline_s < self._alarm_s:
            self._set_alarm(deadline_s)
        self._transport.write(SIZE.pack(len(frame)) + frame)
        return answered

    async def negotiate(self) -> None:
        """Learn what the other side serves. Raises the connection's error, or ProtocolError."""
        ask = ApiVersionsRequest(
            client_software_name=OWN_SOFTWARE, client_software_version=NO_VERSION
        )
        version = _ASKED_VERSION
        body, offset = await self.ask(ask, version)
        if _error_code(body, offset) == ErrorCode.UNSUPPORTED_VERSION:
            # Said in the form of version 0, which everybody can read; with the range of this key.
            refusal, _ = decode(ApiVersionsResponse, 0, body, offset)
            own = next((k for k in refusal.api_keys if k.api_key == API_VERSIONS_KEY), None)
            version = min(version, own.max_version) if own else 0
            body, offset = await self.ask(ask, version)
        answer, _ = decode(ApiVersionsResponse, version, body, offset)
        if answer.error_code != ErrorCode.NONE:
            raise ProtocolError(f"error {answer.error_code}")
        self.served = {
            entry.api_key: Versions(entry.min_version, entry.max_version)
            for entry in answer.api_keys
        }

    def give_up(self) -> None:
        """Somebody has cancelled an answer: it is ignored when it comes. If nobody waits for
        another one, the connection ends.
        """
        if all(asked.answered.done() for asked in self._in_flight):
            self.end(EOFError())

    def end(self, error: Exception) -> None:
        """Close the connection at once; all requests in flight fail with `error`."""
        if not self.is_open:
            return
        self.is_open = False
        self.ended_s = self._loop.time()
        self._large.drop()
        if self._alarm is not None:
            self._alarm.cancel()
        if self._transport is not None:
            self._transport.abort()
        while self._in_flight:
            answered = self._in_flight.popleft().answered
            if not answered.done():
                answered.set_exception(error)
        self._tell_change()

    def _set_alarm(self, at_s: float) -> None:
        """Let the alarm ring then. One alarm that most requests leave as it is costs less than one
        for each of them.
        """
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm, self._alarm_s = self._loop.call_at(at_s, self._on_alarm), at_s

    # Called by the event loop.

    def _on_alarm(self) -> None:
        self._alarm, self._alarm_s = None, inf
        due_s, next_s = self._loop.time() + _EARLY_S, inf
        for asked in self._in_flight:
            if asked.answered.done():
                continue
            if asked.deadline_s <= due_s:
                asked.answered.set_exception(TimeoutError())
            else:
                next_s = min(next_s, asked.deadline_s)
        if next_s < inf:
            self._set_alarm(next_s)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance

    def connection_lost(self, exc: Exception | None) -> None:
        self.end(exc or EOFError())

    def eof_received(self) -> None:
        """The other side sends no more: after connections.max.idle.ms, say."""
        self.end(EOFError())

    def pause_writing(self) -> None:
        """The other side does not read the bytes sent to it."""
        self._is_writable = False

    def resume_writing(self) -> None:
        self._is_writable = True
        self._tell_change()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002  asyncio's signature
        """The memory for the next bytes: the large answer that is coming, and no further."""
        return self._large.room() if self._large.is_coming else memoryview(self._small)[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        if not self.is_open:
            return
        try:
            if not self._large.is_coming:
                self._end += nbytes
                self._take_frames()
            elif (frame := self._large.received(nbytes)) is not None:
                self._take(frame)
        except ProtocolError as error:
            self.end(error)

    def _take_frames(self) -> None:
        """Take the whole frames of the small buffer and make room for the next."""
        buffer, end = self._small, self._end
        start = 0
        while (found := next_frame(buffer, start, end, ANSWER_BYTES_MAX)) is not None:
            frame_start, start = found
            self._large.drop()
            self._take(memoryview(bytes(memoryview(buffer)[frame_start:start])))
        view = memoryview(buffer)
        needed = frame_size(buffer, start, end)
        if needed <= len(buffer):
            view[: end - start] = view[start:end]
            self._end = end - start
            return
        self._large.begin(needed - SIZE.size, view[start + SIZE.size : end])
        self._end = 0

    def _take(self, frame: memoryview) -> None:
        """A frame is the answer to the oldest request. Raises ProtocolError if it is not."""
        if not self._in_flight:
            raise ProtocolError("an answer to no request")
        asked = self._in_flight[0]
        correlation_id, offset = decode_response_header(frame, asked.key, asked.version)
        if correlation_id != asked.correlation_id:
            raise ProtocolError(
                f"an answer to request {correlation_id}, not {asked.correlation_id}"
            )
        self._in_flight.popleft()
        if not asked.answered.done():
            asked.answered.set_result((frame, offset))
        self._tell_change()

    def _tell_change(self) -> None:
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)


def _error_code(body: memoryview, offset: int) -> int:
    """The error code of an ApiVersions answer: first in every version."""
    if len(body) - offset < 2:
        raise ProtocolError("an answer without an error code")
    return int.from_bytes(body[offset : offset + 2], "big", signed=True)
