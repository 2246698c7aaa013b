"""DER, the bytes of certificates: elements of a tag, a length and a body, which may be elements.

Law: bytes that break off or go on, and lengths beyond 4 bytes, are a ValueError. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

BOOLEAN, OCTETS, OBJECT_ID, SEQUENCE, SET = 0x01, 0x04, 0x06, 0x30, 0x31
UTC_TIME, GENERALIZED_TIME = 0x17, 0x18


class Element(NamedTuple):
    """A tag with its body, which may be elements again."""

    tag: int
    body: bytes
    whole: bytes  # with tag and length


def only(data: bytes, tag: int) -> Element:
    """Return the one element of this tag that the bytes are. Raises ValueError."""
    element, end = _read(data, 0)
    if end != len(data):
        raise ValueError("more bytes than one element")
    expect(element, tag)
    return element


def inside(element: Element) -> Iterator[Element]:
    """Yield the elements in the body of one. Raises ValueError."""
    position = 0
    while position < len(element.body):
        each, position = _read(element.body, position)
        yield each


def expect(element: Element, tag: int) -> bool:
    """True; raises ValueError for an element of another tag."""
    if element.tag != tag:
        raise ValueError(f"an element of tag {element.tag} where {tag} belongs")
    return True


def object_id(body: bytes) -> str:
    """The dotted form of an object identifier. Raises ValueError."""
    if not body or body[-1] & 0x80:
        raise ValueError("an object identifier is cut off")
    numbers, number = [], 0
    for byte in body:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)  # the first two numbers travel in one
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _read(data: bytes, start: int) -> tuple[Element, int]:
    """The element that begins at `start`, and where the next one does."""
    if len(data) < start + 2:
        raise ValueError("an element is cut off")
    tag, length, position = data[start], data[start + 1], start + 2
    if length & 0x80:
        count = length & 0x7F
        length = int.from_bytes(data[position : position + count], "big")
        position += count
        if not 0 < count <= 4:
            raise ValueError("an element of unknown length")
    end = position + length
    if end > len(data):
        raise ValueError("an element is cut off")
    return Element(tag, data[position:end], data[start:end]), end
