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
    ScramCredential,
    ScramMechanism,
    encoded,
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
MakeUp = Callable[[str], ScramCredential]
"""Makes up a credential for a name: always the same one, also at other brokers."""


def made_up_name(name: str, is_token: bool) -> str:
    """The name for which a credential is made up: for a token one that no user can have. Asked for
    in both ways, a name that is nobody's gets two salts, as a user's does.
    """
    return f"{name}\0token" if is_token else name


class ScramServer:
    """An exchange of two messages from the client."""

    def __init__(self, mechanism: ScramMechanism, find: Find, nonce: str, make_up: MakeUp) -> None:
        """`nonce`: printable, random, without commas. Users who do not exist are asked for a proof
        by what `make_up` gives them.
        """
        self._mechanism = mechanism
        self._find = find
        self._nonce = nonce
        self._make_up = make_up
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
        # For all, so that it takes all the same time.
        made_up = self._make_up(made_up_name(first.username, first.is_token))
        user = self._find(first.username, first.is_token)
        if user is not None and user.credential.is_strong:
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
        both = int.from_bytes(proof, "big") ^ int.from_bytes(signature, "big")
        client_key = both.to_bytes(len(proof), "big")
        return hmac.compare_digest(self._mechanism.hashed(client_key), credential.stored_key)
