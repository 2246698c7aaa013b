"""LZ4 frames: a header, blocks that each stand alone, an end mark.

    frame  = uint32 magic, flags, block sizes, content size (8 bytes, if flagged), header checksum,
             blocks, a size of 0, content checksum (4 bytes, if flagged)
    block  = uint32 size (top bit set: stored as it is), data, checksum (4 bytes, if flagged)

Law: one frame, as Java's `Lz4BlockInputStream` reads it. Blocks that need the one before, and
dictionaries, are refused. Content size and content checksum are not compared with the data, and
bytes after the frame are ignored. A block that unpacks to nothing ends the frame, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct
from struct import error as struct_error
from typing import Final, NamedTuple

from kbroker.errors import KafkaError
from kbroker.record.codecs.lz4_checksum import xxh32_short
from kbroker.record.codecs.payload import PIECE_BYTES, blocks, broken

Bytes = bytes | bytearray | memoryview

DEFAULT_LEVEL: Final = 9
MOST_RATIO: Final = 255  # each further byte of a length stands for so many bytes
START: Final = b"\x04\x22\x4d\x18"

_HIGH_LEVEL_MIN: Final = 2
# Version 1 with independent blocks, blocks of up to 64 KiB, checksum of these two bytes.
_HEADER: Final = START + b"\x60\x40\x82"
_BLOCK_BYTES: Final = 64 * 1024
_SIZE = Struct("<I")
_STORED: Final = 0x8000_0000  # a block that did not shrink is kept as it is
_CHECKSUM_BYTES: Final = 4
_END_MARK: Final = bytes(_SIZE.size)

_DESCRIPTOR: Final = len(START)
_VERSION_AND_KIND: Final = 0xE3  # of the flags: version, independence, a reserved bit, dictionary
_INDEPENDENT: Final = 0x60
_BLOCK_CHECKSUM, _CONTENT_SIZE, _CONTENT_CHECKSUM = 0x10, 0x08, 0x04
_MOST_BLOCK_BYTES: Final = {0x40: 1 << 16, 0x50: 1 << 18, 0x60: 1 << 20, 0x70: 1 << 22}
_LEAST_ROOM: Final = 64  # for the plain bytes of a block, however short it is


class _Frame(NamedTuple):
    """A frame's header, and the place of its first block."""

    start: int  # position of the first block
    block_bytes: int  # plain, at most
    checks_blocks: bool
    checks_content: bool


class _Block(NamedTuple):
    start: int
    end: int
    is_stored: bool


_USUAL: Final = _Frame(len(_HEADER), _BLOCK_BYTES, checks_blocks=False, checks_content=False)


