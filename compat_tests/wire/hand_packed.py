"""Requests packed by hand: versions that kio does not know, and bytes that no codec would write."""

from __future__ import annotations

import struct

from compat_tests.clients.raw_connection import CLIENT_ID

CORRELATION_ID = 7


def int8(value: int) -> bytes:
    return struct.pack(">b", value)


def int16(value: int) -> bytes:
    return struct.pack(">h", value)


def int32(value: int) -> bytes:
    return struct.pack(">i", value)


def int64(value: int) -> bytes:
    return struct.pack(">q", value)


def text(value: str) -> bytes:
    """A string with its length before it, as versions before the compact ones have it."""
    encoded = value.encode()
    return int16(len(encoded)) + encoded


def request(key: int, version: int, body: bytes = b"", flexible: bool = False) -> bytes:
    """A frame's content: header (version 2 with no tagged fields when `flexible`) and body."""
    header = int16(key) + int16(version) + int32(CORRELATION_ID) + text(CLIENT_ID)
    return header + (b"\0" if flexible else b"") + body
