"""The codecs of record batches: gzip, snappy in xerial framing, lz4 frames, zstd.

Law: the caller bounds what comes out, because a small payload may claim any size, and a payload
that cannot be read is KafkaError(INVALID_RECORD). cramjam is imported at first use: it costs
start-up time and many brokers never need it.
"""

from __future__ import annotations

import zlib
from struct import Struct
from struct import error as struct_error
from types import ModuleType
from typing import Final

from kbroker.errors import ErrorCode, KafkaError

Bytes = bytes | bytearray | memoryview

NONE: Final = 0
GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4
COMPRESSION_MASK: Final = 0x07
CODEC_NAMES: Final = {NONE: "none", GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}
CODEC_IDS: Final = {name: codec for codec, name in CODEC_NAMES.items() if codec} | {
    "none": NONE,
    "uncompressed": NONE,
}
DEFAULT_MAX_BYTES: Final = 64 * 1024 * 1024

_GZIP_WINDOW: Final = 15 + 16  # zlib: 32 KiB window, gzip header and trailer
# As Java writes it: deflate, no flags, no time, no word on the effort, unknown system.
_GZIP_HEADER: Final = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
_GZIP_TRAILER = Struct("<II")  # CRC-32 and size of the data
_GZIP_INPUT_BYTES: Final = 8192  # what follows a member is copied: with all, many would be slow
_GZIP_LEVEL: Final = -1
_LZ4_LEVEL: Final = 9
_LZ4_HIGH_LEVEL_MIN: Final = 2
_ZSTD_LEVEL: Final = 3
_FIRST_GUESS_BYTES: Final = 16 * 1024
_STEP_BYTES: Final = 1024 * 1024  # of what is unpacked: beyond this no thread keeps others waiting
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = (
    _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
)  # version, oldest reader
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_BLOCK_SIZE = Struct(">i")
# Magic, version 1 with independent blocks, blocks of up to 64 KiB, checksum of these two bytes.
_LZ4_FRAME_HEADER: Final = b"\x04\x22\x4d\x18\x60\x40\x82"
_LZ4_BLOCK_BYTES: Final = 64 * 1024
_LZ4_BLOCK_SIZE = Struct("<I")
_LZ4_BLOCK_CHECKSUM_BYTES: Final = 4
_LZ4_STORED: Final = 0x8000_0000  # a block that did not shrink is kept as it is
_LZ4_END_MARK: Final = b"\x00\x00\x00\x00"
# How many bytes one byte can become: deflate repeats 258 bytes in 2 bits, a copy of snappy turns 3
# bytes into 64, each further length byte of lz4 stands for 255, and zstd's shortest block says in 4
# bytes that one byte comes 128 KiB times.
_MAX_RATIOS: Final = {GZIP: 1032, SNAPPY: 22, LZ4: 255, ZSTD: 32 * 1024}
# How every payload of a codec begins.
_STARTS: Final = {
    GZIP: _GZIP_HEADER[:2],
    LZ4: _LZ4_FRAME_HEADER[:4],
    ZSTD: b"\x28\xb5\x2f\xfd",
}


def compress(codec: int, data: Bytes, level: int | None = None) -> Bytes:
    """`data` under `codec` (1 to 4; 0 gives it back).

    `level` as in `compression.<codec>.level` (KIP-390): gzip 1 to 9 and -1 for the library's own,
    lz4 1 to 17, zstd -131072 to 22; None for the codec's default. snappy has none.
    """
    if codec == NONE:
        return data
    if codec == GZIP:
        return _compress_gzip(data, _GZIP_LEVEL if level is None else level)
    if codec == SNAPPY:
        return _compress_xerial(data)
    if codec == LZ4:
        return _compress_lz4(data, _LZ4_LEVEL if level is None else level)
    if codec == ZSTD:
        return bytes(_cramjam().zstd.compress(data, _ZSTD_LEVEL if level is None else level))
    raise unsupported(codec)