def compress(data: Iterable[Bytes], level: int) -> bytes:
    """A frame of independent 64 KiB blocks without content size: all that Java's reader takes, and
    small there. As in Kafka the default level stands for the fast compressor.
    """
    if level != DEFAULT_LEVEL:
        return _compress_high(data, level)
    from cramjam import lz4  # at first use: start-up cost

    parts = [_HEADER]
    for plain in blocks(data, _BLOCK_BYTES):
        block = bytes(lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            parts += (_SIZE.pack(len(block)), block)
        else:
            parts += (_SIZE.pack(len(plain) | _STORED), bytes(plain))
    parts.append(_END_MARK)
    return b"".join(parts)


def _compress_high(data: Iterable[Bytes], level: int) -> bytes:
    """The same frame from the library's own, whose blocks each have a checksum after them."""
    from cramjam import lz4  # at first use: start-up cost

    # Java's compressor starts where the frame's level 2 does; its level 1 is the fast one.
    level = max(level, _HIGH_LEVEL_MIN)
    packer = lz4.Compressor(level=level, content_checksum=False, block_linked=False)
    for plain in blocks(data, _BLOCK_BYTES):  # in between other threads get their turn
        packer.compress(bytes(plain))  # takes nothing else
    frame = memoryview(packer.finish())
    parts: list[Bytes] = [_HEADER]
    at = len(_HEADER)
    while size := _SIZE.unpack_from(frame, at)[0] & ~_STORED:
        end = at + _SIZE.size + size
        parts.append(frame[at:end])
        at = end + _CHECKSUM_BYTES
    parts.append(_END_MARK)
    return b"".join(parts)


def pieces(data: memoryview) -> Iterator[bytearray]:
    """The data of the frame, of several blocks at a time."""
    frame = _read_header(data)
    at: int | None = frame.start
    while at is not None:
        some, room_bytes, at = _some_blocks(frame, data, at)
        room = bytearray(room_bytes)
        written = 0
        with memoryview(room) as view:
            for block in some:
                size = _unpack(frame, data, block, view[written : written + frame.block_bytes])
                written += size
                if not size:
                    at = None
                    break
        del room[written:]
        if written:
            yield room


def unpack_into(data: memoryview, room: memoryview) -> int | None:
    """Unpack the frame to the front of `room`: the number of bytes, None if they do not fit."""
    frame = _read_header(data)
    at: int | None = frame.start
    written = 0
    while at is not None:
        some, _, at = _some_blocks(frame, data, at)
        for block in some:
            place = room[written : written + frame.block_bytes]
            try:
                size = _unpack(frame, data, block, place)
            except KafkaError:
                if len(place) < frame.block_bytes:
                    return None
                raise
            if not size:
                return written
            written += size
    return written


def _read_header(data: memoryview) -> _Frame:
    given = bytes(data[: len(_HEADER)])
    if given == _HEADER:
        return _USUAL
    if len(given) < len(_HEADER) or not given.startswith(START):
        broken("no lz4 frame header")
    flags, sizes = given[_DESCRIPTOR], given[_DESCRIPTOR + 1]
    if flags & _VERSION_AND_KIND != _INDEPENDENT:
        broken(f"lz4 frame with the flags {flags:#x}, not one of independent blocks")
    if sizes not in _MOST_BLOCK_BYTES:
        broken(f"lz4 frame with the block sizes {sizes:#x}")
    end = len(_HEADER) + (8 if flags & _CONTENT_SIZE else 0)
    if end > len(data):
        broken("lz4 frame header cut short")
    if xxh32_short(bytes(data[_DESCRIPTOR : end - 1])) >> 8 & 0xFF != data[end - 1]:
        broken("lz4 frame header with a wrong checksum")
    return _Frame(
        end,
        _MOST_BLOCK_BYTES[sizes],
        checks_blocks=bool(flags & _BLOCK_CHECKSUM),
        checks_content=bool(flags & _CONTENT_CHECKSUM),
    )


def _some_blocks(frame: _Frame, data: memoryview, at: int) -> tuple[list[_Block], int, int | None]:
    """The blocks from `at` on that unpack to about a piece, the room they need, and the position
    after them; None at the end of the frame.
    """
    some: list[_Block] = []
    room_bytes = 0
    while room_bytes < PIECE_BYTES:
        try:
            block = _block_at(frame, data, at)
        except KafkaError:
            if not some:
                raise
            break  # one of these may be the end
        if block is None:
            return some, room_bytes, None
        some.append(block)
        room_bytes += min(frame.block_bytes, _LEAST_ROOM + MOST_RATIO * (block.end - block.start))
        at = block.end + (_CHECKSUM_BYTES if frame.checks_blocks else 0)
    return some, room_bytes, at


def _block_at(frame: _Frame, data: memoryview, at: int) -> _Block | None:
    """The block whose size is at this position; None at the end mark."""
    try:
        field: int = _SIZE.unpack_from(data, at)[0]
    except struct_error:
        broken("lz4 frame without its end")
    size = field & ~_STORED
    start = at + _SIZE.size
    checksum_bytes = _CHECKSUM_BYTES if frame.checks_blocks else 0
    if not size:
        if frame.checks_content and start + _CHECKSUM_BYTES > len(data):
            broken("lz4 frame without its checksum")
        return None
    if size > frame.block_bytes or start + size + checksum_bytes > len(data):
        broken(f"lz4 block of {size} bytes, {len(data) - start} left")
    return _Block(start, start + size, field != size)


def _unpack(frame: _Frame, data: memoryview, block: _Block, room: memoryview) -> int:
    """Unpack a block to the front of `room`: the number of bytes."""
    import cramjam  # at first use: start-up cost

    start, end, is_stored = block
    try:
        if frame.checks_blocks:
            checked = data[start - _SIZE.size : end + _CHECKSUM_BYTES]
            alone = b"".join((_CHECKED_HEADER, checked, _END_MARK))
            return int(cramjam.lz4.decompress_into(alone, room))
        if not is_stored:
            return int(cramjam.lz4.decompress_block_into(data[start:end], room))
        room[: end - start] = data[start:end]
    except (cramjam.DecompressionError, ValueError) as error:
        broken(error)
    return end - start


# Blocks of up to 4 MiB, each with a checksum: one block behind it is looked at by the library.
_CHECKED_DESCRIPTOR: Final = bytes((_INDEPENDENT | _BLOCK_CHECKSUM, 0x70))
_CHECKED_HEADER: Final = b"".join(
    (START, _CHECKED_DESCRIPTOR, bytes((xxh32_short(_CHECKED_DESCRIPTOR) >> 8 & 0xFF,)))
)
