"""What comes back for bytes that are odd, wrong or no Kafka at all: rows 228 to 262 of what real
brokers answer.

"closed" means: closed without an answer. After each case the server answers another connection.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pytest

from kbroker.apis import api_versions
from kbroker.apis.context import RequestContext, Services
from kbroker.apis.kafka_apis import KafkaApis
from kbroker.apis.registry import Api, registered
from kbroker.config.kafka_config import KafkaConfig
from kbroker.protocol.messages.api_versions import ApiVersionsRequest
from kbroker.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kbroker.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kbroker.protocol.schema import Versions
from kbroker.replication.metadata_cache import MetadataCache
from kbroker.server.system_clock import SystemClock
from tests.fakes.brokers.small_server import LOOPS, RawConnection, SmallServer
from tests.fakes.clusters.peers import no_peers

METADATA, HEARTBEAT, API_VERSIONS = 3, 12, 18
MAX_FRAME = 104_857_600


def metadata(ctx: RequestContext, request: MetadataRequest) -> MetadataResponse:
    topics = [
        MetadataResponse.MetadataResponseTopic(name=topic.name) for topic in request.topics or ()
    ]
    return MetadataResponse(cluster_id="test", topics=topics)


def heartbeat(ctx: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
    return HeartbeatResponse()


def kafka_apis() -> KafkaApis:
    nothing: Any = object()
    services = Services(
        replicas=nothing,
        groups=nothing,
        transactional=nothing,
        metadata=MetadataCache(0),
        topics=nothing,
        configs=nothing,
        producer_ids=nothing,
        controller=nothing,
        control=None,
        peers=no_peers(),
        forwarding=None,
        config=KafkaConfig(),
        clock=SystemClock(),
    )
    apis = {
        METADATA: Api(METADATA, "Metadata", MetadataRequest, Versions.parse("0-13"), metadata),
        HEARTBEAT: Api(HEARTBEAT, "Heartbeat", HeartbeatRequest, Versions.parse("1-4"), heartbeat),
        API_VERSIONS: Api(
            API_VERSIONS,
            "ApiVersions",
            ApiVersionsRequest,
            Versions.parse("0-5"),
            api_versions.handle,
        ),
    }
    return KafkaApis(apis, services)


@pytest.fixture(params=LOOPS, scope="module")
def server(request: pytest.FixtureRequest) -> Iterator[SmallServer]:
    with SmallServer(kafka_apis().handle, request.param) as small_server:
        yield small_server


@pytest.fixture
def connection(server: SmallServer) -> Iterator[RawConnection]:
    with server.connect() as raw:
        yield raw
    with server.connect() as other:
        other.send_frame(header(API_VERSIONS, 0, 9))
        assert other.read_frame()[:6] == struct.pack(">ih", 9, 0)


def header(
    key: int,
    version: int,
    correlation_id: int = 7,
    client_id: bytes | None = b"t",
    tags: bytes | None = None,
) -> bytes:
    size = -1 if client_id is None else len(client_id)
    flexible = {METADATA: 9, HEARTBEAT: 4, API_VERSIONS: 3}.get(key, 99) <= version
    tail = (b"\0" if tags is None else tags) if flexible else b""
    return struct.pack(">hhih", key, version, correlation_id, size) + (client_id or b"") + tail


def topics_v1(*names: bytes) -> bytes:
    listed = b"".join(struct.pack(">h", len(name)) + name for name in names)
    return struct.pack(">i", len(names)) + listed


def correlation_id_of(frame: bytes) -> int:
    return int(struct.unpack(">i", frame[:4])[0])


def test_unknown_api_versions_version_is_answered_in_v0_form(connection: RawConnection) -> None:
    connection.send_frame(header(API_VERSIONS, 99) + b"\2a\2b\0")
    assert connection.read_frame().hex() == "00000007002300000001001200000005"


@pytest.mark.parametrize("name", [b"", b"a b", b"-a", b"a-"])
def test_bad_software_name_is_invalid_request_without_keys(
    connection: RawConnection, name: bytes
) -> None:
    connection.send_frame(header(API_VERSIONS, 3) + bytes([len(name) + 1]) + name + b"\2b\0")
    assert connection.read_frame()[:7] == struct.pack(">ih", 7, 42) + b"\1"


def test_api_versions_twice_on_one_connection_is_answered_twice(connection: RawConnection) -> None:
    connection.send_frame(header(API_VERSIONS, 3, 1) + b"\2a\2b\0")
    connection.send_frame(header(API_VERSIONS, 0, 2))
    assert connection.read_frame()[:6] == struct.pack(">ih", 1, 0)
    assert connection.read_frame()[:6] == struct.pack(">ih", 2, 0)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(struct.pack(">i", -1), id="negative size"),
        pytest.param(struct.pack(">i", -(2**31)), id="most negative size"),
        pytest.param(struct.pack(">i", 0), id="size 0"),
        pytest.param(struct.pack(">i", 3) + b"abc", id="shorter than a header"),
        pytest.param(struct.pack(">i", 2**31 - 1), id="largest size"),
        pytest.param(struct.pack(">i", MAX_FRAME + 1), id="one over the limit"),
        pytest.param(b"\0\0\0\x10\0user\0passwordxx", id="bare SASL token"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", id="HTTP"),
        pytest.param(bytes.fromhex("160301020001000001fc0303"), id="TLS"),
        pytest.param(b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n", id="PROXY"),
    ],
)
def test_bytes_that_are_no_request_close_the_connection(
    connection: RawConnection, data: bytes
) -> None:
    connection.send(data)
    assert connection.is_closed_by_peer()


def test_largest_size_and_then_nothing_keeps_the_connection_open(connection: RawConnection) -> None:
    connection.send(struct.pack(">i", MAX_FRAME))
    assert connection.stays_silent(0.3)


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(header(999, 0), id="unknown key"),
        pytest.param(header(-1, 0), id="negative key"),
        pytest.param(header(52, 0), id="Vote"),
        pytest.param(header(METADATA, 99) + b"\0\0\0\0\0", id="version too high"),
        pytest.param(header(METADATA, -1) + topics_v1(), id="negative version"),
        pytest.param(header(HEARTBEAT, 0) + b"\0" * 10, id="version below the lowest served"),
        pytest.param(header(METADATA, 1) + topics_v1(b"abcd")[:-2], id="body cut short"),
        pytest.param(header(METADATA, 1) + struct.pack(">i", 2**31 - 1), id="huge array"),
        pytest.param(header(METADATA, 1) + struct.pack(">ih", 1, -5), id="negative string"),
    ],
)
def test_a_request_that_cannot_be_read_closes_the_connection(
    connection: RawConnection, frame: bytes
) -> None:
    connection.send_frame(frame)
    assert connection.is_closed_by_peer()


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(header(METADATA, 1) + topics_v1(b"late") + b"abcd", id="trailing bytes"),
        pytest.param(
            header(METADATA, 9) + b"\2\5late\0\1\0\0\0" + b"abcd", id="trailing, flexible"
        ),
        pytest.param(header(METADATA, 1) + struct.pack(">i", -5), id="array length -5"),
        pytest.param(header(METADATA, 1) + topics_v1(b"\xff\xfe"), id="topic name not UTF-8"),
        pytest.param(header(METADATA, 1, client_id=None) + topics_v1(), id="null client id"),
        pytest.param(header(METADATA, 1, client_id=b"") + topics_v1(), id="empty client id"),
        pytest.param(header(METADATA, 1, client_id=b"x" * 300) + topics_v1(), id="long client id"),
        pytest.param(header(METADATA, 1, client_id=b"\xff\xc3") + topics_v1(), id="odd client id"),
        pytest.param(
            header(METADATA, 9, tags=b"\1\x63\2ab") + b"\2\5late\0\1\0\0\1\x63\2cd",
            id="unknown tags",
        ),
    ],
)
def test_an_odd_request_is_answered(connection: RawConnection, frame: bytes) -> None:
    connection.send_frame(frame)
    assert correlation_id_of(connection.read_frame()) == 7


def test_a_negative_correlation_id_is_echoed(connection: RawConnection) -> None:
    connection.send_frame(header(METADATA, 1, -2) + topics_v1())
    assert correlation_id_of(connection.read_frame()) == -2


def test_a_request_sent_byte_by_byte_is_answered(connection: RawConnection) -> None:
    frame = header(API_VERSIONS, 0)
    for byte in struct.pack(">i", len(frame)) + frame:
        connection.send(bytes([byte]))
    assert correlation_id_of(connection.read_frame()) == 7


def test_a_truncated_frame_and_the_end_close_the_connection(connection: RawConnection) -> None:
    connection.send(struct.pack(">i", 100) + b"abc")
    connection.socket.shutdown(1)
    assert connection.is_closed_by_peer()


@pytest.mark.parametrize(
    ("sent", "protocol"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "HTTP"),
        (b"\x16\x03\x01\x02\0\x01\0", "TLS on a listener without it"),
    ],
    ids=["HTTP", "TLS"],
)
def test_a_client_of_another_protocol_is_named_once(
    caplog: pytest.LogCaptureFixture, sent: bytes, protocol: str
) -> None:
    with SmallServer(kafka_apis().handle, LOOPS[0]) as server:  # one that has named nobody yet
        for _ in range(2):
            with server.connect() as raw:
                raw.send(sent)
                assert raw.is_closed_by_peer()
    (told,) = caplog.messages
    assert told.startswith(f"a client at 127.0.0.1 asks for {protocol}, which this broker does not")


def test_api_versions_lists_what_is_registered() -> None:
    assert registered()[API_VERSIONS].versions == Versions.parse("0-5")
