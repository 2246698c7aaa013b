from __future__ import annotations

import pytest

from kbroker.errors import ProtocolError
from kbroker.protocol.header import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request_header,
    encode_response_header,
    request_header_version,
    response_header_version,
)
from kbroker.protocol.messages.api_versions import ApiVersionsRequest
from kbroker.protocol.messages.heartbeat import HeartbeatRequest
from kbroker.protocol.schema import message_spec

assert message_spec(ApiVersionsRequest).key == 18  # imported: their keys are known to the header
assert message_spec(HeartbeatRequest).key == 12


@pytest.mark.parametrize(
    ("key", "version", "request_version", "response_version"),
    [(12, 3, 1, 0), (12, 4, 2, 1), (18, 0, 1, 0), (18, 3, 2, 0), (18, 99, 2, 0), (7, 0, 0, 0)],
)
def test_header_version_follows_from_key_and_version(
    key: int, version: int, request_version: int, response_version: int
) -> None:
    assert request_header_version(key, version) == request_version
    assert response_header_version(key, version) == response_version


@pytest.mark.parametrize(
    ("header", "encoded"),
    [
        (RequestHeader(12, 3, 7, "me"), "000c 0003 00000007 0002 6d65"),
        (RequestHeader(12, 4, 7, "me"), "000c 0004 00000007 0002 6d65 00"),
        (RequestHeader(12, 3, -2, None), "000c 0003 fffffffe ffff"),
        (RequestHeader(12, 4, 7, ""), "000c 0004 00000007 0000 00"),
        (RequestHeader(7, 0, 7, None), "0007 0000 00000007"),
    ],
)
def test_request_headers_are_read_and_written(header: RequestHeader, encoded: str) -> None:
    data = bytes.fromhex(encoded)

    assert encode_request_header(header) == data
    assert decode_request_header(b"??" + data + b"body", 2) == (header, 2 + len(data))


def test_client_id_that_is_not_utf8_is_replaced() -> None:
    data = bytes.fromhex("000c 0003 00000007 0002 ff41")

    assert decode_request_header(data)[0].client_id == "\N{REPLACEMENT CHARACTER}A"


def test_unknown_tagged_fields_of_the_header_are_skipped() -> None:
    data = bytes.fromhex("000c 0004 00000007 ffff 02 00 01 aa 63 02 bbcc")

    assert decode_request_header(data) == (RequestHeader(12, 4, 7, None), len(data))


@pytest.mark.parametrize(
    ("encoded", "reason"),
    [
        ("000c", "request header of 2 bytes"),
        ("000c 0003 00000007 00", "ends before the client id"),
        ("000c 0003 00000007 fffe", "client id of -2 bytes"),
        ("000c 0003 00000007 0003 6d65", "client id of 3 bytes, 2 remain"),
        ("000c 0004 00000007 0002 6d65", "ends inside its tagged fields"),
        ("000c 0004 00000007 ffff 02 0000 0000", "tag 0 after tag 0"),
        ("03e7 0000 00000007 ffff", "does not serve API key 999"),
        ("ffff 0000 00000007 ffff", "does not serve API key -1"),
    ],
)
def test_bytes_that_are_no_header_are_refused(encoded: str, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        decode_request_header(bytes.fromhex(encoded))


@pytest.mark.parametrize(
    ("key", "version", "encoded"),
    [(12, 3, "00000007"), (12, 4, "0000000700"), (18, 4, "00000007")],
)
def test_response_headers_are_read_and_written(key: int, version: int, encoded: str) -> None:
    data = bytes.fromhex(encoded)

    assert encode_response_header(key, version, 7) == data
    assert decode_response_header(data + b"body", key, version) == (7, len(data))


def test_response_header_that_is_cut_is_refused() -> None:
    with pytest.raises(ProtocolError, match="response header of 3 bytes"):
        decode_response_header(b"\0\0\0", 12, 3)
