from __future__ import annotations

import gzip
import random
import zlib
from typing import Any

import cramjam
import pytest

from kbroker.errors import ErrorCode, KafkaError
from kbroker.record.compression import (
    GZIP,
    LZ4,
    SNAPPY,
    ZSTD,
    compress,
    decompress,
    decompress_into,
)

CODECS = [GZIP, SNAPPY, LZ4, ZSTD]
MIXED = bytes(range(256)) * 1000


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("data", [b"a", b"abc" * 100_000, MIXED], ids=["one", "even", "mixed"])
def test_what_goes_in_comes_out(codec: int, data: bytes) -> None:
    assert bytes(decompress(codec, compress(codec, data))) == data


@pytest.mark.parametrize("codec", CODECS)
def test_output_stops_at_the_cap(codec: int) -> None:
    bomb = compress(codec, bytes(5_000_000))

    assert len(decompress(codec, bomb, 5_000_000)) == 5_000_000
    with pytest.raises(KafkaError) as refused:
        decompress(codec, bomb, 4_999_999)
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("keep", [3, 20, -2])
def test_a_payload_cut_short_is_an_invalid_record(codec: int, keep: int) -> None:
    with pytest.raises(KafkaError) as refused:
        decompress(codec, compress(codec, MIXED)[:keep])
    assert refused.value.code is ErrorCode.INVALID_RECORD


def test_snappy_without_xerial_framing_is_read() -> None:
    assert decompress(SNAPPY, bytes(cramjam.snappy.compress_raw(MIXED))) == MIXED


def test_snappy_is_written_with_the_header_java_writes() -> None:
    assert bytes(compress(SNAPPY, b"x")[:16]).hex() == "82534e41505059000000000100000001"


def test_a_snappy_block_that_claims_gigabytes_is_refused_unseen() -> None:
    with pytest.raises(KafkaError) as refused:
        decompress(SNAPPY, b"\xff\xff\xff\xff\x0f\x00")
    assert refused.value.code is ErrorCode.INVALID_RECORD


def test_gzip_members_are_joined() -> None:
    assert bytes(decompress(GZIP, gzip.compress(b"one") + gzip.compress(b"two"))) == b"onetwo"


def test_gzip_members_of_any_size_are_joined() -> None:
    parts = [MIXED[:size] for size in (0, 1, 100, 9_000, 200_000, 3, 0)] * 40

    assert decompress(GZIP, b"".join(map(gzip.compress, parts))) == b"".join(parts)


def test_many_gzip_members_are_not_copied_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[int] = []
    unpacker = zlib.decompressobj

    class Unpacker:
        def __init__(self, window: int) -> None:
            self._unpacker = unpacker(window)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._unpacker, name)

        def decompress(self, data: memoryview, most_bytes: int) -> bytes:
            given.append(len(data))
            return self._unpacker.decompress(data, most_bytes)

    monkeypatch.setattr(zlib, "decompressobj", Unpacker)

    assert decompress(GZIP, gzip.compress(b"") * 20_000) == b""
    assert len(given) == 20_000
    assert max(given[1:]) <= 8192


def test_lz4_blocks_that_do_not_shrink_are_stored() -> None:
    noise = bytes((index * 7919 + index // 251 * 31) % 251 for index in range(300))
    frame = compress(LZ4, noise)

    assert bytes(cramjam.lz4.decompress(frame)) == noise


def test_gzip_has_the_header_that_java_writes() -> None:
    packed = bytes(compress(GZIP, MIXED, 9))

    assert packed[:10] == b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
    assert gzip.decompress(packed) == MIXED


TEXT = b" ".join(b"%d words %x" % (i * i % 977, i * 7919 % 65_521) for i in range(20_000))


@pytest.mark.parametrize(
    ("codec", "low", "high"), [(GZIP, 1, 9), (LZ4, 1, 17), (ZSTD, -5, 19)], ids=["gzip", "lz4", "z"]
)
def test_a_level_says_how_small(codec: int, low: int, high: int) -> None:
    quick, small = compress(codec, TEXT, low), compress(codec, TEXT, high)

    assert len(small) < len(quick)
    assert bytes(decompress(codec, quick)) == bytes(decompress(codec, small)) == TEXT


def test_lz4_at_a_level_keeps_blocks_that_cannot_shrink() -> None:
    noise = random.Random(3).randbytes(200_000)

    assert bytes(decompress(LZ4, compress(LZ4, noise, 12))) == noise
    assert decompress(LZ4, compress(LZ4, b"", 12)) == b""


def test_every_level_of_lz4_but_the_default_is_of_the_high_compressor() -> None:
    assert compress(LZ4, TEXT, 1) == compress(LZ4, TEXT, 2)
    assert len(compress(LZ4, TEXT, 1)) < len(compress(LZ4, TEXT, 9))


@pytest.mark.parametrize("level", [3, 9])
def test_lz4_frames_have_one_header_at_every_level(level: int) -> None:
    assert compress(LZ4, TEXT, level)[:7] == b"\x04\x22\x4d\x18\x60\x40\x82"


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("level", [None, 1])
def test_any_buffer_is_compressed(codec: int, level: int | None, kind: type) -> None:
    assert bytes(decompress(codec, compress(codec, kind(MIXED), level))) == MIXED


def test_lz4_at_a_level_gives_the_interpreter_up_at_every_block(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[int] = []
    compressor = cramjam.lz4.Compressor

    class Packer:
        def __init__(self, **options: Any) -> None:
            self._packer = compressor(**options)
            self.finish = self._packer.finish

        def compress(self, data: bytes) -> None:
            given.append(len(data))
            self._packer.compress(data)

    plain = TEXT * (200_000 // len(TEXT) + 1)
    at_once = compress(LZ4, plain, 5)
    monkeypatch.setattr(cramjam.lz4, "Compressor", Packer)

    assert compress(LZ4, plain, 5) == at_once
    assert max(given) == 64 * 1024
    assert sum(given) == len(plain)


@pytest.mark.parametrize(("codec", "level"), [(GZIP, -1), (LZ4, 9), (ZSTD, 3)])
def test_the_default_level_is_kafkas(codec: int, level: int) -> None:
    assert compress(codec, TEXT) == compress(codec, TEXT, level)


@pytest.mark.parametrize("codec", [LZ4, ZSTD])
def test_a_frame_is_unpacked_to_the_front_of_a_room(codec: int) -> None:
    data = b"records " * 1000
    room = bytearray(len(data) + 10)

    written = decompress_into(codec, compress(codec, data), memoryview(room))

    assert written == len(data)
    assert room == data + bytes(10)


@pytest.mark.parametrize("codec", [LZ4, ZSTD])
def test_a_frame_that_does_not_fit_into_a_room_is_none(codec: int) -> None:
    data = b"records " * 1000

    assert decompress_into(codec, compress(codec, data), bytearray(len(data) - 1)) is None


@pytest.mark.parametrize("codec", [LZ4, ZSTD])
def test_a_broken_frame_is_refused_whatever_the_room(codec: int) -> None:
    with pytest.raises(KafkaError, match="cannot be read"):
        decompress_into(codec, b"no frame at all", bytearray(100))


def test_other_codecs_want_their_own_buffer() -> None:
    assert decompress_into(GZIP, compress(GZIP, b"records"), bytearray(100)) is None
