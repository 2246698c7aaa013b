"""ForwardingManager: a client's request on its way to the controller, and the way back
(KIP-590).

Law: the client sees what it would see had it asked the controller itself: its own version, its own
correlation id, and answers only after this broker has seen the change. If an attempt whose answer
was lost may have made the change, that is not a refusal: REQUEST_TIMED_OUT leaves open whether it
was made.

Between our brokers requests travel in an Envelope, with the client's principal and address. Apache
Kafka's brokers list Envelope with ZooKeeper too, but close the connection on it: such a controller
is sent the request itself, in this broker's name.

Owned by the event loop.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable

from kbroker.errors import ErrorCode, KafkaError, ProtocolError
from kbroker.peers.metadata_waiter import MetadataWaiter
from kbroker.peers.node_to_controller_channel import (
    NodeToControllerChannel,
    PeerClient,
)
from kbroker.protocol.codec import decode, encode
from kbroker.protocol.declaration import field_specs
from kbroker.protocol.error_response import error_codes
from kbroker.protocol.header import (
    API_VERSIONS_KEY,
    RequestHeader,
    decode_response_header,
    encode_request_header,
)
from kbroker.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
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
from kbroker.protocol.schema import Message, Struct, response_class

PRINCIPAL_VERSION = 0
MIN_TIMEOUT_MS = 1_000  # of clients that do not wait for the change they ask for
MAX_TIMEOUT_MS = 60_000
# ApiVersions 5 came with Kafka 4.4: no broker of Apache Kafka's that uses ZooKeeper knows it.
FIRST_API_VERSIONS_WITHOUT_ZOOKEEPER = 5
SHOWN_TIMEOUT_MS = 5_000  # then the answer leaves, although this broker has not heard of it

# The refusals of a change asked for twice, if the first attempt made it.
_IS_DONE_ALREADY: dict[type[Message], ErrorCode] = {
    CreateTopicsRequest: ErrorCode.TOPIC_ALREADY_EXISTS,
    CreatePartitionsRequest: ErrorCode.INVALID_PARTITIONS,
    DeleteTopicsRequest: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    AlterPartitionReassignmentsRequest: ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
}
_DOUBT = "An earlier attempt, whose answer was lost, may have done it. Look, or ask again."


class ForwardingManager:
    """Forwards requests to the controller. One per broker."""

    def __init__(self, channel: NodeToControllerChannel, waiter: MetadataWaiter) -> None:
        """`waiter` is notified after each update of this broker's metadata."""
        self._channel = channel
        self._waiter = waiter

    async def forward(
        self,
        header: RequestHeader,
        connection: ConnectionInfo,
        request: Message,
        locally: Callable[[], Awaitable[Message]],
    ) -> Message:
        """The controller's answer to a client's request.

        `locally` answers it on this broker, should that become controller meanwhile. Raises
        KafkaError NOT_CONTROLLER if no controller could be asked in the request's time,
        REQUEST_TIMED_OUT if the answer was lost.
        """
        asked_ms = getattr(request, "timeout_ms", MAX_TIMEOUT_MS)
        attempts = _Attempts(header, connection, request)
        answer: Message | None = await self._channel.ask(
            attempts.ask, min(max(asked_ms, MIN_TIMEOUT_MS), MAX_TIMEOUT_MS)
        )
        if answer is None:
            answer = await locally()
        if attempts.is_in_doubt:
            _leave_open(request, answer)
        return answer

    async def wait_until_shown(
        self, is_shown: Callable[[], bool], timeout_ms: float = SHOWN_TIMEOUT_MS
    ) -> bool:
        """True once this broker's metadata is as wished, False if it is not after that time."""
        return await self._waiter.wait_until(is_shown, timeout_ms)


