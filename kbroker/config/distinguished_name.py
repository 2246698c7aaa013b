"""The name that a certificate gives its owner, printed as Java's `X500Principal.getName` prints it
(RFC 2253), which is how rules for principals and ACLs of Kafka write it.

    Certificate  SEQUENCE { SEQUENCE { [0] version?, serial, algorithm, issuer, validity, subject
    subject      SEQUENCE OF SET OF SEQUENCE { attribute type, value }

Law: the same bytes give the same text as in Java 17; an ACL that names another text lets nobody in.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

_SEQUENCE, _SET, _OBJECT_ID, _VERSION = 0x30, 0x31, 0x06, 0xA0
_FIELDS_BEFORE_SUBJECT = 4  # serial number, algorithm, issuer, validity
_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
# Java takes the bytes of all of these kinds of text for UTF-8: UTF8String, PrintableString,
# T61String, IA5String, GeneralString and BMPString.
_TEXTS = frozenset({12, 19, 20, 22, 27, 30})
_ESCAPED = frozenset(',=+<>#;"\\')


class _Element(NamedTuple):
    tag: int
    body: bytes
    whole: bytes  # with tag and length


def subject_name(certificate: bytes) -> str:
    """The subject of a certificate in DER; empty for one without. Raises ValueError for bytes that
    are no certificate.
    """
    to_be_signed = next(_inside(_only(certificate, _SEQUENCE)), None)
    if to_be_signed is None or to_be_signed.tag != _SEQUENCE:
        raise ValueError("a certificate without contents")
    fields = [each for each in _inside(to_be_signed) if each.tag != _VERSION]
    if len(fields) <= _FIELDS_BEFORE_SUBJECT:
        raise ValueError("a certificate without a subject")
    return printed_name(fields[_FIELDS_BEFORE_SUBJECT].whole)


def printed_name(name: bytes) -> str:
    """A name in DER as text, its most particular part first. Raises ValueError for other bytes."""
    parts = [
        "+".join(_attribute(each) for each in _inside(part))
        for part in _inside(_only(name, _SEQUENCE))
        if _is(part, _SET)
    ]
    return ",".join(reversed(parts))


def _attribute(element: _Element) -> str:
    fields = list(_inside(element)) if _is(element, _SEQUENCE) else []
    if len(fields) != len(("type", "value")) or not _is(fields[0], _OBJECT_ID):
        raise ValueError("an attribute of a name is a type and a value")
    kind, value = _object_id(fields[0].body), fields[1]
    keyword = _KEYWORDS.get(kind)
    if keyword is None or value.tag not in _TEXTS:
        return f"{keyword or kind}=#{value.whole.hex()}"
    return f"{keyword}={_escaped(value.body.decode('utf-8', 'replace'))}"


def _escaped(text: str) -> str:
    """The value so that it can stand in a name: blanks at both ends, and characters that mean
    something there, are escaped.
    """
    escaped = "".join(f"\\{each}" if each in _ESCAPED else each for each in text)
    escaped = escaped.replace("\0", "\\00")
    blanks = " \r"
    body = escaped.strip(blanks)
    if not body:
        return "".join(f"\\{each}" for each in escaped)
    start = escaped.index(body)
    first, last = escaped[:start], escaped[start + len(body) :]
    return "".join((*(f"\\{each}" for each in first), body, *(f"\\{each}" for each in last)))


def _object_id(body: bytes) -> str:
    """The dotted form of an object identifier."""
    if not body or body[-1] & 0x80:
        raise ValueError("a type of a name is cut off")
    numbers, number = [], 0
    for byte in body:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)  # the first two numbers travel in one
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _is(element: _Element, tag: int) -> bool:
    if element.tag != tag:
        raise ValueError(f"an element of tag {element.tag} where {tag} belongs")
    return True


def _only(data: bytes, tag: int) -> _Element:
    element, end = _read(data, 0)
    if end != len(data):
        raise ValueError("more bytes than one element")
    _is(element, tag)
    return element


def _inside(element: _Element) -> Iterator[_Element]:
    position = 0
    while position < len(element.body):
        inner, position = _read(element.body, position)
        yield inner


def _read(data: bytes, start: int) -> tuple[_Element, int]:
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
    return _Element(tag, data[position:end], data[start:end]), end
