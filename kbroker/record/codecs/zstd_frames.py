"""zstd (RFC 8878): frames one after the other, some of them to be skipped.

Law: as zstd-jni's `ZstdInputStream` reads them: with a window of at most 128 MiB, and each frame to
its end. One exception: a last frame that is cut short before it yields data, and came with the same
read of 131,075 bytes as the end of the frame before.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable, Iterator
from functools import cache
from importlib import import_module
from itertools import chain
from types import ModuleType
from typing import Final

from kbroker.record.codecs.payload import PIECE_BYTES, broken

DEFAULT_LEVEL: Final = 3
START: Final = b"\x28\xb5\x2f\xfd"
# A block takes 4 bytes at least, and can say that one byte comes 128 KiB times.
MOST_RATIO: Final = 32 * 1024

_JAVA_READ_BYTES: Final = 131_075
# The bytes after a frame are copied: copying all of them would make many small frames slow.
_INPUT_BYTES: Final = 8192
_FIRST_INPUT_BYTES: Final = PIECE_BYTES


def compress(data: Iterable[bytes | bytearray | memoryview], level: int) -> bytes:
    """One frame; made of a single piece, it states its size."""
    given = iter(data)
    first = next(given, b"")
    second = next(given, None)
    if second is None:
        return bytes(_library().compress(first, level))
    packer = _library().ZstdCompressor(level)
    parts = [packer.compress(piece) for piece in chain((first, second), given)]
    return b"".join((*parts, packer.flush()))


def pieces(data: memoryview) -> Iterator[bytes]:
    """The data of all frames."""
    at = 0
    input_bytes = _FIRST_INPUT_BYTES
    while at < len(data):
        at = yield from _frame(data, at, input_bytes)
        input_bytes = _INPUT_BYTES


def unpack_into(data: memoryview, room: memoryview) -> int | None:
    """Unpack the frames to the front of `room`: the number of bytes, None if they do not fit."""
    written = 0
    for piece in pieces(data):
        end = written + len(piece)
        if end > len(room):
            return None
        room[written:end] = piece
        written = end
    return written


def _frame(data: memoryview, at: int, input_bytes: int) -> Generator[bytes, None, int]:
    """Yield the data of the frame at `at`; return the position of its end."""
    zstd = _library()
    unpacker = zstd.ZstdDecompressor()
    start = at
    is_silent = True
    while not unpacker.eof:
        given = data[at : at + input_bytes] if unpacker.needs_input else b""
        if not given and unpacker.needs_input:
            if start and is_silent and _came_along(len(data), start):
                return len(data)
            broken("zstd frame cut short")
        try:
            piece: bytes = unpacker.decompress(given, PIECE_BYTES)
        except zstd.ZstdError as error:
            broken(error)
        at += len(given)
        if piece:
            is_silent = False
            yield piece
    unused: bytes = unpacker.unused_data
    return at - len(unused)


def _came_along(size_bytes: int, start: int) -> bool:
    """Whether Java reads all that begins at `start` together with the byte before."""
    return (size_bytes - 1) // _JAVA_READ_BYTES == (start - 1) // _JAVA_READ_BYTES


@cache
def _library() -> ModuleType:
    """The module of Python 3.14, or its backport; at first use, for it costs start-up time."""
    return import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
