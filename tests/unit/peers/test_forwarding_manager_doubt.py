"""What a client hears when its request may have been carried out by an attempt whose answer was
lost.
"""

from __future__ import annotations

import asyncio
from copy import deepcopy
from typing import Any

import pytest

from kbroker.errors import ErrorCode, KafkaError
from kbroker.peers.forwarding_manager import ForwardingManager
from kbroker.peers.metadata_waiter import MetadataWaiter
from kbroker.peers.node_to_controller_channel import PeerClient, Question
from kbroker.protocol.codec import encode
from kbroker.protocol.header import RequestHeader, encode_response_header
from kbroker.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
)
from kbroker.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kbroker.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kbroker.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from kbroker.protocol.request import ConnectionInfo
from kbroker.protocol.schema import Message

VERSION = 1
CREATED = CreateTopicsResponse.CreatableTopicResult
DELETED = DeleteTopicsResponse.DeletableTopicResult
GROWN = CreatePartitionsResponse.CreatePartitionsTopicResult
EXISTS = CreateTopicsResponse(
    topics=[CREATED(name="t", error_code=ErrorCode.TOPIC_ALREADY_EXISTS, error_message="It is.")]
)
UNKNOWN = DeleteTopicsResponse(
    responses=[DELETED(name="t", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
)
HAS_MORE = CreatePartitionsResponse(
    results=[GROWN(name="t", error_code=ErrorCode.INVALID_PARTITIONS)]
)
CASES = [
    (CreateTopicsRequest(), EXISTS, "topics"),
    (DeleteTopicsRequest(), UNKNOWN, "responses"),
    (CreatePartitionsRequest(), HAS_MORE, "results"),
]


class AnsweringClient:
    """A controller that answers every Envelope with one response."""

    def __init__(self, header: RequestHeader, response: Message) -> None:
        self._data = encode(response, VERSION, encode_response_header(header.api_key, VERSION, 1))

    async def serves(self, *_: Any, **__: Any) -> bool:
        return True

    async def send(self, request: EnvelopeRequest, **_: Any) -> EnvelopeResponse:
        return EnvelopeResponse(response_data=self._data)


class LosingClient:
    """A controller whose answers are lost."""

    async def serves(self, *_: Any, **__: Any) -> bool:
        return True

    async def send(self, request: EnvelopeRequest, **_: Any) -> EnvelopeResponse:
        raise ConnectionAbortedError


class DeposedClient(LosingClient):
    """A controller that was none any more in the middle of the change."""

    async def send(self, request: EnvelopeRequest, **_: Any) -> EnvelopeResponse:
        return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER, response_data=b"half done")


class IdleClient(LosingClient):
    """A broker that is not controller, and does nothing."""

    async def send(self, request: EnvelopeRequest, **_: Any) -> EnvelopeResponse:
        return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)


class ChannelOf:
    """Asks the clients given, one after the other; then this broker is controller itself."""

    target = None

    def __init__(self, *clients: Any) -> None:
        self._clients: list[PeerClient] = list(clients)

    async def ask(self, question: Question, timeout_ms: float) -> Any:
        for client in self._clients:
            try:
                return await question(client, timeout_ms)
            except (ConnectionError, KafkaError):
                continue
        return None


def forward(request: Message, *clients: Any, here: Message | None = None) -> Any:
    """Return what the client hears; `here` is this broker's own answer."""
    manager = ForwardingManager(ChannelOf(*clients), MetadataWaiter())  # type: ignore[arg-type]
    connection = ConnectionInfo(
        connection_id="1",
        listener_name="PLAINTEXT",
        security_protocol="PLAINTEXT",
        local_host="127.0.0.1",
        local_port=9092,
        peer_host="127.0.0.1",
        peer_port=1,
    )

    async def locally() -> Message:
        assert here is not None
        return here

    return asyncio.run(manager.forward(header_of(request), connection, request, locally))


def header_of(request: Message) -> RequestHeader:
    key = type(request).spec.key
    assert key is not None
    return RequestHeader(key, VERSION, 1, "c")


@pytest.mark.parametrize(("request_", "response", "rows"), CASES)
def test_a_refusal_that_an_earlier_attempt_may_have_caused_leaves_open_what_was_done(
    request_: Message, response: Message, rows: str
) -> None:
    answering = AnsweringClient(header_of(request_), response)

    answer = forward(request_, LosingClient(), answering)

    assert [row.error_code for row in getattr(answer, rows)] == [ErrorCode.REQUEST_TIMED_OUT]


@pytest.mark.parametrize(("request_", "response", "rows"), CASES)
def test_a_controller_that_lost_its_tree_in_the_middle_may_have_done_it_too(
    request_: Message, response: Message, rows: str
) -> None:
    answering = AnsweringClient(header_of(request_), response)

    answer = forward(request_, DeposedClient(), answering)

    assert [row.error_code for row in getattr(answer, rows)] == [ErrorCode.REQUEST_TIMED_OUT]


@pytest.mark.parametrize(("request_", "response", "rows"), CASES)
def test_a_broker_that_was_no_controller_has_done_nothing(
    request_: Message, response: Message, rows: str
) -> None:
    refusals = [row.error_code for row in getattr(response, rows)]

    answer = forward(request_, IdleClient(), AnsweringClient(header_of(request_), response))

    assert [row.error_code for row in getattr(answer, rows)] == refusals


@pytest.mark.parametrize(("request_", "response", "rows"), CASES)
def test_a_refusal_of_the_first_attempt_is_passed_on(
    request_: Message, response: Message, rows: str
) -> None:
    answering = AnsweringClient(header_of(request_), response)

    answer = forward(request_, answering)

    wanted = [row.error_code for row in getattr(response, rows)]
    assert [row.error_code for row in getattr(answer, rows)] == wanted


@pytest.mark.parametrize(("request_", "response", "rows"), CASES)
def test_what_this_broker_finds_done_when_it_becomes_controller_is_left_open_too(
    request_: Message, response: Message, rows: str
) -> None:
    answer = forward(request_, LosingClient(), here=deepcopy(response))

    assert [row.error_code for row in getattr(answer, rows)] == [ErrorCode.REQUEST_TIMED_OUT]


def test_a_broker_that_is_controller_by_now_answers_itself() -> None:
    assert forward(CreateTopicsRequest(), here=EXISTS) is EXISTS
    assert EXISTS.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