def decompress(codec: int, data: Bytes, max_bytes: int = DEFAULT_MAX_BYTES) -> Bytes:
    """Return the bytes that were given to `compress`.

    KafkaError: MESSAGE_TOO_LARGE beyond `max_bytes` of output, INVALID_RECORD for a broken payload,
    UNSUPPORTED_COMPRESSION_TYPE for ids that name no codec.
    """
    if codec == NONE:
        return data
    if codec == GZIP:
        return _decompress_gzip(data, max_bytes)
    if codec == SNAPPY:
        return _decompress_snappy(data, max_bytes)
    if codec == LZ4:
        return _decompress_frame(_cramjam().lz4, data, max_bytes)
    if codec == ZSTD:
        return _decompress_frame(_cramjam().zstd, data, max_bytes)
    raise unsupported(codec)


def decompress_into(codec: int, data: Bytes, room: bytearray | memoryview) -> int | None:
    """Unpack to the front of `room`, for readers of many batches: how many bytes it were.

    None where they do not fit, or the codec knows no such way: `decompress` is for those.
    KafkaError(INVALID_RECORD) for a broken payload.
    """
    if codec == LZ4:
        return _unpack_frame(_cramjam().lz4, data, room)
    if codec == ZSTD:
        return _unpack_frame(_cramjam().zstd, data, room)
    return None


def looks_compressed(codec: int, data: Bytes, position: int) -> bool:
    """Whether what begins at `position` can be of this codec: false says that it is not.

    A raw block of snappy has no mark.
    """
    start = _STARTS.get(codec)
    return start is None or data[position : position + len(start)] == start


def most_unpacked_bytes(codec: int, size_bytes: int) -> int:
    """More than this no payload of that size unpacks to."""
    return _MAX_RATIOS.get(codec, 1) * size_bytes


def unsupported(codec: int) -> KafkaError:
    """The refusal of a codec id that names no codec."""
    return KafkaError(
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"unknown compression type id {codec}"
    )


def _cramjam() -> ModuleType:
    import cramjam  # at first use: start-up cost

    return cramjam


def _broken(reason: object) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, f"compressed records cannot be read: {reason}")


def _too_large(max_bytes: int) -> KafkaError:
    return KafkaError(
        ErrorCode.MESSAGE_TOO_LARGE, f"compressed records hold more than {max_bytes} bytes"
    )


def _compress_gzip(data: Bytes, level: int) -> bytes:
    packer = zlib.compressobj(level, wbits=-15)  # without zlib's own header
    trailer = _GZIP_TRAILER.pack(zlib.crc32(data), len(data) & 0xFFFF_FFFF)
    return b"".join((_GZIP_HEADER, packer.compress(data), packer.flush(), trailer))


def _decompress_gzip(data: Bytes, max_bytes: int) -> Bytes:
    """All members of a gzip stream, as Java's reader takes them."""
    view = memoryview(data)
    plain = bytearray()
    at = 0
    while at < len(view):
        unpacker = zlib.decompressobj(_GZIP_WINDOW)
        while not unpacker.eof:
            given = view[at : at + _GZIP_INPUT_BYTES]
            piece = _gzip_piece(unpacker, given, min(_STEP_BYTES, max_bytes - len(plain) + 1))
            if not given and not piece:
                raise _broken("gzip stream cut short")
            plain += piece
            if len(plain) > max_bytes:
                raise _too_large(max_bytes)
            at += len(given) - len(unpacker.unconsumed_tail) - len(unpacker.unused_data)
    if not view:
        raise _broken("empty gzip stream")
    return plain


def _gzip_piece(unpacker: zlib._Decompress, given: memoryview, most_bytes: int) -> bytes:
    try:
        return unpacker.decompress(given, most_bytes)
    except zlib.error as error:
        raise _broken(error) from error


def _decompress_frame(codec: ModuleType, data: Bytes, max_bytes: int) -> Bytes:
    """Unpack into a buffer that grows up to the cap; frames need not say how much they hold."""
    size = min(max_bytes, max(_FIRST_GUESS_BYTES, 4 * len(data)))
    while True:
        room = _room(size)
        written = _unpack_frame(codec, data, room)
        if written is not None:
            del room[written:]
            return room
        if size >= max_bytes:
            raise _too_large(max_bytes)
        size = min(max_bytes, 8 * size)


def _room(size: int) -> bytearray:
    """So many bytes, made in steps: other threads get the interpreter between two of them."""
    if size <= _STEP_BYTES:
        return bytearray(size)
    room = bytearray()
    step = bytes(_STEP_BYTES)
    while len(room) < size:
        room += step
    del room[size:]
    return room


