"""Certificates of PEM texts, as they stand in files and in the properties of clients. Pure."""

from __future__ import annotations

import base64
import re

from kbroker.config.pem_text import certificates_in
from kbroker.config.properties_file import parse_properties
from kbroker.tls.certificate import Certificate, parse_certificate

_CERTIFICATE = re.compile(r"-----BEGIN [A-Z ]*CERTIFICATE-----([^-]*)-----END")
_KEY = re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----")
_ENCRYPTED_KEY = re.compile(r"-----BEGIN ENCRYPTED PRIVATE KEY-----|Proc-Type: 4,ENCRYPTED")
_PROPERTIES = re.compile(r"(?m)^\s*ssl\.\S+\s*[=:]\s*-+BEGIN")


def pem_in(text: str) -> str:
    """The PEM text of a file. Of properties those with PEM are taken, the trusted ones last."""
    if not _PROPERTIES.search(text):
        return text
    values = parse_properties(text)
    names = sorted(name for name, value in values.items() if "-----BEGIN" in value)
    return "\n".join(values[name] for name in names)


def certificates_of(text: str) -> list[Certificate]:
    """The certificates of a PEM text, in their order. Raises ValueError for none, or one that
    cannot be read.
    """
    blocks = _CERTIFICATE.findall(certificates_in(text))
    return [parse_certificate(base64.b64decode(block)) for block in blocks]


def principal_of(certificate: Certificate) -> str:
    """The user that a broker takes the owner for, unless rules say otherwise."""
    return f"User:{certificate.subject or 'ANONYMOUS'}"


def names_of(certificate: Certificate) -> list[str]:
    """The host names and addresses that the certificate is for."""
    kinds = (each.partition(":")[::2] for each in sorted(certificate.alternative_names))
    return [name for kind, name in kinds if kind in ("DNS", "IP")]


def is_for(certificate: Certificate, host: str) -> bool:
    """Whether a client that calls a server by this name or address takes its certificate."""
    parent = f"*.{host.lower().partition('.')[2]}"
    return any(name.lower() in (host.lower(), parent) for name in names_of(certificate))


def has_key(text: str) -> bool:
    """Whether a PEM text has a private key."""
    return _KEY.search(text) is not None


def has_encrypted_key(text: str) -> bool:
    """Whether the private key of a PEM text needs a pass phrase."""
    return _ENCRYPTED_KEY.search(text) is not None
