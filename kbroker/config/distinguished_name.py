"""The name that a certificate gives its owner, printed as Java's `X500Principal.getName` prints it
(RFC 2253), which is how rules for principals and ACLs of Kafka write it.

    name      SEQUENCE OF SET OF SEQUENCE { attribute type, value }

Law: the same bytes give the same text as in Java 17; an ACL that names another text lets nobody in.
Pure.
"""

from __future__ import annotations

from kbroker.config.der import OBJECT_ID, SEQUENCE, SET, Element, expect, inside, object_id, only

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


def printed_name(name: bytes) -> str:
    """A name in DER as text, its most particular part first. Raises ValueError for other bytes."""
    parts = [
        "+".join(_attribute(each) for each in inside(part))
        for part in inside(only(name, SEQUENCE))
        if expect(part, SET)
    ]
    return ",".join(reversed(parts))


def _attribute(element: Element) -> str:
    fields = list(inside(element)) if expect(element, SEQUENCE) else []
    if len(fields) != len(("type", "value")) or not expect(fields[0], OBJECT_ID):
        raise ValueError("an attribute of a name is a type and a value")
    kind, value = object_id(fields[0].body), fields[1]
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