def _unpack_frame(codec: ModuleType, data: Bytes, room: bytearray | memoryview) -> int | None:
    """How many bytes were written to the front of `room`; None where they do not fit."""
    try:
        written: int = codec.decompress_into(data, room)
    except _cramjam().DecompressionError as error:
        if "whole buffer" not in str(error):  # every other text is about the payload
            raise _broken(error) from error
        return None
    return written


def _compress_lz4(data: Bytes, level: int) -> bytes:
    """A frame of independent 64 KiB blocks without content size: all that Java's reader takes, and
    small there. As in Kafka the default level stands for the fast compressor.
    """
    if level != _LZ4_LEVEL:
        return _compress_lz4_high(data, level)
    compress_block = _cramjam().lz4.compress_block
    view = memoryview(data)
    pieces = [_LZ4_FRAME_HEADER]
    for start in range(0, len(view), _LZ4_BLOCK_BYTES):
        plain = view[start : start + _LZ4_BLOCK_BYTES]
        block = bytes(compress_block(plain, store_size=False))
        if len(block) < len(plain):
            pieces += (_LZ4_BLOCK_SIZE.pack(len(block)), block)
        else:
            pieces += (_LZ4_BLOCK_SIZE.pack(len(plain) | _LZ4_STORED), bytes(plain))
    pieces.append(_LZ4_END_MARK)
    return b"".join(pieces)


def _compress_lz4_high(data: Bytes, level: int) -> bytes:
    """The same frame from the library's own, whose blocks each have a checksum after them."""
    # Java's compressor starts where the frame's level 2 does; its level 1 is the fast one.
    level = max(level, _LZ4_HIGH_LEVEL_MIN)
    packer = _cramjam().lz4.Compressor(level=level, content_checksum=False, block_linked=False)
    view = memoryview(data)
    for start in range(0, len(view), _LZ4_BLOCK_BYTES):  # in between other threads get their turn
        packer.compress(bytes(view[start : start + _LZ4_BLOCK_BYTES]))  # takes nothing else
    frame = memoryview(packer.finish())
    pieces: list[Bytes] = [_LZ4_FRAME_HEADER]
    at = len(_LZ4_FRAME_HEADER)
    while size := _LZ4_BLOCK_SIZE.unpack_from(frame, at)[0] & ~_LZ4_STORED:
        end = at + _LZ4_BLOCK_SIZE.size + size
        pieces.append(frame[at:end])
        at = end + _LZ4_BLOCK_CHECKSUM_BYTES
    pieces.append(_LZ4_END_MARK)
    return b"".join(pieces)


def _compress_xerial(data: Bytes) -> bytes:
    raw = _cramjam().snappy.compress_raw
    view = memoryview(data)
    pieces = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        pieces.append(_BLOCK_SIZE.pack(len(block)))
        pieces.append(block)
    return b"".join(pieces)


def _decompress_snappy(data: Bytes, max_bytes: int) -> Bytes:
    """Xerial blocks as Java and librdkafka write them, or one raw block as some old clients do."""
    view = memoryview(data)
    if bytes(view[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _snappy_block(view, max_bytes, max_bytes)
    at = len(_XERIAL_HEADER)
    plain = bytearray()
    while at < len(view):
        try:
            (size,) = _BLOCK_SIZE.unpack_from(view, at)
        except struct_error as error:
            raise _broken("snappy block cut short") from error
        at += _BLOCK_SIZE.size
        if not 0 <= size <= len(view) - at:
            raise _broken(f"snappy block of {size} bytes, {len(view) - at} left")
        plain += _snappy_block(view[at : at + size], max_bytes - len(plain), max_bytes)
        at += size
    return plain


def _snappy_block(block: memoryview, room: int, max_bytes: int) -> bytes:
    snappy = _cramjam().snappy
    error_type = _cramjam().DecompressionError
    try:
        size: int = snappy.decompress_raw_len(block)
        if size > len(block) * _MAX_RATIOS[SNAPPY]:
            raise _broken(f"snappy block of {len(block)} bytes claims {size}")
        if size > room:
            raise _too_large(max_bytes)
        return bytes(snappy.decompress_raw(block))
    except error_type as error:
        raise _broken(error) from error
