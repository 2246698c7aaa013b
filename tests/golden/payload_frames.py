"""Batches whose payloads are put together by hand, because the libraries write no odd ones."""

from __future__ import annotations

import struct
import zlib

import cramjam
from fastcrc.crc32 import iscsi as crc32c

from kbroker.record.codecs.lz4_checksum import xxh32_short
from kbroker.record.default_record import Record
from kbroker.record.record_batch import (
    ATTRIBUTES_POSITION,
    CRC_POSITION,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    BatchOptions,
    build,
    unsealed_header,
)

as_le = struct.Struct("<I").pack
as_be = struct.Struct(">I").pack
LZ4_MAGIC = b"\x04\x22\x4d\x18"
LZ4_END = bytes(4)
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
XERIAL = b"\x82SNAPPY\x00" + as_be(1) + as_be(1)
TIME_MS = 1_795_000_000_000
SKIPPABLE = b"\x50\x2a\x4d\x18"


def plain_of(count: int, size: int = 30) -> bytes:
    """`count` records, uncompressed."""
    records = [
        Record(index, TIME_MS + index, b"k%d" % index, b"%d " % (index * 7919) * (size // 6))
        for index in range(count)
    ]
    return build(records)[HEADER_SIZE:]


def batch_of(codec: int, payload: bytes, count: int = 3) -> bytes:
    """A batch whose header claims `count` records, around a payload that is taken as it is."""
    header = unsealed_header(
        BatchOptions(compression=codec),
        base_offset=0,
        last_offset=count - 1,
        base_timestamp=TIME_MS,
        max_timestamp=TIME_MS + count - 1,
        record_count=count,
    )
    batch = bytearray(HEADER_SIZE) + payload
    HEADER.pack_into(batch, 0, *header._replace(batch_length=len(batch) - LOG_OVERHEAD))
    struct.pack_into(">I", batch, CRC_POSITION, crc32c(bytes(batch[ATTRIBUTES_POSITION:])))
    return bytes(batch)


def message_of(magic: int, attributes: int, value: bytes, offset: int = 0) -> bytes:
    """A message of format 0 or 1 without key, around a value that is taken as it is."""
    time = struct.pack(">q", TIME_MS) if magic else b""
    body = bytes((magic, attributes)) + time + as_be(0xFFFF_FFFF) + as_be(len(value)) + value
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


SMALL = plain_of(3)
LARGE = plain_of(3, 120_000)  # of several blocks


def lz4_header(flags: int = 0x60, sizes: int = 0x40, more: bytes = b"") -> bytes:
    described = bytes((flags, sizes)) + more
    return LZ4_MAGIC + described + bytes((xxh32_short(described) >> 8 & 0xFF,))


def lz4_block(plain: bytes) -> bytes:
    block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
    return as_le(len(block)) + block


def lz4_stored(plain: bytes) -> bytes:
    return as_le(len(plain) | 0x8000_0000) + plain


def lz4_of(plain: bytes, header: bytes = lz4_header(), end: bytes = LZ4_END) -> bytes:
    pieces = [lz4_block(plain[at : at + 65_536]) for at in range(0, len(plain), 65_536)]
    return header + b"".join(pieces) + end


def lz4_of_library(
    plain: bytes, *, block_linked: bool = False, content_checksum: bool = False
) -> bytes:
    """A frame whose blocks have checksums."""
    packer = cramjam.lz4.Compressor(block_linked=block_linked, content_checksum=content_checksum)
    packer.compress(plain)
    return bytes(packer.finish())


def gzip_member(plain: bytes, flags: int = 0, more: bytes = b"", level: int = 6) -> bytes:
    packer = zlib.compressobj(level, wbits=-15)
    body = packer.compress(plain) + packer.flush()
    head = b"\x1f\x8b\x08" + bytes((flags,)) + bytes(4) + b"\0\xff" + more
    if flags & 2:
        head += struct.pack("<H", zlib.crc32(head) & 0xFFFF)
    return head + body + as_le(zlib.crc32(plain)) + as_le(len(plain))


def gzip_of_input(plain: bytes, size_bytes: int) -> bytes:
    """A member whose compressed data takes so many bytes: `plain` after stored blocks of nothing."""
    nothing = b"\0\0\0\xff\xff"
    for packed in range(len(plain)):
        packer = zlib.compressobj(6, wbits=-15)
        start = packer.compress(plain[:packed]) + packer.flush(zlib.Z_FULL_FLUSH)
        rest = plain[packed:]
        body = start + b"\1" + struct.pack("<HH", len(rest), len(rest) ^ 0xFFFF) + rest
        fill, uneven = divmod(size_bytes - len(body), len(nothing))
        if not uneven:
            break
    head = b"\x1f\x8b\x08\0" + bytes(4) + b"\0\xff"
    return head + nothing * fill + body + as_le(zlib.crc32(plain)) + as_le(len(plain))


def snappy_raw(plain: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(plain))


def snappy_block(plain: bytes) -> bytes:
    raw = snappy_raw(plain)
    return as_be(len(raw)) + raw


def zstd_raw_block(plain: bytes, is_last: bool = True) -> bytes:
    return (len(plain) << 3 | is_last).to_bytes(3, "little") + plain


def zstd_repeated(byte: int, count: int, is_last: bool = True) -> bytes:
    return (count << 3 | 2 | is_last).to_bytes(3, "little") + bytes((byte,))


def zstd_frame(
    blocks: bytes, *, window_log: int = 20, flags: int = 0, more: bytes = b"", tail: bytes = b""
) -> bytes:
    window = b"" if flags & 0x20 else bytes(((window_log - 10) << 3,))
    return ZSTD_MAGIC + bytes((flags,)) + window + more + blocks + tail


def zstd_ending_at(plain: bytes, size_bytes: int) -> bytes:
    """A frame behind one that is skipped, of so many bytes together."""
    frame = zstd_frame(zstd_raw_block(plain))
    skipped = size_bytes - len(frame) - 8
    return SKIPPABLE + as_le(skipped) + bytes(skipped) + frame
