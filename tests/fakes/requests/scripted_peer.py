"""The other end of a BrokerClient, in memory: reads whole requests and answers as it is told."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import Any

from kbroker.errors import ErrorCode
from kbroker.protocol.codec import decode, encode
from kbroker.protocol.header import (
    API_VERSIONS_KEY,
    RequestHeader,
    decode_request_header,
    encode_response_header,
)
from kbroker.protocol.messages.api_versions import ApiVersionsResponse
from kbroker.protocol.schema import Message
from tests.fakes.requests.frame_decoder import FrameDecoder
from tests.golden.wire.declared_messages import all_messages

CUT = object()  # close instead of answering
SILENCE = object()  # never answer

ApiVersion = ApiVersionsResponse.ApiVersion
Script = Callable[[RequestHeader, Message], Any]


class ScriptedPeer:
    """`connect` is given to a BrokerClient. `answer` gives a message, raw bytes (in a list: and then
    the end), CUT or SILENCE.
    """

    def __init__(self, answer: Script, served: dict[int, tuple[int, int]] | None = None) -> None:
        self.answer = answer
        self.served = served if served is not None else _all_declared()
        self.api_versions_highest = 5
        self.lists_own_range = True
        self.refuses = False
        self.requests: list[RequestHeader] = []
        self.attempts = 0
        self.connections: list[ScriptedTransport] = []
        self.was_asked = asyncio.Event()  # something besides ApiVersions

    async def connect(
        self, make: Callable[[], asyncio.BufferedProtocol], host: str, port: int
    ) -> None:
        """As an event loop's create_connection."""
        self.attempts += 1
        if self.refuses:
            raise ConnectionRefusedError(111, f"Connect call failed ({host}, {port})")
        self.connections.append(ScriptedTransport(self, make()))

    @property
    def asked(self) -> list[tuple[int, int]]:
        """Key and version of every request after the ApiVersions ones."""
        return [(h.api_key, h.api_version) for h in self.requests if h.api_key != API_VERSIONS_KEY]

    def api_versions(self, header: RequestHeader) -> bytes:
        """The served versions, or error 35 in the form of version 0."""
        known = header.api_version <= self.api_versions_highest
        own = ApiVersion(api_key=API_VERSIONS_KEY, max_version=self.api_versions_highest)
        if not known:
            refusal = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
            refusal.api_keys = [own] if self.lists_own_range else []
            return encode(refusal, 0, struct.pack(">i", header.correlation_id))
        listed = [
            ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in self.served.items()
        ]
        response = ApiVersionsResponse(api_keys=listed)
        return encode(response, header.api_version, struct.pack(">i", header.correlation_id))


class ScriptedTransport(asyncio.Transport):
    """One connection: the transport that the client's protocol writes to, and who answers."""

    def __init__(self, peer: ScriptedPeer, protocol: asyncio.BufferedProtocol) -> None:
        super().__init__()
        self.is_aborted = False
        self.protocol = protocol
        self._peer = peer
        self._frames = FrameDecoder(1 << 20)
        protocol.connection_made(self)

    def write(self, data: bytes) -> None:
        for frame in self._frames.feed(data):
            self._take(frame)

    def is_closing(self) -> bool:
        return self.is_aborted

    def abort(self) -> None:
        if not self.is_aborted:
            self.is_aborted = True
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

    def cut(self) -> None:
        """The other side closes."""
        if not self.is_aborted:
            self.protocol.eof_received()

    def say(self, frame: bytes) -> None:
        """Send a frame of its own accord."""
        self.feed(struct.pack(">i", len(frame)) + frame)

    def feed(self, data: bytes) -> None:
        """Send bytes, in parts that the protocol has room for."""
        left = memoryview(data)
        while left and not self.is_aborted:
            buffer = self.protocol.get_buffer(-1)
            count = min(len(buffer), len(left))
            buffer[:count] = left[:count]
            del buffer  # as an event loop, which keeps no view of it
            left = left[count:]
            self.protocol.buffer_updated(count)

    def _take(self, frame: bytes) -> None:
        header, offset = decode_request_header(frame)
        self._peer.requests.append(header)
        if header.api_key == API_VERSIONS_KEY:
            self.say(self._peer.api_versions(header))
            return
        message, _ = decode(_request_class(header.api_key), header.api_version, frame, offset)
        self._peer.was_asked.set()
        answer = self._peer.answer(header, message)
        if answer is CUT:
            self.cut()
        elif isinstance(answer, list):
            self.feed(b"".join(answer))
            self.cut()
        elif isinstance(answer, bytes):
            self.feed(answer)
        elif answer is not SILENCE:
            self.say(answer_frame(header, answer))


def answer_frame(
    header: RequestHeader, answer: Message, correlation_id: int | None = None
) -> bytes:
    """The answer to a request as a frame without its size."""
    number = header.correlation_id if correlation_id is None else correlation_id
    head = encode_response_header(header.api_key, header.api_version, number)
    return encode(answer, header.api_version, head)


def _request_class(key: int) -> type[Message]:
    return next(
        cls for cls in all_messages() if cls.spec.key == key and cls.__name__.endswith("Request")
    )


def _all_declared() -> dict[int, tuple[int, int]]:
    return {
        cls.spec.key: (cls.spec.versions.lowest, cls.spec.versions.highest)
        for cls in all_messages()
        if cls.spec.key is not None
    }
