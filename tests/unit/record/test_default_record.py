from __future__ import annotations

import pytest

from kbroker.errors import ErrorCode, KafkaError
from kbroker.record.default_record import (
    Record,
    read_record,
    read_varint,
    skim_record,
    write_record,
)


@pytest.mark.parametrize(
    ("encoded", "value"),
    [("00", 0), ("01", -1), ("02", 1), ("7f", -64), ("8001", 64), ("ffffffff0f", -(2**31))],
)
def test_varints_are_zigzag(encoded: str, value: int) -> None:
    data = bytes.fromhex(encoded)

    assert read_varint(data, 0) == (value, len(data))


@pytest.mark.parametrize(
    ("encoded", "most_bytes", "value"),
    [
        ("8080808010", 5, 0),
        ("fdffffff7f", 5, -(2**31) + 1),
        ("8080808080808080807e", 10, 0),
        ("ffffffffffffffffff7f", 10, -(2**63)),
    ],
)
def test_bits_beyond_those_of_a_number_are_dropped(
    encoded: str, most_bytes: int, value: int
) -> None:
    data = bytes.fromhex(encoded)

    assert read_varint(data, 0, most_bytes) == (value, len(data))


def test_a_varint_of_six_bytes_is_invalid() -> None:
    with pytest.raises(KafkaError) as refused:
        read_varint(b"\x80\x80\x80\x80\x80\x01", 0)
    assert refused.value.code is ErrorCode.INVALID_RECORD


def test_a_header_key_that_is_no_utf8_survives() -> None:
    out = bytearray()
    record = Record(0, 0, None, None, ((b"\xff\xfe".decode("utf-8", "surrogateescape"), b"v"),))
    write_record(out, record, 0, 0)

    read, _ = read_record(out, 0, 0, 0)
    again = bytearray()
    write_record(again, read, 0, 0)

    assert (read, again) == (record, out)


@pytest.mark.parametrize("read", [skim_record, lambda data, at: read_record(data, at, 0, 0)])
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x02",  # length 1, nothing there
        b"\x0c\x00\x00\x00\x01\x01\x02",  # one header, no bytes for it
        b"\x10\x00\x00\x00\x01\x01\x02\x01\x01",  # header key of length -1
        b"\x0e\x00\x00\x00\x01\x01\x00\x00",  # longer than its fields
        b"\x0c\x00\x00\x00\x7e\x01\x00",  # key beyond the record
    ],
)
def test_records_that_lie_are_invalid(read: object, data: bytes) -> None:
    assert callable(read)
    with pytest.raises(KafkaError) as refused:
        read(data, 0)
    assert refused.value.code is ErrorCode.INVALID_RECORD
