"""Envelope (key 58), version 0: a client's request that another broker passes on to the controller
(KIP-590).

The request inside is answered as if its client had asked here, in its own version; the envelope's
own error code says what kept it from that. NOT_CONTROLLER lets the other broker ask elsewhere; with
an answer inside, this broker had begun to work it, and lost the seat, or its tree, on the way.
"""

from __future__ import annotations

import inspect
from dataclasses import replace

from kbroker.acl.acl import AclOperation
from kbroker.apis.authorization import ForRequest, the_cluster
from kbroker.apis.context import RequestContext
from kbroker.apis.registry import api, registered
from kbroker.errors import ErrorCode, KafkaError, ProtocolError
from kbroker.peers.forwarding_manager import decode_principal, unpack_address
from kbroker.protocol.codec import decode
from kbroker.protocol.error_response import error_codes
from kbroker.protocol.header import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
)
from kbroker.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from kbroker.protocol.request import Piece, Request, Response
from kbroker.protocol.schema import response_class


@api(EnvelopeRequest, ForRequest(AclOperation.CLUSTER_ACTION, the_cluster))
async def handle(ctx: RequestContext, request: EnvelopeRequest) -> EnvelopeResponse:
    """Answer the request inside."""
    if not ctx.services.controller.is_active:
        return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
    inner = _inner_request(ctx, request)
    answer_request = ctx.services.answer
    assert answer_request is not None, "these services belong to no KafkaApis"
    try:
        answer = answer_request(inner)
        if inspect.isawaitable(answer):
            answer = await answer
    except ProtocolError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error
    assert isinstance(answer, Response), "no forwarded request goes unanswered"
    data = b"".join(map(_bytes_of, answer.pieces))
    if _says_not_controller(inner.header, data):
        # With the answer, as a part of what was asked for may have been done.
        return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER, response_data=data)
    return EnvelopeResponse(response_data=data)


def _inner_request(ctx: RequestContext, request: EnvelopeRequest) -> Request:
    """KafkaError INVALID_REQUEST, UNSUPPORTED_VERSION or PRINCIPAL_DESERIALIZATION_FAILURE."""
    frame = memoryview(bytes(request.request_data))
    try:
        header, body_offset = decode_request_header(frame)
    except ProtocolError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error
    inner_api = registered().get(header.api_key)
    if inner_api is None or inner_api.forwarded is None:
        message = f"API key {header.api_key} is not enabled for forwarding"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    if header.api_version not in inner_api.versions:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    principal, has_token = decode_principal(request.request_principal)
    connection = replace(
        ctx.connection,
        principal=principal,
        has_token=has_token,
        peer_host=unpack_address(bytes(request.client_host_address)),
        is_forwarded=True,
    )
    return Request(header, frame, body_offset, connection, len(frame))


def _bytes_of(piece: Piece) -> bytes:
    return bytes(piece) if isinstance(piece, (bytes, bytearray, memoryview)) else piece.read()


def _says_not_controller(header: RequestHeader, data: bytes) -> bool:
    """True when this broker was not controller any more when it came to the request."""
    _, offset = decode_response_header(data, header.api_key, header.api_version)
    cls = response_class(registered()[header.api_key].request_class)
    response, _ = decode(cls, header.api_version, data, offset)
    return ErrorCode.NOT_CONTROLLER in error_codes(response)
