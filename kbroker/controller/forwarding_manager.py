"""ForwardingManager: a client's request on its way to the controller, and the way back (KIP-590).

Law: the client sees what it would see had it asked the controller itself: its own version, its own
correlation id, and answers only after this broker knows of what was done. What an attempt whose
answer was lost may have done itself is no refusal: REQUEST_TIMED_OUT leaves open whether it was
done, and clients ask again.

Between our brokers requests travel in an Envelope, with the client's principal and address. Apache
Kafka 3.9 lists Envelope with ZooKeeper too, but closes the connection on it: such a controller is
sent the request itself, in this broker's name.

Owned by the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from ipaddress import ip_address
from typing import Any

from kbroker.controller.metadata_waiter import MetadataWaiter
from kbroker.controller.node_to_controller_channel import NodeToControllerChannel, PeerClient
from kbroker.errors import ErrorCode, KafkaError, ProtocolError
from kbroker.model import Broker
from kbroker.protocol.codec import decode, encode
from kbroker.protocol.declaration import field_specs
from kbroker.protocol.error_response import error_codes
from kbroker.protocol.header import (
    RequestHeader,
    decode_response_header,
    encode_request_header,
)
from kbroker.protocol.messages.create_partitions import CreatePartitionsRequest
from kbroker.protocol.messages.create_topics import CreateTopicsRequest
from kbroker.protocol.messages.delete_topics import DeleteTopicsRequest
from kbroker.protocol.messages.envelope import (
    DefaultPrincipalData,
    EnvelopeRequest,
    EnvelopeResponse,
)
from kbroker.protocol.request import ConnectionInfo
from kbroker.protocol.schema import Message, response_class

log = logging.getLogger(__name__)

PRINCIPAL_VERSION = 0
MIN_TIMEOUT_MS = 1_000  # of clients that do not wait for what they ask for
MAX_TIMEOUT_MS = 60_000
SHOWN_TIMEOUT_MS = 5_000  # then the answer leaves, although this broker has not heard of it

# What a change that is asked for twice is refused with, had the first attempt done it.
_IS_DONE_ALREADY: dict[type[Message], ErrorCode] = {
    CreateTopicsRequest: ErrorCode.TOPIC_ALREADY_EXISTS,
    CreatePartitionsRequest: ErrorCode.INVALID_PARTITIONS,
    DeleteTopicsRequest: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}
_DOUBT = "An earlier attempt, whose answer was lost, may have done it. Look, or ask again."


class ForwardingManager:
    """One per broker."""

    def __init__(self, channel: NodeToControllerChannel, waiter: MetadataWaiter) -> None:
        """`waiter` is notified after each update of this broker's metadata."""
        self._channel = channel
        self._waiter = waiter
        self._without_envelopes: Broker | None = None  # a controller that closed on one

    async def forward(
        self, header: RequestHeader, connection: ConnectionInfo, request: Message
    ) -> Any:
        """The controller's answer to a client's request; None when this broker is controller by
        now.

        Raises KafkaError NOT_CONTROLLER when there was nobody to ask in the time that the request
        gives, REQUEST_TIMED_OUT when the answer was lost, or the one asked lost its seat to this
        broker.
        """
        asked_ms = getattr(request, "timeout_ms", MAX_TIMEOUT_MS)
        timeout_ms = min(max(asked_ms, MIN_TIMEOUT_MS), MAX_TIMEOUT_MS)
        envelope = _envelope(header, connection, request)
        attempts = 0

        async def question(client: PeerClient, left_ms: float) -> Any:
            nonlocal attempts
            attempts += 1
            controller = self._channel.target
            if controller is None or controller != self._without_envelopes:
                try:
                    return await _enveloped(client, envelope, header, request, left_ms)
                except ConnectionResetError:
                    log.debug("the controller closed the connection on an Envelope", exc_info=True)
            answer = await client.send(
                request, timeout_ms=left_ms, highest_version=header.api_version
            )
            _check_controller(answer)
            self._without_envelopes = controller
            return answer

        answer = await self._channel.ask(question, timeout_ms)
        if answer is None and attempts:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, _DOUBT)
        if attempts > 1:
            _doubt(request, answer)
        return answer

    async def wait_until_shown(self, is_shown: Callable[[], bool]) -> None:
        """Return when this broker's metadata is as wished, or after a while."""
        await self._waiter.wait_until(is_shown, SHOWN_TIMEOUT_MS)


def encode_principal(principal: str) -> bytes:
    """A principal ("User:alice") in the form that an Envelope holds."""
    kind, _, name = principal.partition(":")
    data = DefaultPrincipalData(type=kind, name=name)
    return encode(data, PRINCIPAL_VERSION, PRINCIPAL_VERSION.to_bytes(2, "big"))


def decode_principal(data: bytes | None) -> str:
    """The principal in an Envelope. Raises KafkaError PRINCIPAL_DESERIALIZATION_FAILURE."""
    try:
        if data is None or int.from_bytes(data[:2], "big") != PRINCIPAL_VERSION:
            raise ProtocolError("no principal of version 0")
        principal, _ = decode(DefaultPrincipalData, PRINCIPAL_VERSION, data, 2)
    except ProtocolError as error:
        raise KafkaError(ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE, str(error)) from error
    return f"{principal.type}:{principal.name}"


def _envelope(
    header: RequestHeader, connection: ConnectionInfo, request: Message
) -> EnvelopeRequest:
    return EnvelopeRequest(
        request_data=encode(request, header.api_version, encode_request_header(header)),
        request_principal=encode_principal(connection.principal),
        client_host_address=ip_address(connection.peer_host.partition("%")[0]).packed,
    )


async def _enveloped(
    client: PeerClient,
    envelope: EnvelopeRequest,
    header: RequestHeader,
    request: Message,
    timeout_ms: float,
) -> Message:
    response: EnvelopeResponse = await client.send(envelope, timeout_ms=timeout_ms)
    if response.error_code != ErrorCode.NONE:
        raise KafkaError(ErrorCode(response.error_code), "The controller refused the request.")
    data = response.response_data or b""
    try:
        _, offset = decode_response_header(data, header.api_key, header.api_version)
        return decode(response_class(type(request)), header.api_version, data, offset)[0]
    except ProtocolError as error:
        raise ConnectionError(f"the controller's answer is none: {error}") from error


def _doubt(request: Message, response: Message) -> None:
    """Leave open what an earlier attempt may have done, instead of calling it refused."""
    is_done = _IS_DONE_ALREADY.get(type(request))
    for field in field_specs(type(response)):
        if field.struct is None or not field.is_array:
            continue
        for entry in getattr(response, field.name):
            if entry.error_code == is_done:
                entry.error_code, entry.error_message = ErrorCode.REQUEST_TIMED_OUT, _DOUBT


def _check_controller(response: Message) -> None:
    if ErrorCode.NOT_CONTROLLER in error_codes(response):
        raise KafkaError(ErrorCode.NOT_CONTROLLER)
