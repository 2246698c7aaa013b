"""OpenSSL's errors of a client's handshake, by what has to be put right."""

from __future__ import annotations

import ssl
from enum import Enum, auto
from typing import NamedTuple

# X509_V_ERR_ of OpenSSL.
_NOT_YET, _EXPIRED, _OTHER_HOST, _OTHER_ADDRESS = 9, 10, 62, 64
_UNKNOWN_AUTHORITY = (2, 18, 19, 20, 21)


class Distrust(Enum):
    """The kinds of handshakes in which one side does not trust the other's certificate."""

    OTHER_NAME = auto()  # the server's is not made for the name that was connected to
    OUT_OF_DATE = auto()
    UNKNOWN_AUTHORITY = auto()
    REFUSED = auto()  # for another reason
    OF_CLIENT = auto()  # the server does not trust the client's, or there is none


class Distrusted(NamedTuple):
    """The kind, and OpenSSL's word for it."""

    kind: Distrust
    said: str


def distrusted(error: OSError) -> Distrusted | None:
    """Return why one side does not trust the other; None for errors of another kind.

    Whether a client is trusted it learns as late as with its first answer (TLS 1.3).
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        return Distrusted(_kind(error.verify_code), error.verify_message.rstrip("."))
    alert = getattr(error, "reason", None) or ""
    if "ALERT" in alert and ("CERTIFICATE" in alert or "UNKNOWN_CA" in alert):
        return Distrusted(Distrust.OF_CLIENT, alert)
    return None


def _kind(code: int) -> Distrust:
    if code in (_OTHER_HOST, _OTHER_ADDRESS):
        return Distrust.OTHER_NAME
    if code in (_EXPIRED, _NOT_YET):
        return Distrust.OUT_OF_DATE
    return Distrust.UNKNOWN_AUTHORITY if code in _UNKNOWN_AUTHORITY else Distrust.REFUSED
