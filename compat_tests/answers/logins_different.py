"""Logins that kbroker answers otherwise than Apache Kafka, each with its reason."""

from __future__ import annotations

from typing import NamedTuple


class Different(NamedTuple):
    """What comes in the end here, and why it is something else."""

    ours: list[str]
    reason: str


CHALLENGED = "0 nonce True, salt True, i=4096, 0:00:00"
_SMALL = "frames before a login have at most 64 KiB here, unless their size is set"
_PROOF = "answered as any other wrong proof; Apache Kafka fails, and says nothing"
_ENUMERATION = "who does not exist is asked for a proof, too: nobody learns the names of users"
_RFC = "RFC 5802: the last message has to repeat the header of the first one"
_MANDATORY = "RFC 5802: m= is an extension that has to be understood"


def _refused(mechanism: str = "SCRAM-SHA-256") -> str:
    return (
        "58 Authentication failed during authentication due to invalid credentials with SASL "
        f"mechanism {mechanism}, b'', 0:00:00"
    )


def _by_scram(*ours: str, reason: str, mechanism: str = "SCRAM-SHA-256") -> Different:
    return Different([*ours, _refused(mechanism), "closed"], reason)


DIFFERENT: dict[str, Different] = {
    **dict.fromkeys(
        ("first size of 100 KiB", "versions, size of 100 KiB", "handshake, size of 100 KiB"),
        Different(["closed"], _SMALL),
    ),
    "handshake, produce": Different(
        ["answered", "closed"], "Apache Kafka fails to refuse null records, and says nothing"
    ),
    "again: unknown mechanism": Different(
        ["33 PLAIN,SCRAM-SHA-256,SCRAM-SHA-512", "closed"],
        "the client learns why, as at its first login",
    ),
    **{
        f"{mechanism} {proof} proof 2": _by_scram(CHALLENGED, reason=_PROOF, mechanism=mechanism)
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
        for proof in ("no", "short")
    },
    **dict.fromkeys(
        ("SCRAM unknown user", "SCRAM user without this mechanism", "SCRAM tokenauth"),
        _by_scram(CHALLENGED, reason=_ENUMERATION),
    ),
    **dict.fromkeys(
        ("SCRAM own authzid, other binding", "SCRAM other binding"),
        _by_scram(CHALLENGED, reason=_RFC),
    ),
    **dict.fromkeys(
        ("SCRAM m=", "SCRAM m= behind"),
        Different([_refused(), "no challenge", "closed"], _MANDATORY),
    ),
    "SCRAM extension in last": Different(
        [CHALLENGED, "0 signature right, 0:00:00", "1 brokers, [3]"],
        "RFC 5802: extensions that need not be understood are passed over",
    ),
}
