from __future__ import annotations

import cramjam
import pytest

from kbroker.record.codecs.lz4_checksum import (
    with_format_0_checksum,
    with_right_checksum,
    xxh32_short,
)
from kbroker.record.compression import LZ4, compress, decompress

# Values of the reference implementation, seed 0.
KNOWN = [(b"", 0x02CC5D05), (b"a", 0x550D7456), (b"abc", 0x32D153FF), (b"abcd", 0xA3643705)]


@pytest.mark.parametrize(("data", "expected"), KNOWN)
def test_the_hash_is_xxhash32(data: bytes, expected: int) -> None:
    assert xxh32_short(data) == expected


def test_a_frame_of_format_0_differs_in_its_sixth_byte_alone() -> None:
    frame = bytes(compress(LZ4, b"abc" * 100))

    old = with_format_0_checksum(frame)

    assert old[6] != frame[6]
    assert old[:6] + frame[6:7] + old[7:] == frame


def test_the_right_checksum_makes_an_old_frame_readable() -> None:
    old = with_format_0_checksum(compress(LZ4, b"abc" * 100))
    with pytest.raises(cramjam.DecompressionError):
        cramjam.lz4.decompress(old)

    assert bytes(decompress(LZ4, with_right_checksum(old))) == b"abc" * 100


def test_a_frame_that_holds_its_content_size_gets_its_checksum_behind_that() -> None:
    blocks = bytes(compress(LZ4, b"abc" * 100))[7:]
    unsigned = b"\x04\x22\x4d\x18" + b"\x68\x40" + (300).to_bytes(8, "little") + b"\x00" + blocks

    frame = with_right_checksum(unsigned)

    assert bytes(cramjam.lz4.decompress(frame)) == b"abc" * 100


@pytest.mark.parametrize("frame", [b"", b"\x04\x22\x4d\x18"])
def test_what_ends_before_the_descriptor_stays_as_it_is(frame: bytes) -> None:
    assert with_right_checksum(frame) == frame
    assert with_format_0_checksum(frame) == frame
