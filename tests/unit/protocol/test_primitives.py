from __future__ import annotations

from uuid import UUID

import pytest

from kbroker.errors import ProtocolError
from kbroker.model import ZERO_UUID
from kbroker.protocol.primitives import (
    pack_many,
    read_tag,
    read_uvarint,
    skip_tags,
    uuid_from_bytes,
    write_uvarint,
)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (1, "01"),
        (127, "7f"),
        (128, "8001"),
        (300, "ac02"),
        (511, "ff03"),
        (512, "8004"),
        (16383, "ff7f"),
        (16384, "808001"),
        (2**31 - 1, "ffffffff07"),
        (2**35 - 1, "ffffffff7f"),
    ],
)
def test_unsigned_varint_has_seven_bits_to_the_byte(value: int, encoded: str) -> None:
    assert write_uvarint(value).hex() == encoded
    assert read_uvarint(bytes.fromhex("aa" + encoded + "bb"), 1) == (value, 1 + len(encoded) // 2)


def test_varint_of_six_bytes_is_refused() -> None:
    with pytest.raises(ProtocolError, match="longer than 5 bytes"):
        read_uvarint(b"\x80\x80\x80\x80\x80\x00", 0)


def test_varint_that_is_cut_leaves_an_index_error_to_the_codec() -> None:
    with pytest.raises(IndexError):
        read_uvarint(b"\x80\x80", 0)


def test_uuid_of_zeros_is_the_zero_uuid_itself() -> None:
    assert uuid_from_bytes(bytes(16)) is ZERO_UUID
    assert uuid_from_bytes(bytes(15) + b"\x05") == UUID(int=5)


def test_skipped_tags_count_against_what_is_allowed() -> None:
    tags = memoryview(b"\x00\x02ab\x07\x00end")

    assert skip_tags(tags, 0, len(tags), 2, 10) == (6, 8)


@pytest.mark.parametrize("content", [b"\x03\x00\x03\x00", b"\x03\x00\x02\x00"])
def test_tags_that_do_not_ascend_are_refused(content: bytes) -> None:
    with pytest.raises(ProtocolError, match="after tag 3"):
        skip_tags(memoryview(content), 0, len(content), 2, 10)


def test_more_unknown_tags_than_allowed_are_refused_before_they_are_read() -> None:
    with pytest.raises(ProtocolError, match="unknown tagged fields"):
        skip_tags(memoryview(b""), 0, 0, 11, 10)


def test_tag_larger_than_what_remains_is_refused() -> None:
    with pytest.raises(ProtocolError, match="tagged field of 4 bytes, 3 remain"):
        read_tag(memoryview(b"\x00\x04abc"), 0, 5, -1)


def test_numbers_of_one_kind_are_packed_big_endian() -> None:
    assert pack_many("h", [1, -1]).hex() == "0001ffff"
