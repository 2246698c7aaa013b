"""The checksum of an lz4 frame's header: the right one, and the wrong one of format 0.

    frame header = uint32 magic, descriptor (2 bytes, or 10 with the content size), uint8 checksum
    checksum     = second byte of the xxHash32 of the descriptor

Kafka's first writer hashed the magic with the descriptor. Messages of format 0 keep that mistake,
all others have the right checksum (KIP-57).
"""

from __future__ import annotations

from typing import Final

from kbroker.record.default_record import Bytes

_DESCRIPTOR_POSITION: Final = 4
_CONTENT_SIZE_BIT: Final = 0x08
_MASK: Final = 0xFFFF_FFFF


def with_right_checksum(frame: Bytes) -> bytes:
    """The frame as every lz4 reader takes it; too short a one comes back as it is."""
    return _with_checksum(frame, _DESCRIPTOR_POSITION)


def with_format_0_checksum(frame: Bytes) -> bytes:
    """The frame as format 0 holds it; too short a one comes back as it is."""
    return _with_checksum(frame, 0)


def _with_checksum(frame: Bytes, covers_from: int) -> bytes:
    if len(frame) <= _DESCRIPTOR_POSITION:
        return bytes(frame)
    size = 10 if frame[_DESCRIPTOR_POSITION] & _CONTENT_SIZE_BIT else 2
    end = _DESCRIPTOR_POSITION + size
    checksum = xxh32_short(bytes(frame[covers_from:end])) >> 8 & 0xFF
    return b"".join((frame[:end], bytes((checksum,)), frame[end + 1 :]))


def xxh32_short(data: bytes) -> int:
    """xxHash32 with seed 0 of fewer than 16 bytes, which is all a frame header has."""
    value = 0x165667B1 + len(data)
    whole = len(data) - len(data) % 4
    for start in range(0, whole, 4):
        lane = int.from_bytes(data[start : start + 4], "little")
        value = value + lane * 0xC2B2AE3D & _MASK
        value = (value << 17 | value >> 15) * 0x27D4EB2F & _MASK
    for byte in data[whole:]:
        value = value + byte * 0x165667B1 & _MASK
        value = (value << 11 | value >> 21) * 0x9E3779B1 & _MASK
    value = (value ^ value >> 15) * 0x85EBCA77 & _MASK
    value = (value ^ value >> 13) * 0xC2B2AE3D & _MASK
    return value ^ value >> 16
