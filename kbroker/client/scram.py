"""ScramExchange: the client's side of a SCRAM login (RFC 5802, RFC 7677), without channel binding,
as Kafka's brokers do it.

Law: the server must prove that it knows the password too, and must repeat the client's nonce, so
that no impostor passes for the broker. Anything else is a ScramError. No password leaves this file.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac

ITERATIONS_MIN = 4_096  # as Kafka's clients: fewer would let a listener guess the password
ITERATIONS_MAX = 1_000_000  # a server that asks for more keeps us busy for a second and longer
_HEADER = "n,,"  # no channel binding, no other name to act for


class ScramError(Exception):
    """The server broke the exchange, or failed to prove that it knows the password."""


class ScramExchange:
    """An exchange of three messages, in the order of the methods."""

    def __init__(self, hash_name: str, username: str, password: str, nonce: str) -> None:
        """`hash_name` as hashlib knows it; `nonce`: printable, random, without commas."""
        self._hash_name = hash_name
        self._password = password.encode()
        self._nonce = nonce
        escaped = username.replace("=", "=3D").replace(",", "=2C")
        self._first_bare = f"n={escaped},r={nonce}"
        self._server_signature = b""

    def first(self) -> bytes:
        """Return the first message: the user's name and the client's nonce."""
        return f"{_HEADER}{self._first_bare}".encode()

    def final(self, server_first: bytes) -> bytes:
        """Return the proof that we know the password. Raises ScramError."""
        text, fields = _fields(server_first)
        nonce, salt, iterations = fields.get("r", ""), fields.get("s", ""), fields.get("i", "")
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise ScramError("it did not repeat the client's nonce")
        if not iterations.isdecimal() or not (ITERATIONS_MIN <= int(iterations) <= ITERATIONS_MAX):
            raise ScramError(
                f"it asks for {iterations or 'no'} iterations, allowed are {ITERATIONS_MIN} to "
                f"{ITERATIONS_MAX}"
            )
        salted = hashlib.pbkdf2_hmac(
            self._hash_name, self._password, _decoded(salt), int(iterations)
        )
        bare = f"c={_encoded(_HEADER.encode())},r={nonce}"
        message = f"{self._first_bare},{text},{bare}".encode()
        client_key = self._mac(salted, b"Client Key")
        stored_key = hashlib.new(self._hash_name, client_key).digest()
        signature = self._mac(stored_key, message)
        self._server_signature = self._mac(self._mac(salted, b"Server Key"), message)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        return f"{bare},p={_encoded(proof)}".encode()

    def check(self, server_final: bytes) -> None:
        """Check that the server knows the password. Raises ScramError."""
        _, fields = _fields(server_final)
        if "e" in fields:
            raise ScramError(f"it says {fields['e']}")
        if not self._server_signature or not hmac.compare_digest(
            _decoded(fields.get("v", "")), self._server_signature
        ):
            raise ScramError("it does not know the password itself")

    def _mac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._hash_name)


def _fields(message: bytes) -> tuple[str, dict[str, str]]:
    try:
        text = message.decode()
    except UnicodeDecodeError as error:
        raise ScramError("it sent a message that is not text") from error
    return text, {part[:1]: part[2:] for part in text.split(",") if part[1:2] == "="}


def _encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error) as error:
        raise ScramError("it sent a field that is not base64") from error
