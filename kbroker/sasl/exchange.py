"""Exchange: the server's side of one login by one mechanism, token by token.

Law: whoever is refused learns nothing about users and passwords; the reason is for the log, and
holds no secret either.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Identity(NamedTuple):
    """The user that a login was for."""

    name: str  # of the principal User:name
    is_token: bool = False  # by a delegation token
    expires_at_ms: int | None = None  # by the clock on the wall; None: does not
    owner: str | None = None  # of the token: the principal that has to come of the name


class Turn(NamedTuple):
    """A token for the client; with an identity, the login is done."""

    token: bytes
    identity: Identity | None = None


class LoginRefusedError(Exception):
    """A login that fails."""

    def __init__(self, reason: str, *, said: str = "") -> None:
        """`reason` goes to the log; `said` to the client, empty: only that it has failed."""
        super().__init__(reason)
        self.said = said


class Exchange(Protocol):
    """A login that has begun."""

    def receive(self, token: bytes) -> Turn:
        """Take the client's next token. Raises LoginRefusedError; nothing follows then."""
        ...


OTHER_AUTHZID = (
    "Authentication failed: Client requested an authorization id that is different from username"
)
