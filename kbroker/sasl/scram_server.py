"""ScramServer: the server's side of a SCRAM login (RFC 5802, RFC 7677). Pure.

Law: a user who does not exist is asked for a proof like any other, with a salt that stays the same,
and is refused in the same words. Apache refuses at the first message, and so lists its users to
whoever asks.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import NamedTuple

from kbroker.sasl.exchange import OTHER_AUTHZID, Identity, LoginRefusedError, Turn
from kbroker.sasl.scram_keys import (
    ITERATIONS_MIN,
    OWN_ITERATIONS,
    OWN_SALT_BYTES,
    SALT_BITS,
    ScramCredential,
    ScramMechanism,
    encoded,
    kafkas_salt,
)
from kbroker.sasl.scram_messages import (
    ClientFinal,
    ClientFirst,
    ScramError,
    parse_client_final,
    parse_client_first,
)


class ScramUser(NamedTuple):
    """A user, or a delegation token, that exists."""

    credential: ScramCredential
    identity: Identity


Find = Callable[[str, bool], ScramUser | None]
"""Looks a name up; True: it is that of a delegation token."""


class ScramServer:
    """An exchange of two messages from the client."""

    def __init__(
        self, mechanism: ScramMechanism, find: Find, nonce: str, made_up_key: bytes
    ) -> None:
        """`nonce`: printable, random, without commas; `made_up_key`: secret, the same at all
        brokers and after every start, as the salts of users who do not exist come from it.
        """
        self._mechanism = mechanism
        self._find = find
        self._nonce = nonce
        self._made_up_key = made_up_key
        self._first: ClientFirst | None = None
        self._challenge = ""
        self._identity: Identity | None = None
        self._credential: ScramCredential | None = None

    def receive(self, token: bytes) -> Turn:
        """Take the first message, then the last. Raises LoginRefusedError."""
        try:
            if self._first is None:
                return self._begin(parse_client_first(token))
            return self._finish(self._first, parse_client_final(token))
        except ScramError as error:
            raise LoginRefusedError(str(error)) from None

    def _begin(self, first: ClientFirst) -> Turn:
        if first.authzid not in ("", first.username):
            # before the user is looked up, so that it tells nothing about users
            raise LoginRefusedError("it asks to act for another", said=OTHER_AUTHZID)
        made_up = self._made_up(first.username)  # for all, so that it takes all the same time
        user = self._find(first.username, first.is_token)
        if user is not None and user.credential.iterations >= ITERATIONS_MIN:
            self._credential, self._identity = user
        credential = self._credential or made_up
        self._credential = credential
        self._first = first
        self._challenge = (
            f"r={first.nonce}{self._nonce},s={encoded(credential.salt)},i={credential.iterations}"
        )
        return Turn(self._challenge.encode())

    def _finish(self, first: ClientFirst, final: ClientFinal) -> Turn:
        credential, self._credential = self._credential, None
        if credential is None:
            raise LoginRefusedError("it sends more than two messages")
        nonce = first.nonce + self._nonce
        # Clients of librdkafka before 2.6.1 put their own in front once more; Kafka lets them in.
        if final.nonce not in (nonce, first.nonce + nonce):
            raise LoginRefusedError("it does not repeat the nonce")
        if final.header != first.header.encode():
            raise LoginRefusedError("it does not repeat the header of its first message")
        message = f"{first.bare},{self._challenge},{final.bare}".encode()
        knows = self._is_proof(credential, final.proof, message)
        if self._identity is None:
            raise LoginRefusedError("no such user, or without a credential of this mechanism")
        if not knows:
            raise LoginRefusedError("wrong password")
        signature = self._mechanism.mac(credential.server_key, message)
        return Turn(f"v={encoded(signature)}".encode(), self._identity)

    def _is_proof(self, credential: ScramCredential, proof: bytes, message: bytes) -> bool:
        signature = self._mechanism.mac(credential.stored_key, message)
        if len(proof) != len(signature):
            return False
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        return hmac.compare_digest(self._mechanism.hashed(client_key), credential.stored_key)

    def _made_up(self, username: str) -> ScramCredential:
        name = f"{self._mechanism.sasl_name}\0{username}".encode()
        made_up = self._mechanism.mac(self._made_up_key, name)
        # Salts and iterations of half of them are those of Kafka's tools, of the others our own,
        # for all mechanisms of a name: they are what users have who exist.
        number = int.from_bytes(made_up, "big") >> (8 * len(made_up) - SALT_BITS)
        salt, iterations = kafkas_salt(number), ITERATIONS_MIN
        if hmac.digest(self._made_up_key, username.encode(), "sha256")[0] & 1:
            salt, iterations = made_up[:OWN_SALT_BYTES], OWN_ITERATIONS
        # No proof fits these keys, and none would let anybody in: there is no identity.
        return ScramCredential(salt, made_up, made_up, iterations)
