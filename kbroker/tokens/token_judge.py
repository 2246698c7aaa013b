"""SignedTokenJudge: says who a signed token is for, or why it is not taken. Pure.

Law: nothing of a token counts before its signature does, but for the algorithm and the name of the
key; the algorithm is one of a list, whatever the token asks for. An error is a refusal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kbroker.sasl.exchange import Identity
from kbroker.sasl.oauthbearer import BearerLogin, TokenRefusal
from kbroker.tokens.json_token import JsonToken, parse_token
from kbroker.tokens.key_set import ALGORITHMS, PublicKey
from kbroker.tokens.token_claims import ExpectedClaims, named

KID_CHARS_MAX = 1_000  # as in Kafka


class Keys(Protocol):
    """The keys of an issuer, wherever they come from."""

    def find(self, kid: str | None, algorithm: str) -> PublicKey | None:
        """Return a key by its name, and without waiting for anybody."""
        ...


class SignedTokenJudge:
    """A judge of logins by OAUTHBEARER. It keeps nothing, so any thread may ask it."""

    def __init__(self, keys: Keys, expected: ExpectedClaims, now_ms: Callable[[], int]) -> None:
        """`now_ms` is by the clock on the wall."""
        self._keys = keys
        self._expected = expected
        self._now_ms = now_ms

    def __call__(self, login: BearerLogin) -> Identity | TokenRefusal:
        """Judge a login; its extensions say nothing that counts here."""
        try:
            token = parse_token(login.token)
            self._check_signature(token)
            return self._expected.identity_of(token.claims, self._now_ms())
        except ValueError as error:
            return TokenRefusal("invalid_token", f"a token that is not taken: {error}")

    def _check_signature(self, token: JsonToken) -> None:
        """Raises ValueError unless a key of the issuer has signed it."""
        algorithm, kid = token.header.get("alg"), token.header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
            raise ValueError(
                f"its algorithm is {named(algorithm)}, allowed are {', '.join(ALGORITHMS)}"
            )
        if not isinstance(kid, str | None) or len(kid or "") > KID_CHARS_MAX:
            raise ValueError(f"its kid is not a name of at most {KID_CHARS_MAX} characters")
        if "crit" in token.header:
            raise ValueError("its header has to be understood (crit) and is not")
        key = self._keys.find(kid, algorithm)
        if key is None:
            raise ValueError(f"no key {named(kid)} of its issuer for {algorithm} is known")
        if not key.verifies(algorithm, token.signed, token.signature):
            raise ValueError("its signature is wrong")
