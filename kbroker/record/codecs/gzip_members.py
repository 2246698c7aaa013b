"""gzip (RFC 1952): members one after the other, each a header, deflated data, CRC and size.

    header  = 1f 8b, method 8, flags, 6 bytes that nobody reads; then by flags: extra fields (4),
              name (8), comment (16), checksum of the header (2)
    trailer = uint32 CRC-32, uint32 size of the data, both little-endian

Law: bytes after a member are read as `java.util.zip.GZIPInputStream` reads them, since its choice
decides how many records there are. Bytes that do not begin like a header are ignored. So are 18
bytes or fewer, if all of them came with the last read of 8 KiB.
"""

from __future__ import annotations

import zlib
from collections.abc import Generator, Iterable, Iterator
from struct import Struct
from typing import Final

from kbroker.record.codecs.payload import PIECE_BYTES, broken

# As Java writes it: deflate, no flags, no time, no word on the effort, unknown system.
_HEADER: Final = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
START: Final = _HEADER[:2]
DEFAULT_LEVEL: Final = -1

_TRAILER = Struct("<II")  # CRC-32 and size of the data
_RAW: Final = -15  # zlib: 32 KiB window, neither header nor trailer
_MAGIC_AND_METHOD: Final = _HEADER[:3]
_FLAGS_POSITION: Final = 3
_HEADER_CHECKSUM, _EXTRA, _NAME, _COMMENT = 2, 4, 8, 16
_JAVA_READ_BYTES: Final = 8192
_JAVA_LEAVES_BYTES: Final = 18
# The bytes after a member are copied: copying all of them would make many small members slow.
_INPUT_BYTES: Final = 8192
_FIRST_INPUT_BYTES: Final = PIECE_BYTES
_SEARCHED_BYTES: Final = 1024


def compress(data: Iterable[bytes | bytearray | memoryview], level: int) -> bytes:
    """One member of these pieces."""
    packer = zlib.compressobj(level, wbits=_RAW)
    parts = [_HEADER]
    crc = size = 0
    for piece in data:
        parts.append(packer.compress(piece))
        crc = zlib.crc32(piece, crc)
        size += len(piece)
    parts += (packer.flush(), _TRAILER.pack(crc, size & 0xFFFF_FFFF))
    return b"".join(parts)


def pieces(data: memoryview) -> Iterator[bytes]:
    """The data of all members."""
    at = _behind_header(data, 0)
    if at is None:
        broken("no gzip header")
    java_read_to = at
    input_bytes = _FIRST_INPUT_BYTES
    while at is not None:
        java_read_to = max(java_read_to, at)
        end = yield from _member(data, at, input_bytes)
        java_read_to += -(-max(end - java_read_to, 0) // _JAVA_READ_BYTES) * _JAVA_READ_BYTES
        end += _TRAILER.size
        if java_read_to >= len(data) and len(data) - end <= _JAVA_LEAVES_BYTES:
            return
        at = _behind_header(data, end)
        input_bytes = _INPUT_BYTES


def _member(data: memoryview, at: int, input_bytes: int) -> Generator[bytes, None, int]:
    """Yield the data that begins at `at`; return where its trailer begins, which fits."""
    unpacker = zlib.decompressobj(_RAW)
    crc = size = 0
    while not unpacker.eof:
        given = data[at : at + input_bytes]
        try:
            piece = unpacker.decompress(given, PIECE_BYTES)
        except zlib.error as error:
            broken(error)
        if not given and not piece and not unpacker.eof:
            broken("gzip stream cut short")
        at += len(given) - len(unpacker.unused_data if unpacker.eof else unpacker.unconsumed_tail)
        if piece:
            crc = zlib.crc32(piece, crc)
            size += len(piece)
            yield piece
    if _TRAILER.pack(crc, size & 0xFFFF_FFFF) != data[at : at + _TRAILER.size]:
        broken("gzip stream of another checksum or size than its trailer says")
    return at


def _behind_header(data: memoryview, at: int) -> int | None:
    """The position where the data of the member at `at` begins; None without a whole header."""
    start = at
    at += len(_HEADER)
    if data[start : start + 3] != _MAGIC_AND_METHOD or at > len(data):
        return None
    flags = data[start + _FLAGS_POSITION]
    if flags & _EXTRA:
        at += 2 + int.from_bytes(data[at : at + 2], "little")
    for flag in (_NAME, _COMMENT):
        if flags & flag:
            at = _behind_zero(data, at)
    if flags & _HEADER_CHECKSUM:
        stored = int.from_bytes(data[at : at + 2], "little")
        if stored != zlib.crc32(data[start:at]) & 0xFFFF:
            return None
        at += 2
    return at if at <= len(data) else None


def _behind_zero(data: memoryview, at: int) -> int:
    """The position after the next zero, or beyond the end if there is none."""
    while at < len(data):
        found = bytes(data[at : at + _SEARCHED_BYTES]).find(0)
        if found >= 0:
            return at + found + 1
        at += _SEARCHED_BYTES
    return len(data) + 1
