"""Requests and answers as the bytes that go over a connection, without one."""

from __future__ import annotations

from typing import Any

from kbroker.apis.kafka_apis import KafkaApis
from kbroker.protocol.codec import decode, encode
from kbroker.protocol.header import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request_header,
)
from kbroker.protocol.request import ConnectionInfo, NoResponse, Request, Response
from kbroker.protocol.schema import Message, response_class

CORRELATION_ID = 4711


def frame_of(request: Message, version: int, client_id: str = "client") -> bytearray:
    key = request.spec.key
    assert key is not None
    head = encode_request_header(RequestHeader(key, version, CORRELATION_ID, client_id))
    return bytearray(encode(request, version, head))


async def answer_to(apis: KafkaApis, frame: bytearray, connection: ConnectionInfo) -> bytes:
    """The bytes of a broker's answer; none where there is no answer. Raises ProtocolError."""
    view = memoryview(frame)
    header, offset = decode_request_header(view)
    answer = apis.handle(Request(header, view, offset, connection, len(view)))
    if not isinstance(answer, (Response, NoResponse)):
        answer = await answer
    if isinstance(answer, NoResponse):
        return b""
    return b"".join(
        [
            piece if isinstance(piece, (bytes, bytearray, memoryview)) else piece.read()
            for piece in answer.pieces
        ]
    )


def response_of(request: Message, version: int, data: bytes) -> Any:
    """The answer that these bytes are; its records are slices of one writable buffer."""
    key = request.spec.key
    assert key is not None
    view = memoryview(bytearray(data))
    correlation_id, offset = decode_response_header(view, key, version)
    assert correlation_id == CORRELATION_ID
    response, _ = decode(response_class(type(request)), version, view, offset)
    return response
