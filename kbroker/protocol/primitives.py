"""The pieces that generated codecs are made of: variable-length integers, UUIDs, tags, limits.

Formats are those of the protocol guide, "Protocol Primitive Types", and KIP-482 for compact types
and tagged fields.
Law: whatever the bytes are, the outcome is a value or ProtocolError, because they come from
anybody. Readers may also leave IndexError and struct.error to the codec, which translates them once
per message.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct, pack
from typing import NoReturn
from uuid import UUID

from kbroker.errors import ProtocolError, TooManyElementsError
from kbroker.model import ZERO_UUID

MAX_STRING_BYTES = 0x7FFF  # also in compact strings, whose length could be larger
MAX_ELEMENTS = 1_000_000  # array elements in most messages, at all depths together
MAX_UNKNOWN_TAGS = 1_000  # tagged fields in one message that its declaration does not have

UVARINT_BYTES = tuple(bytes((n,)) for n in range(128)) + tuple(
    bytes((n & 0x7F | 0x80, n >> 7)) for n in range(128, 512)
)  # ready-made encodings of the sizes that are met most

packer = lru_cache(maxsize=None)(Struct)  # one Struct per format, however many codecs use it


def read_uvarint(buffer: memoryview | bytes, offset: int) -> tuple[int, int]:
    """Unsigned varint of at most 5 bytes at `offset`: (value, offset after it)."""
    byte = buffer[offset]
    value = byte & 0x7F
    shift = 7
    while byte > 0x7F:
        if shift > 28:
            raise ProtocolError("varint longer than 5 bytes")
        offset += 1
        byte = buffer[offset]
        value |= (byte & 0x7F) << shift
        shift += 7
    return value, offset + 1


def read_string_size(buffer: memoryview | bytes, offset: int) -> tuple[int, int]:
    """The size of a compact string, plus one: (value, offset after it)."""
    value, offset = read_uvarint(buffer, offset)
    if value > MAX_STRING_BYTES + 1:
        raise ProtocolError(f"string of {value - 1} bytes, {MAX_STRING_BYTES} are allowed")
    return value, offset


def write_uvarint(value: int) -> bytes:
    """Encode 0 <= value < 2**35 as unsigned varint."""
    if value < 512:
        return UVARINT_BYTES[value]
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def write_text(text: str) -> bytes:
    """Write a text for people as UTF-8, cut if it is longer than a string may be: it may quote a
    name that is as long already.
    """
    data = text.encode("utf-8", "replace")
    if len(data) <= MAX_STRING_BYTES:
        return data
    return data[:MAX_STRING_BYTES].decode("utf-8", "ignore").encode()


# Topic ids repeat in every fetch; UUID's constructor costs more than the rest of the entry.
@lru_cache(maxsize=4096)
def uuid_from_bytes(data: bytes) -> UUID:
    """UUID of 16 bytes, most significant first."""
    return UUID(bytes=data) if any(data) else ZERO_UUID


def skip_tags(
    buffer: memoryview, offset: int, limit: int, count: int, allowed: int
) -> tuple[int, int]:
    """Skip `count` tagged fields: (offset after them, `allowed` less `count`)."""
    if count > allowed:
        raise ProtocolError(f"more than {MAX_UNKNOWN_TAGS} unknown tagged fields")
    last = -1
    for _ in range(count):
        last, offset, end = read_tag(buffer, offset, limit, last)
        offset = end
    return offset, allowed - count


def read_tag(buffer: memoryview, offset: int, limit: int, last: int) -> tuple[int, int, int]:
    """Tag and size of a tagged field: (tag, offset of its content, end of its content)."""
    tag, offset = read_uvarint(buffer, offset)
    size, offset = read_uvarint(buffer, offset)
    if tag <= last:
        raise ProtocolError(f"tag {tag} after tag {last}")
    if size > limit - offset:
        raise ProtocolError(f"tagged field of {size} bytes, {limit - offset} remain")
    return tag, offset, offset + size


def ends_early(message: str, size_bytes: int) -> NoReturn:
    """Refuse a message that goes on after the bytes end."""
    raise ProtocolError(f"{message} ends before byte {size_bytes}") from None


def lacks_bytes(message: str, count: int) -> NoReturn:
    """Refuse a message whose last field is cut."""
    raise ProtocolError(f"{message} lacks {count} bytes")


def bad_count(most: int, field: str, count: int, remaining: int, fits: bool) -> NoReturn:
    """Refuse an array; one that `fits` into the bytes that remain has too many elements."""
    text = f"{field}: {count} elements in {remaining} bytes, or more than {most} in all"
    raise TooManyElementsError(text) if fits else ProtocolError(text)


def bad_null(field: str) -> NoReturn:
    raise ProtocolError(f"{field}: null is not allowed here")


def bad_length(field: str, length: int) -> NoReturn:
    raise ProtocolError(f"{field}: length {length}")


def bad_tag(field: str) -> NoReturn:
    """Refuse a tagged field whose content does not fill its size."""
    raise ProtocolError(f"{field}: tagged field and its size disagree")


def too_many_tags() -> NoReturn:
    """Refuse a message with more unknown tagged fields than anybody needs."""
    raise ProtocolError(f"more than {MAX_UNKNOWN_TAGS} unknown tagged fields")


def pack_many(letter: str, values: Sequence[float]) -> bytes:
    """Fixed-size numbers of one kind, one after the other."""
    return pack(f">{len(values)}{letter}", *values)
