"""TokenUsers: delegation tokens as users of SCRAM, whose password is the token's signature.

Law: the credential of a token is derived when somebody asks for it first, which takes milliseconds
on the thread that asks, and is kept within a bound: for all tokens at once it would hold a start
for seconds. It looks like the credential that is made up for a token that does not exist.

Any thread may ask.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

from kbroker.admin.delegation_token_manager import DelegationTokenManager
from kbroker.delegation_tokens.delegation_token import DelegationToken, password
from kbroker.sasl.exchange import Identity
from kbroker.sasl.scram_keys import ScramCredential, ScramMechanism
from kbroker.sasl.scram_server import ScramUser, made_up_name

KEPT_MAX = 10_000  # three megabytes

MakeUp = Callable[[ScramMechanism, str], ScramCredential]


class TokenUsers:
    """The tokens of one cluster, by mechanism and id."""

    def __init__(self, tokens: DelegationTokenManager, make_up: MakeUp) -> None:
        self._tokens = tokens
        self._make_up = make_up
        self._lock = Lock()
        self._kept: dict[tuple[str, str], ScramCredential] = {}  # what was asked for last is last

    def find(self, mechanism: ScramMechanism, token_id: str) -> ScramUser | None:
        """The user that a token stands for; None if there is no such token."""
        token = self._tokens.find(token_id)
        if token is None:
            return None
        return ScramUser(self._credential(mechanism, token_id), identity_of(token))

    def _credential(self, mechanism: ScramMechanism, token_id: str) -> ScramCredential:
        looks = self._make_up(mechanism, made_up_name(token_id, is_token=True))
        key = mechanism.sasl_name, token_id
        with self._lock:
            kept = self._kept.pop(key, None)
            if kept is not None and (kept.salt, kept.iterations) == (looks.salt, looks.iterations):
                self._kept[key] = kept
                return kept
        made = ScramCredential.of_password(
            mechanism, password(self._tokens.signature(token_id)), looks.salt, looks.iterations
        )
        with self._lock:
            if len(self._kept) >= KEPT_MAX:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = made
        return made


def identity_of(token: DelegationToken) -> Identity:
    """The owner of a token, who logs in by it until it expires."""
    _, _, name = token.owner.partition(":")
    return Identity(
        name,
        is_token=True,
        owner=token.owner,
        expires_at_ms=min(token.expires_ms, token.ends_ms),
    )
