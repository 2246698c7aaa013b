"""PlainServer: the server's side of PLAIN (RFC 4616), and the users of a JAAS file. Pure.

Law: a wrong password and a name that nobody has are told apart by nothing, also not by how long the
answer takes.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping

from kbroker.sasl.exchange import OTHER_AUTHZID, Identity, LoginRefusedError, Turn

Check = Callable[[str, str], bool]
"""Says whether a name and a password are those of a user."""

_FAILED = "Authentication failed: "
_INVALID = f"{_FAILED}Invalid username or password"
_PARTS = 3
_PARTS_COUNTED = 4  # as Kafka, which stops counting there


class PlainServer:
    """An exchange of one message: `authzid NUL username NUL password`."""

    def __init__(self, check: Check) -> None:
        """`check` is asked once, about names and passwords that are not empty."""
        self._check = check

    def receive(self, token: bytes) -> Turn:
        """Take the one message. Raises LoginRefusedError, with Kafka's words for the client."""
        try:
            parts = token.decode().split("\0", _PARTS_COUNTED - 1)
        except UnicodeDecodeError:
            raise LoginRefusedError("its message is not text", said=_INVALID) from None
        if len(parts) != _PARTS:
            words = f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}"
            raise LoginRefusedError("its message is not one of PLAIN", said=words)
        authzid, username, password = parts
        if not username:
            raise LoginRefusedError("no user name", said=f"{_FAILED}username not specified")
        if not password:
            raise LoginRefusedError("no password", said=f"{_FAILED}password not specified")
        if not self._check(username, password):
            raise LoginRefusedError("no such user, or a wrong password", said=_INVALID)
        if authzid not in ("", username):
            raise LoginRefusedError("it asks to act for another", said=OTHER_AUTHZID)
        return Turn(b"", Identity(username))


def plain_token(username: str, password: str) -> bytes:
    """Make the client's one message."""
    return f"\0{username}\0{password}".encode()


def check_of(users: Mapping[str, str]) -> Check:
    """Make a check of users with their passwords, as a JAAS file names them."""

    def check(username: str, password: str) -> bool:
        known = users.get(username)
        # Hashed first: a comparison takes as long as its strings are.
        same = hmac.compare_digest(_hash(password), _hash(known or ""))
        return same and known is not None

    return check


def _hash(password: str) -> bytes:
    return hashlib.sha256(password.encode()).digest()
