"""Bytes that are almost Kafka's: the broker answers or closes that connection, and goes on serving
the others.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator

import pytest
from kio.schema.index import api_key_map, schema_name_map

from compat_tests.clients.raw_connection import ClosedError, SilenceError, encode_request
from compat_tests.wire.hand_packed import CORRELATION_ID, int16, int32, request, text
from compat_tests.wire.record_bytes import batch, unsigned_varint
from compat_tests.wire.wire_client import (
    API_VERSIONS,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    FETCH,
    JOIN_GROUP,
    LIST_OFFSETS,
    METADATA,
    OFFSET_COMMIT,
    PRODUCE,
    WireClient,
    code,
    fetch_fields,
    produce_fields,
)

MUTATIONS = 1_000
SOFTWARE = {"client_software_name": "wire", "client_software_version": "1"}
GOOD = encode_request(METADATA, 9, CORRELATION_ID, topics=[{"name": "no-such-topic"}])


@pytest.fixture
def still_served(connect: Callable[[], WireClient]) -> Iterator[None]:
    """Afterwards a connection that was open before and a new one are served."""
    before = connect()
    yield
    for client in (before, connect()):
        assert client.call(API_VERSIONS, 3, **SOFTWARE).error_code == 0


pytestmark = pytest.mark.usefixtures("still_served")


@pytest.mark.parametrize("kept", range(0, len(GOOD) + 3, 3))
def test_a_frame_cut_anywhere_by_a_peer_that_goes_away(wire: WireClient, kept: int) -> None:
    frame = int32(len(GOOD)) + GOOD
    wire.send_bytes(frame[:kept])
    wire.socket.shutdown(1)
    assert wire.what_comes() == "closed"


@pytest.mark.parametrize("kept", range(8, len(GOOD)))
def test_a_request_cut_anywhere_with_a_size_that_fits(wire: WireClient, kept: int) -> None:
    wire.send_frame(GOOD[:kept])
    assert wire.what_comes() == "closed"


def flexible_metadata(body: bytes) -> bytes:
    return request(METADATA, 9, body, flexible=True)


TOO_LONG = b"\x80" * 5 + b"\1"
FLAGS = b"\1\0\0"

UNREADABLE = {
    "varint of six bytes": flexible_metadata(TOO_LONG + FLAGS + b"\0"),
    "null topic name in version 9": flexible_metadata(b"\2\0\0" + FLAGS + b"\0"),
    "null topic name in version 1": request(METADATA, 1, int32(1) + int16(-1)),
    "count beyond the frame": flexible_metadata(unsigned_varint(1_000_000) + b"\2a\0" * 3),
    "count of 2 billion": flexible_metadata(unsigned_varint(0xFFFFFFFF)),
    "old count beyond the frame": request(METADATA, 1, int32(1_000_000) + text("a")),
    "string beyond the frame": request(METADATA, 1, int32(1) + int16(32767) + b"a"),
    "tagged fields beyond the frame": flexible_metadata(b"\1" + FLAGS + unsigned_varint(500)),
    "tagged field longer than the frame": flexible_metadata(b"\1" + FLAGS + b"\1\5\x7f"),
    "count of nested structs beyond the frame": request(
        PRODUCE, 7, int16(-1) + int16(-1) + int32(1000) + int32(1) + text("a") + int32(2**30)
    ),
    "records beyond the frame": request(
        PRODUCE, 7,
        int16(-1) + int16(-1) + int32(1000)
        + int32(1) + text("a") + int32(1) + int32(0) + int32(2**30) + b"\0" * 10,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_cannot_be_read_closes_the_connection(wire: WireClient, name: str) -> None:
    wire.send_frame(UNREADABLE[name])
    assert wire.what_comes() == "closed"


def test_millions_of_tagged_fields_are_refused_at_once(
    wire: WireClient, only_kbroker: None
) -> None:
    count = 2_000_000
    fields = b"".join(unsigned_varint(100 + tag) + b"\0" for tag in range(1_000)) * (count // 1_000)
    before = time.monotonic()
    wire.send_frame(flexible_metadata(b"\1" + FLAGS + unsigned_varint(count) + fields))
    assert wire.what_comes(5) == "closed"
    assert time.monotonic() - before < 2


@pytest.mark.parametrize(
    "tags", [b"\2\x64\0\x64\0", b"\2\x65\0\x64\0"], ids=["twice", "descending"]
)
def test_tags_in_a_wrong_order_close_the_connection(
    wire: WireClient, only_kbroker: None, tags: bytes
) -> None:
    wire.send_frame(flexible_metadata(b"\1" + FLAGS + tags))
    assert wire.what_comes() == "closed"


@pytest.mark.parametrize(
    "records", [b"", b"\xff" * 30, batch()[:-1]], ids=["none", "garbage", "cut"]
)
def test_an_error_that_acks_0_cannot_hear_closes_the_connection(
    wire: WireClient, records: bytes
) -> None:
    topic = wire.create_topic()
    wire.send(PRODUCE, 7, **produce_fields(topic, [(0, records)], acks=0))
    assert wire.what_comes() == "closed"


def test_a_group_id_that_is_not_utf_8_is_answered_or_closed(wire: WireClient) -> None:
    wire.send_frame(request(12, 0, int16(2) + b"\xff\xfe" + int32(1) + text("m")))
    assert wire.what_comes() != "silence"


def test_many_connections_that_say_nothing_do_not_hinder_others(
    connect: Callable[[], WireClient],
) -> None:
    silent = [connect() for _ in range(100)]
    for client in silent:
        client.send_bytes(int32(50) + b"\0")
    before = time.monotonic()
    assert connect().call(API_VERSIONS, 0).error_code == 0
    assert time.monotonic() - before < 2


@pytest.mark.parametrize("count", [10_001, 200_000])
def test_an_excessive_number_of_partitions_is_refused_at_once(
    wire: WireClient, connect: Callable[[], WireClient], topic: str, count: int
) -> None:
    other = connect()
    before = time.monotonic()
    wanted = {"name": topic, "num_partitions": count, "replication_factor": 1}
    fields = {"topics": [wanted], "timeout": 1_000, "validate_only": True}
    correlation_id = wire.send(CREATE_TOPICS, 5, **fields)
    assert other.call(API_VERSIONS, 0).error_code == 0
    assert time.monotonic() - before < 1, "one request kept the broker from serving another"
    refused = wire.receive(CREATE_TOPICS, 5, correlation_id).topics[0]
    assert code(refused.error_code, refused.error_message) == (
        "44 POLICY_VIOLATION (Excessively large number of partitions per request.)"
    )


def test_an_excessive_number_of_new_partitions_is_refused_at_once(
    wire: WireClient, connect: Callable[[], WireClient]
) -> None:
    wanted = {"name": wire.create_topic(), "count": 200_000, "assignments": None}
    other = connect()
    before = time.monotonic()
    fields = {"topics": [wanted], "timeout": 1_000, "validate_only": True}
    correlation_id = wire.send(CREATE_PARTITIONS, 1, **fields)
    assert other.call(API_VERSIONS, 0).error_code == 0
    assert time.monotonic() - before < 1, "one request kept the broker from serving another"
    assert wire.receive(CREATE_PARTITIONS, 1, correlation_id).results[0].error_code != 0


def served_versions(wire: WireClient, key: int) -> list[int]:
    """Versions of a key that the broker lists and kio can read."""
    (listed,) = [e for e in wire.call(API_VERSIONS, 0).api_keys if e.api_key == key]
    readable = schema_name_map[api_key_map[key]]
    return [v for v in range(listed.min_version, listed.max_version + 1) if v in readable]


@pytest.mark.parametrize("key", [0, 1, 2, 3, *range(8, 17), 18, 19, 20, 22, 32, 37, 42, 44, 60])
def test_every_version_of_every_key_answers_a_request_without_content(
    wire: WireClient, key: int
) -> None:
    acks = {"acks": 1} if key == PRODUCE else {}  # acks=0 would not be answered
    versions = served_versions(wire, key)
    answers = [wire.call(key, version, **acks) for version in versions]
    assert len(answers) == len(versions) > 0


def valid_requests(topic: str, group: str) -> list[bytes]:
    """Requests of many shapes, the material of the mutations."""
    partition = {"partition_index": 0, "committed_offset": 1, "committed_metadata": "m"}
    protocols = [{"name": "range", "metadata": b"\0\0\0\0\0\0"}]
    named = {"partition_index": 0, "timestamp": -1}
    parts: list[tuple[int, bytes | None]] = [(0, batch(3))]
    return [
        encode_request(PRODUCE, 7, 1, **produce_fields(topic, parts)),
        encode_request(PRODUCE, 9, 1, **produce_fields(topic, parts)),
        encode_request(FETCH, 11, 1, **fetch_fields(topic, 0)),
        encode_request(FETCH, 12, 1, **fetch_fields(topic, 0)),
        encode_request(METADATA, 8, 1, topics=[{"name": topic}]),
        encode_request(METADATA, 9, 1, topics=[{"name": topic}]),
        encode_request(
            LIST_OFFSETS, 7, 1, replica_id=-1, topics=[{"name": topic, "partitions": [named]}]
        ),
        encode_request(
            OFFSET_COMMIT, 7, 1,
            group_id=group, generation_id_or_member_epoch=-1,
            topics=[{"name": topic, "partitions": [partition]}],
        ),
        encode_request(
            JOIN_GROUP, 5, 1,
            group_id=group, session_timeout=6_000, rebalance_timeout=100,
            protocol_type="consumer", protocols=protocols,
        ),
        encode_request(
            CREATE_TOPICS, 5, 1,
            topics=[{"name": f"{topic}-c", "num_partitions": 1, "replication_factor": 1}],
            timeout=1_000, validate_only=True,
        ),
        encode_request(API_VERSIONS, 3, 1, **SOFTWARE),
    ]  # fmt: skip


def mutated(content: bytes, random_source: random.Random) -> bytes:
    """The request with some of its bytes changed, removed, doubled or put in; key and version stay."""
    changed = bytearray(content)
    for _ in range(random_source.randint(1, 4)):
        at = random_source.randrange(4, len(changed))
        kind = random_source.randrange(5)
        if kind == 0:
            changed[at] ^= 1 << random_source.randrange(8)
        elif kind == 1:
            changed[at] = random_source.choice((0, 1, 0x7F, 0x80, 0xFF))
        elif kind == 2:
            changed[at:at] = random_source.randbytes(random_source.randint(1, 8))
        elif kind == 3 and len(changed) > 12:
            del changed[at : at + random_source.randint(1, 8)]
            changed.extend(b"\0" * max(0, 8 - len(changed)))
        else:
            changed[at : at + 4] = random_source.choice((int32(-1), int32(2**31 - 1), int32(2**20)))
    return bytes(changed)


@pytest.mark.parametrize("part", range(4))
def test_changed_requests_are_answered_or_closed(
    connect: Callable[[], WireClient], wire: WireClient, group: str, part: int
) -> None:
    random_source = random.Random(20_240 + part)  # the seed of a failure is the number of the part
    topic = wire.create_topic()
    requests = valid_requests(topic, group)
    client: WireClient | None = None
    silent = 0
    for number in range(MUTATIONS // 4):
        if client is None:
            client = connect()
        try:
            client.send_frame(mutated(requests[number % len(requests)], random_source))
            client.receive_frame(0.5)
        except ClosedError:
            client.close()
            client = None
        except SilenceError:
            # acks=0, a long wait for records, or null records on Apache Kafka.
            silent += 1
            client.close()
            client = None
    assert silent <= 8
    assert wire.metadata(topic).error_code == 0
