"""The codecs of record batches: gzip, snappy in xerial framing, lz4 frames, zstd.

Law: any payload that Java's clients and brokers read is read here, to the same bytes, and any that
they refuse is KafkaError(INVALID_RECORD). A small payload may claim any size: `decompress` has a
bound, `plain_pieces` yields any amount in bounded memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from kbroker.errors import ErrorCode, KafkaError
from kbroker.record.codecs import gzip_members, lz4_frame, xerial_blocks, zstd_frames
from kbroker.record.codecs.payload import PIECE_BYTES

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
READER_MAX_BYTES: Final = 256 * 1024 * 1024  # of a stored batch, for callers that hold it whole

_PIECES: Final[dict[int, Callable[[memoryview], Iterator[bytes | bytearray]]]] = {
    GZIP: gzip_members.pieces,
    SNAPPY: xerial_blocks.pieces,
    LZ4: lz4_frame.pieces,
    ZSTD: zstd_frames.pieces,
}
# How many bytes one byte can become: deflate repeats 258 bytes in 2 bits.
_MOST_RATIOS: Final = {
    GZIP: 1032,
    SNAPPY: xerial_blocks.MOST_RATIO,
    LZ4: lz4_frame.MOST_RATIO,
    ZSTD: zstd_frames.MOST_RATIO,
}
# How every payload of a codec begins; a raw block of snappy has no mark.
_STARTS: Final = {GZIP: gzip_members.START, LZ4: lz4_frame.START, ZSTD: zstd_frames.START}


def compress(codec: int, data: Bytes, level: int | None = None) -> Bytes:
    """`data` under `codec` (1 to 4; 0 gives it back).

    `level` as in `compression.<codec>.level` (KIP-390): gzip 1 to 9 and -1 for the library's own,
    lz4 1 to 17, zstd -131072 to 22; None for the codec's default. snappy has none.
    """
    return data if codec == NONE else compress_pieces(codec, (data,), level)


def compress_pieces(codec: int, data: Iterable[Bytes], level: int | None = None) -> bytes:
    """Compress bytes that come in pieces and are never held together; `level` as for `compress`."""
    if codec == NONE:
        return b"".join(data)
    if codec == GZIP:
        return gzip_members.compress(data, gzip_members.DEFAULT_LEVEL if level is None else level)
    if codec == SNAPPY:
        return xerial_blocks.compress(data)
    if codec == LZ4:
        return lz4_frame.compress(data, lz4_frame.DEFAULT_LEVEL if level is None else level)
    if codec == ZSTD:
        return zstd_frames.compress(data, zstd_frames.DEFAULT_LEVEL if level is None else level)
    raise unsupported(codec)


def plain_pieces(codec: int, data: Bytes) -> Iterator[bytes | bytearray]:
    """The bytes that were given to `compress`, in pieces of about 1 MiB (at most 5), none empty.

    KafkaError at the first piece that cannot be unpacked: INVALID_RECORD for a broken payload,
    UNSUPPORTED_COMPRESSION_TYPE for ids that name no codec.
    """
    if codec == NONE:
        return (bytes(data[at : at + PIECE_BYTES]) for at in range(0, len(data), PIECE_BYTES))
    pieces = _PIECES.get(codec)
    if pieces is None:
        raise unsupported(codec)
    return pieces(memoryview(data))


def bounded_pieces(
    pieces: Iterable[bytes | bytearray], max_bytes: int
) -> Iterator[bytes | bytearray]:
    """The same pieces; KafkaError(MESSAGE_TOO_LARGE) at the first one beyond `max_bytes`."""
    left = max_bytes
    for piece in pieces:
        left -= len(piece)
        if left < 0:
            raise unpacks_too_large(max_bytes)
        yield piece


def decompress(codec: int, data: Bytes, max_bytes: int = DEFAULT_MAX_BYTES) -> Bytes:
    """Return the bytes that were given to `compress`. Raises KafkaError as `plain_pieces` does, and
    MESSAGE_TOO_LARGE beyond `max_bytes` of output.
    """
    if codec == NONE:
        return data
    pieces = plain_pieces(codec, data)
    plain: Bytes = next(pieces, b"")
    following = next(pieces, None)
    if following is not None:
        whole = bytearray(plain)
        while following is not None and len(whole) <= max_bytes:
            whole += following
            following = next(pieces, None)
        plain = whole
    if len(plain) > max_bytes:
        raise unpacks_too_large(max_bytes)
    return plain


def decompress_into(codec: int, data: Bytes, room: bytearray | memoryview) -> int | None:
    """Unpack to the front of `room`, for readers of many batches: the number of bytes. None if they
    do not fit, or if the codec cannot do so: use `decompress` then. KafkaError(INVALID_RECORD) for
    a broken payload.
    """
    if codec == LZ4:
        return lz4_frame.unpack_into(memoryview(data), memoryview(room))
    if codec == ZSTD:
        return zstd_frames.unpack_into(memoryview(data), memoryview(room))
    return None


def looks_compressed(codec: int, data: Bytes, position: int) -> bool:
    """Whether the bytes at `position` can be of this codec; False is certain."""
    start = _STARTS.get(codec)
    return start is None or data[position : position + len(start)] == start


def most_unpacked_bytes(codec: int, size_bytes: int) -> int:
    """The most bytes that any payload of that size unpacks to."""
    return _MOST_RATIOS.get(codec, 1) * size_bytes


def unpacks_too_large(max_bytes: int) -> KafkaError:
    """The refusal of records that unpack to more than a reader can hold."""
    return KafkaError(
        ErrorCode.MESSAGE_TOO_LARGE, f"compressed records hold more than {max_bytes} bytes"
    )


def unsupported(codec: int) -> KafkaError:
    return KafkaError(
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"unknown compression type id {codec}"
    )
