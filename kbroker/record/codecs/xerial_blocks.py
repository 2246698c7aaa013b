r"""Snappy in the framing of the xerial library, which Java writes, or one raw block.

    stream = "\x82SNAPPY\0", int32 version, int32 oldest reader, then blocks
    block  = int32 size, a raw block of snappy

Law: as `org.xerial.snappy.SnappyInputStream` reads it. Streams may follow each other, and fewer
than 4 bytes at the end are ignored. The versions of the first stream are not checked; later ones
must not be below 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final

from kbroker.record.codecs.payload import PIECE_BYTES, blocks, broken

MOST_RATIO: Final = 22  # a copy of snappy turns 3 bytes into 64

_MAGIC: Final = b"\x82SNAPPY\x00"
_HEADER: Final = _MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"  # version, oldest reader
_SIZE = Struct(">i")
_MAGIC_AS_SIZE: Final[int] = _SIZE.unpack(_MAGIC[:4])[0]
_BLOCK_BYTES: Final = 32 * 1024


def compress(data: Iterable[bytes | bytearray | memoryview]) -> bytes:
    """A stream of blocks of 32 KiB."""
    from cramjam import snappy  # at first use: start-up cost

    parts = [_HEADER]
    for plain in blocks(data, _BLOCK_BYTES):
        block = bytes(snappy.compress_raw(plain))
        parts += (_SIZE.pack(len(block)), block)
    return b"".join(parts)


def pieces(data: memoryview) -> Iterator[bytes]:
    """The data of all blocks, without empty ones."""
    if len(data) < len(_HEADER) or bytes(data[: len(_MAGIC)]) != _MAGIC:
        yield from _block(data)
        return
    at = len(_HEADER)
    while len(data) - at >= _SIZE.size:
        size: int = _SIZE.unpack_from(data, at)[0]
        if size == _MAGIC_AS_SIZE:
            at = _behind_later_header(data, at)
            continue
        at += _SIZE.size
        if not 0 <= size <= len(data) - at:
            broken(f"snappy block of {size} bytes, {len(data) - at} left")
        yield from _block(data[at : at + size])
        at += size


def _behind_later_header(data: memoryview, at: int) -> int:
    """The position where the blocks of a later stream begin; the end of everything if there is no
    stream and nothing follows.
    """
    end = at + len(_HEADER)
    if end > len(data):
        broken("snappy stream whose header is cut short")
    if bytes(data[at : at + len(_MAGIC)]) != _MAGIC:
        if len(data) - end >= _SIZE.size:
            broken("snappy stream with another magic after the first")
        return len(data)
    version: int = _SIZE.unpack_from(data, at + len(_MAGIC))[0]
    if version < 1:
        broken(f"snappy stream of version {version}")
    return end


def _block(block: memoryview) -> Iterator[bytes]:
    import cramjam  # at first use: start-up cost

    try:
        size: int = cramjam.snappy.decompress_raw_len(block)
        if size > len(block) * MOST_RATIO:
            broken(f"snappy block of {len(block)} bytes claims {size}")
        plain = bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        broken(error)
    if 0 < size <= PIECE_BYTES:
        yield plain
        return
    for start in range(0, size, PIECE_BYTES):
        yield plain[start : start + PIECE_BYTES]
