"""OpenSSL's errors of handshakes in which one side does not trust the other, as sentences that say
what has to be put right. Pure.
"""

from __future__ import annotations

import re
import ssl
from enum import Enum, auto
from typing import NamedTuple

# X509_V_ERR_ of OpenSSL.
_NOT_YET, _EXPIRED, _OTHER_HOST, _OTHER_ADDRESS = 9, 10, 62, 64
_UNKNOWN_AUTHORITY = (2, 18, 19, 20, 21)
_ALERT = re.compile(r"ALERT_(\w+)")


class Distrust(Enum):
    """The kinds of certificates that one side does not trust: of the other side, or its own."""

    OTHER_NAME = auto()  # made for another name than the one that was connected to
    OUT_OF_DATE = auto()
    UNKNOWN_AUTHORITY = auto()
    REFUSED = auto()  # for another reason
    OWN_MISSING = auto()
    OWN_OUT_OF_DATE = auto()
    OWN_REVOKED = auto()
    OWN_UNKNOWN_AUTHORITY = auto()
    OWN_REFUSED = auto()  # Java says so of any reason, also of a name, and of none at all


# By the names of OpenSSL, less the version of TLS and "ALERT_". Others are of no certificate.
_ALERTS = {
    "NO_CERTIFICATE": Distrust.OWN_MISSING,
    "CERTIFICATE_REQUIRED": Distrust.OWN_MISSING,
    "CERTIFICATE_EXPIRED": Distrust.OWN_OUT_OF_DATE,
    "CERTIFICATE_REVOKED": Distrust.OWN_REVOKED,
    "UNKNOWN_CA": Distrust.OWN_UNKNOWN_AUTHORITY,
    "BAD_CERTIFICATE": Distrust.OWN_REFUSED,
    "UNSUPPORTED_CERTIFICATE": Distrust.OWN_REFUSED,
    "CERTIFICATE_UNKNOWN": Distrust.OWN_REFUSED,
    "ACCESS_DENIED": Distrust.OWN_REFUSED,
}


class Distrusted(NamedTuple):
    """The kind, and OpenSSL's word for it."""

    kind: Distrust
    said: str


class Words(NamedTuple):
    """The words of a side for both certificates and for what mends them, in whole clauses."""

    other: str  # like "the broker"
    theirs: str  # like "the broker's certificate"
    ours: str
    rename: str = ""  # for a certificate of another name
    trust: str = ""  # for an authority that this side does not know
    show: str = ""  # for a certificate that this side did not show
    be_trusted: str = ""  # for an authority that the other side does not know
    is_shown: bool = True  # whether this side has a certificate


def distrusted(error: OSError) -> Distrusted | None:
    """Return why one side does not trust the other; None for errors of another kind.

    Whether a client is trusted it learns as late as with its first answer (TLS 1.3).
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        return Distrusted(_kind(error.verify_code), error.verify_message.rstrip("."))
    return distrusted_by_alert(getattr(error, "reason", None) or "")


def distrusted_by_alert(name: str) -> Distrusted | None:
    """Return why the other side does not trust this one, by OpenSSL's name of an alert."""
    alert = _ALERT.search(name)
    kind = None if alert is None else _ALERTS.get(alert[1])
    return None if kind is None else Distrusted(kind, name)


def distrust_sentence(found: Distrusted, words: Words) -> str:
    """Say what is wrong with which certificate, and what mends it."""
    said = found.said
    sentences = {
        Distrust.OTHER_NAME: f"{words.theirs} is not made for the name {words.rename}",
        Distrust.OUT_OF_DATE: f"{words.theirs} is out of date ({said}): renew it, or set the clock",
        Distrust.UNKNOWN_AUTHORITY: (
            f"{words.theirs} is signed by nobody trusted here ({said}): {words.trust}"
        ),
        Distrust.REFUSED: f"{words.theirs} is refused ({said})",
        Distrust.OWN_MISSING: f"{words.other} asks for {words.ours} ({said}): {words.show}",
        Distrust.OWN_OUT_OF_DATE: (
            f"{words.ours} is out of date for {words.other} ({said}): renew it, or set the clock "
            "there"
        ),
        Distrust.OWN_REVOKED: f"{words.ours} is revoked for {words.other} ({said}): make a new one",
        Distrust.OWN_UNKNOWN_AUTHORITY: (
            f"{words.other} does not know who signed {words.ours} ({said}): {words.be_trusted}"
        ),
        Distrust.OWN_REFUSED: (
            f"{words.other} does not trust {words.ours} ({said}): {words.be_trusted}"
        ),
    }
    is_missing = found.kind is Distrust.OWN_REFUSED and not words.is_shown
    return sentences[Distrust.OWN_MISSING if is_missing else found.kind]


def _kind(code: int) -> Distrust:
    if code in (_OTHER_HOST, _OTHER_ADDRESS):
        return Distrust.OTHER_NAME
    if code in (_EXPIRED, _NOT_YET):
        return Distrust.OUT_OF_DATE
    return Distrust.UNKNOWN_AUTHORITY if code in _UNKNOWN_AUTHORITY else Distrust.REFUSED
