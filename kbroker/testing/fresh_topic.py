"""A topic for one test: a name that no other test has, and the one request that creates it.

Spoken in Kafka's protocol, without a client library: a test's log and its libraries are its own.
"""

from __future__ import annotations

import re
import socket
import uuid

from kbroker.errors import ErrorCode
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import decode, encode
from kbroker.protocol.header import RequestHeader, decode_response_header, encode_request_header
from kbroker.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kbroker.testing.broker import BrokerError

_VERSION = 7
_TIMEOUT_S = 30
_MOST_OF_A_NAME = 200  # characters; Kafka allows 249 in all
_DEFAULT = -1


def fresh_name(test: str) -> str:
    """A topic's name that begins like the test's; another one at every call."""
    return f"{re.sub(r'[^a-zA-Z0-9._-]+', '-', test)[:_MOST_OF_A_NAME]}-{uuid.uuid4().hex[:12]}"


def create_topic(bootstrap: str, name: str) -> None:
    """Create it with the broker's defaults; returns when it can be used. Raises BrokerError."""
    request = CreateTopicsRequest(
        topics=[
            CreateTopicsRequest.CreatableTopic(
                name=name, num_partitions=_DEFAULT, replication_factor=_DEFAULT
            )
        ],
        timeout_ms=_TIMEOUT_S * 1000,
    )
    (answer,) = _answer(bootstrap, request).topics
    if answer.error_code:
        reason = answer.error_message or ErrorCode(answer.error_code).name
        raise BrokerError(f"topic {name} was not created: {reason}")


def _answer(bootstrap: str, request: CreateTopicsRequest) -> CreateTopicsResponse:
    host, _, port = bootstrap.partition(",")[0].rpartition(":")
    header = RequestHeader(ApiKey.CREATE_TOPICS, _VERSION, 0, "kbroker.testing")
    sent = encode_request_header(header) + encode(request, _VERSION)
    with (
        socket.create_connection((host, int(port)), timeout=_TIMEOUT_S) as connection,
        connection.makefile("rb") as incoming,
    ):
        connection.sendall(len(sent).to_bytes(4, "big") + sent)
        received = incoming.read(int.from_bytes(incoming.read(4), "big"))
    _, body = decode_response_header(received, ApiKey.CREATE_TOPICS, _VERSION)
    return decode(CreateTopicsResponse, _VERSION, received, body)[0]
