"""ScramClient: the client's side of a SCRAM login (RFC 5802, RFC 7677), without channel binding,
as Kafka's brokers do it.

Law: the server must prove that it knows the password too, and must repeat the client's nonce, so
that no impostor passes for the broker. Anything else is a ScramError. No password leaves this file.
"""

from __future__ import annotations

import hmac

from kbroker.sasl.sasl_names import escaped
from kbroker.sasl.scram_keys import ITERATIONS_MIN, Derive, ScramMechanism, encoded
from kbroker.sasl.scram_messages import BY_DELEGATION, NO_BINDING, ScramError, as_text, from_base64

_ITERATIONS_OF_SERVERS_MAX = 1_000_000  # more would keep the client busy for seconds
_DIGITS_MAX = 9


class ScramClient:
    """An exchange of three messages, in the order of the methods."""

    def __init__(
        self,
        mechanism: ScramMechanism,
        username: str,
        password: str,
        nonce: str,
        derive: Derive = ScramMechanism.salted,
        *,
        is_token: bool = False,
    ) -> None:
        """`nonce`: printable, random, without commas. `is_token`: name and password are id and
        signature of a delegation token.
        """
        self._mechanism = mechanism
        self._derive = derive
        self._password = password
        self._nonce = nonce
        extension = f",{BY_DELEGATION}" if is_token else ""
        self._first_bare = f"n={escaped(username)},r={nonce}{extension}"
        self._server_signature = b""

    def first(self) -> bytes:
        """Return the first message: the user's name and the client's nonce."""
        return f"{NO_BINDING}{self._first_bare}".encode()

    def final(self, server_first: bytes) -> bytes:
        """Return the proof that we know the password. Raises ScramError."""
        text, fields = _fields(server_first)
        nonce, salt, iterations = fields.get("r", ""), fields.get("s", ""), fields.get("i", "")
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise ScramError("it did not repeat the client's nonce")
        is_number = iterations.isdecimal() and len(iterations) <= _DIGITS_MAX
        if not is_number or not (ITERATIONS_MIN <= int(iterations) <= _ITERATIONS_OF_SERVERS_MAX):
            raise ScramError(
                f"it asks for {iterations[:_DIGITS_MAX] or 'no'} iterations, allowed are "
                f"{ITERATIONS_MIN} to {_ITERATIONS_OF_SERVERS_MAX}"
            )
        mechanism = self._mechanism
        salted = self._derive(mechanism, self._password, from_base64(salt), int(iterations))
        bare = f"c={encoded(NO_BINDING.encode())},r={nonce}"
        message = f"{self._first_bare},{text},{bare}".encode()
        client_key = mechanism.client_key(salted)
        signature = mechanism.mac(mechanism.hashed(client_key), message)
        self._server_signature = mechanism.mac(mechanism.server_key(salted), message)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        return f"{bare},p={encoded(proof)}".encode()

    def check(self, server_final: bytes) -> None:
        """Check that the server knows the password. Raises ScramError."""
        _, fields = _fields(server_final)
        if "e" in fields:
            raise ScramError(f"it says {fields['e']}")
        if not self._server_signature or not hmac.compare_digest(
            from_base64(fields.get("v", "")), self._server_signature
        ):
            raise ScramError("it does not know the password itself")


def _fields(message: bytes) -> tuple[str, dict[str, str]]:
    text = as_text(message)
    fields = {part[:1]: part[2:] for part in text.split(",") if part[1:2] == "="}
    if "m" in fields:
        raise ScramError("it asks for an extension that is not known here")
    return text, fields