class _Attempts:
    """The attempts of one request; `is_in_doubt` once one may have been carried out unanswered."""

    def __init__(self, header: RequestHeader, connection: ConnectionInfo, request: Message) -> None:
        self._header = header
        self._connection = connection
        self._request = request
        self.is_in_doubt = False

    async def ask(self, client: PeerClient, timeout_ms: float) -> Message:
        """One attempt. Raises KafkaError, NOT_CONTROLLER among others, or OSError."""
        takes_envelopes = await client.serves(
            API_VERSIONS_KEY, FIRST_API_VERSIONS_WITHOUT_ZOOKEEPER, timeout_ms=timeout_ms
        )
        try:
            if takes_envelopes:
                return await self._enveloped(client, timeout_ms)
            return await self._direct(client, timeout_ms)
        except KafkaError:
            raise  # an answer
        except BaseException:
            self.is_in_doubt = True
            raise

    async def _enveloped(self, client: PeerClient, timeout_ms: float) -> Message:
        header, connection, request = self._header, self._connection, self._request
        envelope = EnvelopeRequest(
            request_data=encode(request, header.api_version, encode_request_header(header)),
            request_principal=encode_principal(connection.principal, connection.has_token),
            client_host_address=pack_address(connection.peer_host),
        )
        response: EnvelopeResponse = await client.send(envelope, timeout_ms=timeout_ms)
        if response.error_code != ErrorCode.NONE:
            # A controller that lost its tree in the middle of a change sends that answer along.
            self.is_in_doubt |= response.response_data is not None
            raise KafkaError(ErrorCode(response.error_code), "The controller refused the request.")
        data = response.response_data or b""
        try:
            _, offset = decode_response_header(data, header.api_key, header.api_version)
            return decode(response_class(type(request)), header.api_version, data, offset)[0]
        except ProtocolError as error:
            raise ConnectionError(f"the controller's answer cannot be read: {error}") from error

    async def _direct(self, client: PeerClient, timeout_ms: float) -> Message:
        answer: Message = await client.send(
            self._request, timeout_ms=timeout_ms, highest_version=self._header.api_version
        )
        if ErrorCode.NOT_CONTROLLER in error_codes(answer):
            self.is_in_doubt = True  # in the middle of a change, perhaps
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        return answer


def encode_principal(principal: str, has_token: bool) -> bytes:
    """A principal ("User:alice") in the form that an Envelope holds, and whether it has logged in
    by a delegation token.
    """
    kind, _, name = principal.partition(":")
    data = DefaultPrincipalData(type=kind, name=name, token_authenticated=has_token)
    return encode(data, PRINCIPAL_VERSION, PRINCIPAL_VERSION.to_bytes(2, "big"))


def decode_principal(data: bytes | None) -> tuple[str, bool]:
    """Read a principal in an Envelope, and whether it has logged in by a delegation token.

    Raises KafkaError PRINCIPAL_DESERIALIZATION_FAILURE.
    """
    try:
        if data is None or int.from_bytes(data[:2], "big") != PRINCIPAL_VERSION:
            raise ProtocolError("no principal of version 0")
        principal, _ = decode(DefaultPrincipalData, PRINCIPAL_VERSION, data, 2)
    except ProtocolError as error:
        raise KafkaError(ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE, str(error)) from error
    return f"{principal.type}:{principal.name}", principal.token_authenticated


def pack_address(host: str) -> bytes:
    """An IP address in the form that an Envelope holds: 4 or 16 bytes."""
    if ":" in host:
        return socket.inet_pton(socket.AF_INET6, host.partition("%")[0])
    return socket.inet_pton(socket.AF_INET, host)


def unpack_address(data: bytes) -> str:
    """The address in an Envelope. Raises KafkaError INVALID_REQUEST."""
    if len(data) not in (4, 16):
        message = f"Failed to parse client address of {len(data)} bytes from envelope"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    return socket.inet_ntop(socket.AF_INET if len(data) == 4 else socket.AF_INET6, data)


def _leave_open(request: Message, response: Message) -> None:
    """Say that what exists already may be this request's doing, instead of calling it refused."""
    is_done = _IS_DONE_ALREADY.get(type(request))
    if is_done is not None:
        _leave_entries_open(response, is_done)


def _leave_entries_open(response: Struct, is_done: ErrorCode) -> None:
    for field in field_specs(type(response)):
        if field.struct is None or not field.is_array:
            continue
        for entry in getattr(response, field.name):
            if getattr(entry, "error_code", None) == is_done:
                entry.error_code, entry.error_message = ErrorCode.REQUEST_TIMED_OUT, _DOUBT
            _leave_entries_open(entry, is_done)
