from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kbroker.errors import ErrorCode, KafkaError, ProtocolError
from kbroker.peers.forwarding_manager import decode_principal, encode_principal
from kbroker.protocol.codec import decode, encode
from kbroker.protocol.header import RequestHeader, decode_response_header, encode_request_header
from kbroker.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kbroker.protocol.messages.envelope import EnvelopeRequest
from kbroker.protocol.messages.heartbeat import HeartbeatRequest
from kbroker.protocol.messages.metadata import MetadataRequest
from tests.fakes.clusters.forwarding_cluster import ForwardingCluster
from tests.fakes.requests.recording_replier import local_connection

ADDRESS = b"\x7f\x00\x00\x01"
ANONYMOUS = bytes.fromhex("000005557365720a414e4f4e594d4f55530000")  # as Kafka 3.9 packs it
CREATE = CreateTopicsRequest(
    topics=[CreateTopicsRequest.CreatableTopic(name="t", num_partitions=1, replication_factor=1)],
    timeout_ms=5_000,
)

pytestmark = pytest.mark.virtual_time


@pytest.fixture
def cluster(forwarding_cluster: ForwardingCluster) -> ForwardingCluster:
    return forwarding_cluster


def inside(request: Any, version: int) -> bytes:
    header = RequestHeader(request.spec.key, version, 99, "client")
    return encode(request, version, encode_request_header(header))


def envelope(data: bytes, principal: bytes | None = ANONYMOUS, address: bytes = ADDRESS) -> Any:
    return EnvelopeRequest(
        request_data=data, request_principal=principal, client_host_address=address
    )


async def ask(cluster: ForwardingCluster, request: EnvelopeRequest, broker_id: int = 0) -> Any:
    """Return the answer of broker 0, the controller, or of another one."""
    answer = await cluster.broker(broker_id).ask(request, 0)
    assert cluster.asked == []  # what was passed on once is not passed on again
    return answer


@pytest.mark.parametrize("version", range(8))
async def test_the_request_inside_is_answered_in_its_own_version(
    version: int, cluster: ForwardingCluster
) -> None:
    answer = await ask(cluster, envelope(inside(CREATE, version)))

    assert answer.error_code == ErrorCode.NONE
    correlation_id, offset = decode_response_header(answer.response_data, 19, version)
    response, end = decode(CreateTopicsResponse, version, answer.response_data, offset)
    assert (correlation_id, end) == (99, len(answer.response_data))
    assert [(t.name, t.error_code) for t in response.topics] == [("t", ErrorCode.NONE)]


async def test_a_broker_that_is_not_controller_says_so_outside(cluster: ForwardingCluster) -> None:
    answer = await ask(cluster, envelope(inside(CREATE, 7)), broker_id=1)

    assert (answer.error_code, answer.response_data) == (ErrorCode.NOT_CONTROLLER, None)


async def test_a_controller_that_stops_being_it_says_so_outside(cluster: ForwardingCluster) -> None:
    controller = cluster.broker(0)
    api = controller.apis_by_key[19]

    async def late(ctx: Any, request: Any) -> Any:
        controller.session.suspend()
        return await api.handler(ctx, request)

    controller.apis_by_key[19] = replace(api, handler=late)
    answer = await controller.ask(envelope(inside(CREATE, 7)), 0)
    controller.session.resume()

    assert answer.error_code == ErrorCode.NOT_CONTROLLER
    assert answer.response_data  # what it had begun may be half done


async def test_an_envelope_that_does_not_come_by_the_brokers_listener_closes_the_connection(
    cluster: ForwardingCluster,
) -> None:
    client = replace(local_connection(), listener_name="EXTERNAL")

    with pytest.raises(ProtocolError, match="EnvelopeRequest on listener EXTERNAL"):
        await cluster.broker(0).ask(envelope(inside(CREATE, 7)), 0, client)


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (envelope(b""), ErrorCode.INVALID_REQUEST),
        (envelope(b"\x00\x13"), ErrorCode.INVALID_REQUEST),
        (envelope(b"GET / HTTP/1.1\r\n\r\n"), ErrorCode.INVALID_REQUEST),
        (envelope(inside(CREATE, 7)[:-3]), ErrorCode.INVALID_REQUEST),
        (envelope(inside(HeartbeatRequest(), 4)), ErrorCode.INVALID_REQUEST),
        (envelope(inside(MetadataRequest(), 9)), ErrorCode.INVALID_REQUEST),
        (envelope(inside(envelope(inside(CREATE, 7)), 0)), ErrorCode.INVALID_REQUEST),
        (envelope(b"\x00\x13\x00\x08" + inside(CREATE, 7)[4:]), ErrorCode.UNSUPPORTED_VERSION),
        (envelope(b"\x00\x13\xff\xff" + inside(CREATE, 0)[4:]), ErrorCode.UNSUPPORTED_VERSION),
        (envelope(inside(CREATE, 7), address=b""), ErrorCode.INVALID_REQUEST),
        (envelope(inside(CREATE, 7), address=b"\x7f\x00\x00"), ErrorCode.INVALID_REQUEST),
        (
            envelope(inside(CREATE, 7), principal=None),
            ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE,
        ),
        (
            envelope(inside(CREATE, 7), principal=b"\x00\x01" + ANONYMOUS[2:]),
            ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE,
        ),
        (
            envelope(inside(CREATE, 7), principal=ANONYMOUS[:6]),
            ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE,
        ),
    ],
)
async def test_what_cannot_be_passed_on_is_refused_outside(
    request_: EnvelopeRequest, code: ErrorCode, cluster: ForwardingCluster
) -> None:
    answer = await ask(cluster, request_)

    assert (answer.error_code, answer.response_data) == (code, None)


def test_a_principal_is_packed_as_kafka_packs_it() -> None:
    assert encode_principal("User:ANONYMOUS", has_token=False) == ANONYMOUS
    assert decode_principal(ANONYMOUS) == ("User:ANONYMOUS", False)
    for principal in (("User:CN=a:b,O=é", False), ("User:ann", True)):
        assert decode_principal(encode_principal(*principal)) == principal


def test_a_principal_of_another_version_is_none() -> None:
    with pytest.raises(KafkaError, match="version 0"):
        decode_principal(b"\x00\x07rest")
