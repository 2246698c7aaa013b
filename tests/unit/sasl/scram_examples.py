"""The examples of RFC 5802 (section 5) and RFC 7677 (section 3), and logins at Apache Kafka 3.9.2."""

from __future__ import annotations

import base64
from dataclasses import dataclass

from kbroker.sasl.scram_keys import ScramCredential, ScramMechanism


@dataclass(frozen=True)
class Example:
    mechanism: ScramMechanism
    client_nonce: str
    server_nonce: str
    salt: str
    proof: str
    signature: str
    username: str = "user"
    password: str = "pencil"

    @property
    def client_first(self) -> bytes:
        return f"n,,n={self.username},r={self.client_nonce}".encode()

    @property
    def server_first(self) -> bytes:
        return f"r={self.client_nonce}{self.server_nonce},s={self.salt},i=4096".encode()

    @property
    def client_final(self) -> bytes:
        return f"c=biws,r={self.client_nonce}{self.server_nonce},p={self.proof}".encode()

    @property
    def server_final(self) -> bytes:
        return f"v={self.signature}".encode()

    @property
    def credential(self) -> ScramCredential:
        salt = base64.b64decode(self.salt)
        return ScramCredential.of_password(self.mechanism, self.password, salt, 4096)


RFC_5802 = Example(
    ScramMechanism("SCRAM-SHA-1", "sha1"),
    client_nonce="fyko+d2lbbFgONRv9qkxdawL",
    server_nonce="3rfcNHYJY1ZVvWVs7j",
    salt="QSXCR+Q6sek8bf92",
    proof="v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
    signature="rmF9pqV8S7suAoZWja4dJRkFsKQ=",
)
RFC_7677 = Example(
    ScramMechanism("SCRAM-SHA-256", "sha256"),
    client_nonce="rOprNGfwEbeRWgbNEkqO",
    server_nonce="%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
    salt="W22ZaJ0SNY7soEsUEjb6gQ==",
    proof="dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
    signature="6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
)
KAFKA_256 = Example(
    ScramMechanism("SCRAM-SHA-256", "sha256"),
    client_nonce="sTk4OcDgdzKAwqFg",
    server_nonce="106wl2i3vrcdjtay9bvp6imxlt",
    salt="MDEyMzQ1Njc4OQ==",
    proof="FvjSj2jerZxT0Z2xME7bF7IPNYown2OZMR9zjvrb9tI=",
    signature="dUxQ/xlU5m5kTmssFwR0EztegbeDihg0nJG2q+yrbCc=",
    username="sam",
    password="sam-secret",
)
KAFKA_512 = Example(
    ScramMechanism("SCRAM-SHA-512", "sha512"),
    client_nonce="RzuvMA5CiKCLvvmH",
    server_nonce="byx5u0pd6yg70e12wneqdjqan",
    salt="MDEyMzQ1Njc4OQ==",
    proof="gdQDE8MRa3xFFO3bfF1m2knUuxtTL/nGJe03uuEvxuZ8OzrSZzfwuX/mPh3ujrEbaQVbvn+6I4k+yBZX5plA7g==",
    signature="hfxXzMKaffTgmfvx5qeyAaxGKPcWW1VEBlIGjHD1fgANY9ojemKrRfTxnSTR/oedQ8Wzicp0/+vtdOz5h2wjFw==",
    username="sam",
    password="sam-secret",
)
EXAMPLES = {
    "5802": RFC_5802,
    "7677": RFC_7677,
    "kafka-256": KAFKA_256,
    "kafka-512": KAFKA_512,
}
