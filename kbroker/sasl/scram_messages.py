"""Messages of SCRAM from a client, as the grammar of RFC 5802 (section 7) has them. Pure.

Law: a message is taken whole or refused; what has to be understood and is not (`m=`), or binds to a
channel, is refused.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from kbroker.sasl.sasl_names import SASL_NAME, unescaped
from kbroker.sasl.scram_keys import decoded

NO_BINDING = "n,,"
"""The header of a client without channel binding that acts for nobody else."""
BY_DELEGATION = "tokenauth=true"
"""The extension of a client that logs in by a delegation token (KIP-48)."""

_NONCE = r"[\x21-\x2b\x2d-\x7e]+"
_EXTENSIONS = r"(?:,[A-Za-z]+=[^\0,]+)*"
_BASE64 = r"[A-Za-z0-9+/]+={0,2}"
_FIRST = re.compile(
    rf"(?P<header>n,(?:a=(?P<authzid>{SASL_NAME}))?,)"
    rf"(?P<bare>n=(?P<name>{SASL_NAME}),r=(?P<nonce>{_NONCE})(?P<extensions>{_EXTENSIONS}))",
    re.DOTALL,
)
_FINAL = re.compile(
    rf"(?P<bare>c=(?P<header>{_BASE64}),r=(?P<nonce>{_NONCE})(?P<extensions>{_EXTENSIONS}))"
    rf",p=(?P<proof>{_BASE64})",
    re.DOTALL,
)


class ScramError(Exception):
    """A message that breaks the exchange, or a proof that proves nothing. Holds no secret."""


class ClientFirst(NamedTuple):
    """The name of the user, and the nonce of the client."""

    header: str  # the gs2 header, which the last message repeats
    bare: str  # what is signed
    username: str
    authzid: str  # empty: none
    nonce: str
    is_token: bool  # the name is that of a delegation token (KIP-48)


class ClientFinal(NamedTuple):
    """The client's proof, and what it repeats."""

    header: bytes
    bare: str  # what is signed
    nonce: str
    proof: bytes


def parse_client_first(message: bytes) -> ClientFirst:
    """Read the first message. Raises ScramError."""
    text = as_text(message)
    found = _FIRST.fullmatch(text)
    if found is None:
        raise ScramError("its first message is not one of SCRAM without channel binding")
    extensions = _extensions(found)
    return ClientFirst(
        found["header"],
        found["bare"],
        unescaped(found["name"]),
        unescaped(found["authzid"] or ""),
        found["nonce"],
        any(name == "tokenauth" and value.lower() == "true" for name, value in extensions),
    )


def parse_client_final(message: bytes) -> ClientFinal:
    """Read the last message. Raises ScramError."""
    found = _FINAL.fullmatch(as_text(message))
    if found is None:
        raise ScramError("its last message is not one of SCRAM")
    _extensions(found)
    return ClientFinal(
        from_base64(found["header"]), found["bare"], found["nonce"], from_base64(found["proof"])
    )


def _extensions(found: re.Match[str]) -> list[list[str]]:
    """The names and values of a message's extensions. Raises ScramError for one that has to be
    understood.
    """
    extensions = [part.split("=", 1) for part in found["extensions"].split(",")[1:]]
    if any(name == "m" for name, _ in extensions):
        raise ScramError("it asks for an extension that is not known here")
    return extensions


def as_text(message: bytes) -> str:
    """Decode a message. Raises ScramError if it is not UTF-8."""
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise ScramError("it sent a message that is not text") from None


def from_base64(text: str) -> bytes:
    """Read a field of a message. Raises ScramError."""
    try:
        return decoded(text)
    except ValueError:
        raise ScramError("it sent a field that is not base64") from None
