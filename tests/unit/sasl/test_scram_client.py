"""The client's side of SCRAM, with the examples of RFC 5802 and RFC 7677."""

from __future__ import annotations

import pytest

from kbroker.sasl.scram_client import ScramClient
from kbroker.sasl.scram_keys import SCRAM_MECHANISMS
from kbroker.sasl.scram_messages import ScramError
from tests.unit.sasl.scram_examples import EXAMPLES, RFC_7677, Example

NONCE = RFC_7677.client_nonce


def exchange() -> ScramClient:
    return ScramClient(SCRAM_MECHANISMS["SCRAM-SHA-256"], "user", "pencil", NONCE)


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES.keys())
def test_the_examples_of_the_rfcs_and_of_kafka(example: Example) -> None:
    scram = ScramClient(example.mechanism, example.username, example.password, example.client_nonce)

    assert scram.first() == example.client_first
    assert scram.final(example.server_first) == example.client_final
    scram.check(example.server_final)


def test_signs_of_the_syntax_in_a_name_are_escaped() -> None:
    scram = ScramClient(SCRAM_MECHANISMS["SCRAM-SHA-256"], "a=b,c", "x", "n")

    assert scram.first() == b"n,,n=a=3Db=2Cc,r=n"


@pytest.mark.parametrize(
    ("challenge", "reason"),
    [
        (b"r=another,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "did not repeat the client's nonce"),
        (
            f"r={NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode(),
            "did not repeat the client's nonce",
        ),
        (f"r={NONCE}x,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4095".encode(), "4095 iterations"),
        (f"r={NONCE}x,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=1000001".encode(), "1000001 iterations"),
        (f"r={NONCE}x,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=-1".encode(), "-1 iterations"),
        (f"r={NONCE}x,s=W22ZaJ0SNY7soEsUEjb6gQ==,i={'9' * 5000}".encode(), "999999999 iterations"),
        (f"r={NONCE}x,s=W22ZaJ0SNY7soEsUEjb6gQ==".encode(), "no iterations"),
        (f"r={NONCE}x,s=?,i=4096".encode(), "not base64"),
        (f"m=x,r={NONCE}x,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode(), "an extension"),
        (b"\xff", "not text"),
        (b"", "nonce"),
    ],
)
def test_a_challenge_that_is_none_gets_no_proof(challenge: bytes, reason: str) -> None:
    with pytest.raises(ScramError, match=reason):
        exchange().final(challenge)


@pytest.mark.parametrize(
    ("verdict", "reason"),
    [
        (b"v=" + b"A" * 43 + b"=", "does not know the password itself"),
        (b"v=", "does not know the password itself"),
        (b"", "does not know the password itself"),
        (b"e=invalid-proof", "says invalid-proof"),
    ],
)
def test_a_server_that_does_not_know_the_password_is_not_believed(
    verdict: bytes, reason: str
) -> None:
    scram = exchange()
    scram.final(RFC_7677.server_first)

    with pytest.raises(ScramError, match=reason):
        scram.check(verdict)


def test_a_verdict_without_a_proof_before_it_is_not_believed() -> None:
    with pytest.raises(ScramError):
        exchange().check(b"v=")
