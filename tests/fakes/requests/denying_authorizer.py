"""An authorizer that denies what a test names, and requests that pass it on their way to handlers."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any

from kbroker.acl.acl import AclOperation, AclResource, AclResourceType
from kbroker.apis.context import Services
from kbroker.apis.kafka_apis import KafkaApis
from kbroker.apis.registry import registered
from kbroker.protocol.codec import decode, encode
from kbroker.protocol.header import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request_header,
)
from kbroker.protocol.request import ConnectionInfo, NoResponse, Request, Response
from kbroker.protocol.schema import Message, response_class
from tests.fakes.requests.recording_replier import local_connection


class DenyingAuthorizer:
    """Allows all but what it is given."""

    def __init__(self, *denied: tuple[AclOperation, AclResource]) -> None:
        self._denied = frozenset(denied)
        self.writers = True  # whether the client may write to some topic

    def authorize(
        self, connection: ConnectionInfo, operation: AclOperation, resource: AclResource
    ) -> bool:
        return (operation, resource) not in self._denied

    async def authorize_by_resource_type(
        self, connection: ConnectionInfo, operation: AclOperation, resource_type: AclResourceType
    ) -> bool:
        return self.writers


def services_without(services: Services, *denied: tuple[AclOperation, AclResource]) -> Services:
    """The services for a client that may do all but this."""
    return replace(services, authorizer=DenyingAuthorizer(*denied))


async def answer_to(
    services: Services, request: Message, version: int, **connection: Any
) -> Response | NoResponse:
    """Return what leaves for a client, through all stages."""
    key = request.spec.key
    assert key is not None
    head = encode_request_header(RequestHeader(key, version, 1, "client"))
    frame = memoryview(bytearray(encode(request, version, head)))
    header, offset = decode_request_header(frame)
    from_client = replace(local_connection(), **connection)
    result = KafkaApis(registered(), services).handle(
        Request(header, frame, offset, from_client, len(frame))
    )
    return await result if inspect.isawaitable(result) else result


async def ask(services: Services, request: Message, version: int, **connection: Any) -> Any:
    """The answer as a client of that version reads it."""
    result = await answer_to(services, request, version, **connection)
    assert isinstance(result, Response)
    data = b"".join(
        bytes(piece) if isinstance(piece, (bytes, bytearray, memoryview)) else piece.read()
        for piece in result.pieces
    )
    _, offset = decode_response_header(data, request.spec.key or 0, version)
    return decode(response_class(type(request)), version, data, offset)[0]
