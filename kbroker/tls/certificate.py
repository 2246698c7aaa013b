"""Certificate: the parts of an X.509 certificate that say whose it is, and for how long.

Certificate  SEQUENCE { SEQUENCE { [0] version?, serial, algorithm, issuer, validity, subject,
public key, [1]?, [2]?, [3] { SEQUENCE OF extension }? }, algorithm, signature }
validity     SEQUENCE { from, until }, each a UTCTime or a GeneralizedTime
extension    SEQUENCE { type, BOOLEAN?, OCTET STRING }
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import ip_address

from kbroker.config.der import (
    BOOLEAN,
    GENERALIZED_TIME,
    OBJECT_ID,
    OCTETS,
    SEQUENCE,
    UTC_TIME,
    Element,
    expect,
    inside,
    object_id,
    only,
)
from kbroker.config.distinguished_name import printed_name

_VERSION, _EXTENSIONS = 0xA0, 0xA3
_FIELDS_BEFORE = 2  # serial number, algorithm
_FIELDS = 4  # issuer, validity, subject, public key
_ALTERNATIVE_NAMES, _BASIC_CONSTRAINTS = "2.5.29.17", "2.5.29.19"
_RSA, _ELLIPTIC = "1.2.840.113549.1.1.1", "1.2.840.10045.2.1"
_KEY_KINDS = {
    "1.2.840.10045.3.1.7": "EC P-256",
    "1.3.132.0.34": "EC P-384",
    "1.3.132.0.35": "EC P-521",
    "1.3.101.112": "Ed25519",
    "1.3.101.113": "Ed448",
}
# Those of a name that are texts; addresses are numbers.
_TEXT_NAMES = {0x81: "email", 0x82: "DNS", 0x86: "URI"}
_ADDRESS = 0x87
_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """A certificate; `subject` and `issuer` are printed as Java prints them."""

    subject: str
    issuer: str
    begins: datetime
    ends: datetime
    alternative_names: frozenset[str]  # like DNS:broker-1 and IP:10.0.0.1
    key_kind: str  # like RSA 2048 and EC P-256
    is_authority: bool  # it may sign others

    def fault(self, now: datetime) -> str | None:
        """Say why nobody trusts it now, whoever has signed it; None if there is no reason."""
        if now > self.ends:
            return f"has expired at {self.ends:%Y-%m-%d %H:%M} UTC"
        return (
            f"is not valid before {self.begins:%Y-%m-%d %H:%M} UTC" if now < self.begins else None
        )


def parse_certificate(data: bytes) -> Certificate:
    """The parts of a certificate in DER. Raises ValueError for other bytes."""
    issuer, validity, subject, key, *rest = _fields(data)
    begins, ends = (_moment(each) for each in inside(validity))
    extensions = dict(_extensions(rest))
    return Certificate(
        subject=printed_name(subject.whole),
        issuer=printed_name(issuer.whole),
        begins=begins,
        ends=ends,
        alternative_names=frozenset(
            _alternative_name(each) for each in _parts(extensions.get(_ALTERNATIVE_NAMES))
        ),
        key_kind=_key_kind(key),
        is_authority=any(
            each.tag == BOOLEAN and each.body != b"\0"
            for each in _parts(extensions.get(_BASIC_CONSTRAINTS))
        ),
    )


def subject_name(data: bytes) -> str:
    """The subject of a certificate in DER; empty for one without. Raises ValueError for bytes that
    are no certificate.
    """
    return printed_name(_fields(data)[2].whole)


def first_certificate(pem: str) -> Certificate:
    """The first certificate of a PEM text, which is its owner's. Raises ValueError."""
    _, begin, rest = pem.partition(_BEGIN)
    body, end, _ = rest.partition(_END)
    if not begin or not end:
        raise ValueError("it has no -----BEGIN CERTIFICATE-----")
    try:
        return parse_certificate(b64decode(body))
    except Base64Error as error:
        raise ValueError("its certificate is not base64") from error


def _fields(data: bytes) -> list[Element]:
    """The fields from the issuer on."""
    contents = next(inside(only(data, SEQUENCE)), None)
    if contents is None or contents.tag != SEQUENCE:
        raise ValueError("a certificate without contents")
    fields = [each for each in inside(contents) if each.tag != _VERSION][_FIELDS_BEFORE:]
    if len(fields) < _FIELDS:
        raise ValueError("a certificate without a subject")
    return fields


def _moment(element: Element) -> datetime:
    text = element.body.decode("ascii")
    if element.tag == UTC_TIME:  # of two digits; RFC 5280 says which century
        text = ("19" if text[:2] >= "50" else "20") + text
    else:
        expect(element, GENERALIZED_TIME)
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)


def _key_kind(key: Element) -> str:
    algorithm, bits = inside(key)
    kind, *parameters = inside(algorithm)
    name = object_id(kind.body)
    if name == _RSA:
        modulus, *_ = inside(only(bits.body[1:], SEQUENCE))
        return f"RSA {int.from_bytes(modulus.body, 'big').bit_length()}"
    if name == _ELLIPTIC and parameters and parameters[0].tag == OBJECT_ID:
        name = object_id(parameters[0].body)
    return _KEY_KINDS.get(name, name)


def _extensions(fields: list[Element]) -> Iterator[tuple[str, bytes]]:
    """The extensions, by type."""
    for field in fields:
        if field.tag != _EXTENSIONS:
            continue
        for extension in inside(only(field.body, SEQUENCE)):
            kind, *_, value = inside(extension)
            if expect(kind, OBJECT_ID) and expect(value, OCTETS):
                yield object_id(kind.body), value.body


def _parts(extension: bytes | None) -> Iterator[Element]:
    """The elements in an extension that is a sequence; none without it."""
    return iter(()) if extension is None else inside(only(extension, SEQUENCE))


def _alternative_name(element: Element) -> str:
    if element.tag == _ADDRESS:
        return f"IP:{ip_address(element.body)}"
    kind = _TEXT_NAMES.get(element.tag)
    if kind is None:
        return f"{element.tag:#x}:{element.body.hex()}"
    return f"{kind}:{element.body.decode('ascii', 'replace')}"
