"""The client's side of SCRAM, with the examples of RFC 5802 and RFC 7677."""

from __future__ import annotations

import pytest

from kbroker.client.scram import ScramError, ScramExchange

SHA_1 = (
    "sha1",
    "fyko+d2lbbFgONRv9qkxdawL",
    "r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096",
    "c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
    "v=rmF9pqV8S7suAoZWja4dJRkFsKQ=",
)
SHA_256 = (
    "sha256",
    "rOprNGfwEbeRWgbNEkqO",
    "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
    "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    "p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
    "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
)
NONCE = SHA_256[1]


def exchange() -> ScramExchange:
    return ScramExchange("sha256", "user", "pencil", NONCE)


@pytest.mark.parametrize(
    ("hash_name", "nonce", "challenge", "proof", "verdict"), [SHA_1, SHA_256], ids=["5802", "7677"]
)
def test_the_examples_of_the_rfcs(
    hash_name: str, nonce: str, challenge: str, proof: str, verdict: str
) -> None:
    scram = ScramExchange(hash_name, "user", "pencil", nonce)

    assert scram.first() == f"n,,n=user,r={nonce}".encode()
    assert scram.final(challenge.encode()) == proof.encode()
    scram.check(verdict.encode())


def test_signs_of_the_syntax_in_a_name_are_escaped() -> None:
    assert ScramExchange("sha256", "a=b,c", "x", "n").first() == b"n,,n=a=3Db=2Cc,r=n"


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
        (f"r={NONCE}x,s=W22ZaJ0SNY7soEsUEjb6gQ==".encode(), "no iterations"),
        (f"r={NONCE}x,s=?,i=4096".encode(), "not base64"),
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
    scram.final(SHA_256[2].encode())

    with pytest.raises(ScramError, match=reason):
        scram.check(verdict)


def test_a_verdict_without_a_proof_before_it_is_not_believed() -> None:
    with pytest.raises(ScramError):
        exchange().check(b"v=")
