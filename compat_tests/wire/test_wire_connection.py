"""A connection without any client library: frames, versions, headers, and bytes that are not
Kafka's at all.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from compat_tests.clients.raw_connection import encode_request
from compat_tests.wire.hand_packed import CORRELATION_ID, int16, int32, request, text
from compat_tests.wire.wire_client import (
    API_VERSIONS,
    FETCH,
    METADATA,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    WireClient,
    code,
    fetch_fields,
)

LEADER_AND_ISR, VOTE = 4, 52
NO_TOPIC = int32(0)
MISSING = "no-such-topic"
ONE_MISSING_TOPIC = int32(1) + text(MISSING)


@pytest.fixture
def survives(connect: Callable[[], WireClient]) -> Callable[[], None]:
    """Asserts that the broker serves a second connection, opened before."""
    other = connect()

    def assert_served() -> None:
        assert other.call(API_VERSIONS, 0).error_code == 0
        assert connect().call(API_VERSIONS, 0).error_code == 0

    return assert_served


def served_range(wire: WireClient, key: int) -> tuple[int, int] | None:
    """Lowest and highest version of a key in ApiVersions v0."""
    answer = wire.call(API_VERSIONS, 0)
    found = {entry.api_key: (entry.min_version, entry.max_version) for entry in answer.api_keys}
    return found.get(key)


def answer_to(wire: WireClient, content: bytes) -> bytes:
    wire.send_frame(content)
    return wire.receive_frame()


@pytest.mark.row(228)
def test_a_version_of_api_versions_too_high_is_answered_in_version_0(wire: WireClient) -> None:
    lowest, highest = served_range(wire, API_VERSIONS) or (-1, -1)
    frame = answer_to(wire, request(API_VERSIONS, 99, b"\2a\2b\0", flexible=True))
    only_key = int32(1) + int16(API_VERSIONS) + int16(lowest) + int16(highest)
    assert frame == int32(CORRELATION_ID) + int16(35) + only_key


@pytest.mark.row(228)
def test_a_client_may_ask_again_on_the_same_connection(wire: WireClient) -> None:
    answer_to(wire, request(API_VERSIONS, 99, b"\2a\2b\0", flexible=True))
    assert wire.call(API_VERSIONS, 0).error_code == 0


@pytest.mark.row(229)
@pytest.mark.parametrize("name", ["", "a b"])
def test_a_client_must_name_its_software(wire: WireClient, name: str) -> None:
    answer = wire.call(API_VERSIONS, 3, client_software_name=name, client_software_version="1")
    assert (code(answer.error_code), answer.api_keys) == ("42 INVALID_REQUEST", ())


@pytest.mark.row(230)
def test_api_versions_may_be_asked_twice(wire: WireClient) -> None:
    software = {"client_software_name": "wire", "client_software_version": "1"}
    newer = wire.call(API_VERSIONS, 3, **software)
    older = wire.call(API_VERSIONS, 0)
    assert (code(newer.error_code), code(older.error_code)) == ("0", "0")
    assert {key.api_key for key in newer.api_keys} == {key.api_key for key in older.api_keys}


@pytest.mark.row(231, 232, 233, 234, 235)
@pytest.mark.parametrize("size", [-1, 0, 3, 2147483647, 104857601])
def test_a_frame_of_an_impossible_size_closes_the_connection(
    wire: WireClient, survives: Callable[[], None], size: int
) -> None:
    wire.send_bytes(int32(size) + b"abc")
    assert wire.what_comes() == "closed"
    survives()


@pytest.mark.row(236)
def test_the_largest_frame_is_waited_for(wire: WireClient, survives: Callable[[], None]) -> None:
    wire.send_bytes(int32(104857600))
    assert wire.what_comes(0.3) == "silence"
    survives()


@pytest.mark.row(237, 238, 239, 240, 243)
@pytest.mark.parametrize(
    "content",
    [
        request(999, 0),
        request(-1, 0),
        request(METADATA, 99, b"\1\0\0\0\0", flexible=True),
        request(METADATA, -1, NO_TOPIC),
        request(VOTE, 0, b"\0\1\0", flexible=True),
    ],
    ids=["unknown key", "negative key", "version too high", "negative version", "Vote"],
)
def test_what_is_not_served_closes_the_connection(
    wire: WireClient, survives: Callable[[], None], content: bytes
) -> None:
    wire.send_frame(content)
    assert wire.what_comes() == "closed"
    survives()


@pytest.mark.row(242)
def test_a_key_of_the_zookeeper_controller_is_closed_or_refused(
    wire: WireClient, survives: Callable[[], None], is_kafka: bool
) -> None:
    assert served_range(wire, LEADER_AND_ISR) is None
    # Controller id and epoch, no broker epoch; no topics, no leaders, no tagged fields.
    content = int32(0) + int32(0) + b"\xff" * 8 + b"\1\1\0"
    wire.send_frame(request(LEADER_AND_ISR, 4, content, flexible=True))
    if is_kafka:
        assert wire.what_comes() == "closed"
    else:
        # Correlation id, no tagged fields, CLUSTER_AUTHORIZATION_FAILED: Apache Kafka 3.9.2's answer
        # to who has no rights.
        assert wire.receive_frame()[:7] == int32(CORRELATION_ID) + b"\0" + int16(31)
    survives()


@pytest.mark.row(244, 245)
@pytest.mark.parametrize(
    "content",
    [
        request(METADATA, 1, ONE_MISSING_TOPIC),
        encode_request(METADATA, 9, CORRELATION_ID, topics=[{"name": MISSING}]),
        encode_request(METADATA, 12, CORRELATION_ID, topics=[{"name": MISSING}]),
    ],
    ids=["v1", "v9", "v12"],
)
def test_bytes_after_the_body_change_nothing(wire: WireClient, content: bytes) -> None:
    assert answer_to(wire, content + b"\0\1\2\xff") == answer_to(wire, content)


@pytest.mark.row(246, 247, 249)
@pytest.mark.parametrize(
    "body",
    [ONE_MISSING_TOPIC[:-2], int32(2147483647), int32(1) + int16(-5)],
    ids=["cut short", "array beyond the frame", "negative string"],
)
def test_a_body_that_cannot_be_read_closes_the_connection(
    wire: WireClient, survives: Callable[[], None], body: bytes
) -> None:
    wire.send_frame(request(METADATA, 1, body))
    assert wire.what_comes() == "closed"
    survives()


@pytest.mark.row(248)
def test_an_array_of_negative_length_is_no_array(wire: WireClient) -> None:
    # No array of topics asks for all of them.
    assert answer_to(wire, request(METADATA, 1, int32(-5))) == answer_to(
        wire, request(METADATA, 1, int32(-1))
    )


@pytest.mark.row(250)
def test_a_topic_name_that_is_not_utf_8_is_answered(wire: WireClient) -> None:
    frame = answer_to(wire, request(METADATA, 0, int32(1) + int16(2) + b"\xff\xfe"))
    replacements = "\N{REPLACEMENT CHARACTER}" * 2
    assert frame.endswith(int32(1) + int16(17) + text(replacements) + int32(0))


@pytest.mark.row(251, 252)
@pytest.mark.parametrize(
    "client_id",
    [int16(-1), int16(0), text("x" * 300), text("клиент 値"), int16(2) + b"\xff\xfe"],
    ids=["null", "empty", "long", "not ASCII", "not UTF-8"],
)
def test_any_client_id_is_served(wire: WireClient, client_id: bytes) -> None:
    header = int16(METADATA) + int16(1) + int32(CORRELATION_ID)
    usual = answer_to(wire, request(METADATA, 1, NO_TOPIC))
    assert answer_to(wire, header + client_id + NO_TOPIC) == usual


@pytest.mark.row(253)
def test_a_negative_correlation_id_is_echoed(wire: WireClient) -> None:
    header = int16(METADATA) + int16(1) + int32(-2) + text("raw")
    assert answer_to(wire, header + NO_TOPIC).startswith(int32(-2))


@pytest.mark.row(254)
def test_unknown_tagged_fields_are_skipped(wire: WireClient) -> None:
    plain = encode_request(METADATA, 9, CORRELATION_ID, topics=[])
    tagged = b"\1\x63\3abc"  # one field: tag 99, three bytes
    header_end = 8 + len(text("raw"))
    assert plain[header_end : header_end + 1] == plain[-1:] == b"\0"
    both = plain[:header_end] + tagged + plain[header_end + 1 : -1] + tagged
    assert answer_to(wire, both) == answer_to(wire, plain)


@pytest.mark.row(255)
def test_answers_keep_the_order_of_the_requests(wire: WireClient) -> None:
    topic = wire.create_topic()
    slow = encode_request(FETCH, 11, 101, **fetch_fields(topic, 0, max_wait=300))
    fast = request(METADATA, 1, NO_TOPIC)
    wire.send_bytes(int32(len(slow)) + slow + int32(len(fast)) + fast)
    first, second = wire.receive_frame(), wire.receive_frame()
    assert (first[:4], second[:4]) == (int32(101), int32(CORRELATION_ID))


@pytest.mark.row(256)
def test_a_handshake_is_refused_where_nobody_logs_in(wire: WireClient) -> None:
    if served_range(wire, SASL_HANDSHAKE) is None:
        pytest.skip("SaslHandshake is not served yet")
    answer = wire.call(SASL_HANDSHAKE, 1, mechanism="PLAIN")
    assert (code(answer.error_code), answer.mechanisms) == ("34 ILLEGAL_SASL_STATE", ())
    assert wire.call(API_VERSIONS, 0).error_code == 0


@pytest.mark.row(257)
def test_a_login_is_refused_where_nobody_logs_in(wire: WireClient) -> None:
    if served_range(wire, SASL_AUTHENTICATE) is None:
        pytest.skip("SaslAuthenticate is not served yet")
    answer = wire.call(SASL_AUTHENTICATE, 1, auth_bytes=b"\0user\0password")
    assert code(answer.error_code, answer.error_message) == (
        "34 ILLEGAL_SASL_STATE (SaslAuthenticate request received after successful authentication)"
    )


@pytest.mark.row(258, 259, 260, 261)
@pytest.mark.parametrize(
    "content",
    [
        int32(14) + b"\0user\0password",
        b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
        bytes.fromhex("16030100f8010000f40303") + b"\x55" * 242,
        b"PROXY TCP4 10.0.0.1 10.0.0.2 56324 9092\r\n",
    ],
    ids=["bare SASL token", "HTTP", "TLS", "PROXY line"],
)
def test_other_protocols_are_closed(
    wire: WireClient, survives: Callable[[], None], content: bytes
) -> None:
    wire.send_bytes(content)
    assert wire.what_comes() == "closed"
    survives()


@pytest.mark.row(262)
def test_a_request_may_come_byte_by_byte(wire: WireClient) -> None:
    content = request(API_VERSIONS, 0)
    for byte in int32(len(content)) + content:
        wire.send_bytes(bytes([byte]))
    assert wire.receive_frame()[:6] == int32(CORRELATION_ID) + int16(0)


def test_what_api_versions_lists_is_what_is_served(wire: WireClient) -> None:
    listed = {e.api_key: e for e in wire.call(API_VERSIONS, 0).api_keys}
    assert {0, 1, 2, 3, *range(8, 17), 18, 19, 20, 22, 32, 37, 42, 44, 60} <= listed.keys()
    assert all(entry.min_version <= entry.max_version for entry in listed.values())
