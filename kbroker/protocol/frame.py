"""Frames: a size (int32), then that many bytes. The outermost layer of the protocol, without any
socket.

`next_frame` finds frames in a buffer that somebody else owns and fills.
Law: sizes are checked before a byte is waited for, so that a client cannot make the broker reserve
memory; the content of a frame does not matter here.
"""

from __future__ import annotations

from struct import Struct

from kbroker.errors import ProtocolError
from kbroker.unserved import HTTP, TLS, UnservedError

SIZE = Struct(">i")

HTTP_METHODS = frozenset(
    {b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"CONN", b"PATC", b"PRI "}
)
_TLS_HANDSHAKE = b"\x16\x03"  # record type, then the major version; in all of SSL 3 to TLS 1.3


class FrameSizeError(ProtocolError):
    """A size that is negative, or above what the receiver takes."""

    def __init__(self, size: int, max_bytes: int) -> None:
        super().__init__(f"frame of {size} bytes, limit {max_bytes}")
        self.size = size
        self.max_bytes = max_bytes


def next_frame(
    buffer: bytes | bytearray | memoryview, start: int, end: int, max_bytes: int
) -> tuple[int, int] | None:
    """The first frame of `buffer[start:end]`, without its size field: (first byte, byte after the
    last).

    None when the frame is not whole yet. Raises FrameSizeError for a negative size or one above
    `max_bytes`; UnservedError if the bytes are another protocol's.
    """
    if end - start < 4:
        return None
    (size,) = SIZE.unpack_from(buffer, start)
    check_frame_size(buffer, start, size, max_bytes)
    frame_start = start + 4
    frame_end: int = frame_start + size
    return (frame_start, frame_end) if frame_end <= end else None


def check_frame_size(
    buffer: bytes | bytearray | memoryview, start: int, size: int, max_bytes: int
) -> None:
    """Raises as `next_frame` for the size that stands at `start`."""
    if not 0 <= size <= max_bytes:
        raise _refusal(size, max_bytes, bytes(buffer[start : start + 4]))


def frame_size(buffer: bytes | bytearray | memoryview, start: int, end: int) -> int:
    """Size of the frame at `start`, size field included; 4 while that is not whole.

    Tells the owner of a buffer how much room an unfinished frame needs. Call `next_frame` first: it
    checks the size.
    """
    if end - start < 4:
        return 4
    size: int = SIZE.unpack_from(buffer, start)[0]
    return 4 + size


def _refusal(size: int, max_bytes: int, first_bytes: bytes) -> ProtocolError:
    """Why a size is refused, with a guess at what the other side speaks instead."""
    if first_bytes in HTTP_METHODS:
        return UnservedError(HTTP)
    if first_bytes.startswith(_TLS_HANDSHAKE):
        return UnservedError(TLS)
    return FrameSizeError(size, max_bytes)
