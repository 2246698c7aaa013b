"""Claims of a token: all that they have to say for its holder to be let in. Pure.

Law: what is not said counts as wrong: a token without issuer, audience, time of issue or end is
refused, as is one of another type than the claim has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kbroker.sasl.exchange import Identity
from kbroker.tokens.json_token import seconds_as_ms

Claims = Mapping[str, Any]
_NAMED_MAX = 100  # characters of a claim in a reason


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedClaims:
    """The claims that a listener asks for. `skew_ms`: how far clocks may differ."""

    issuer: str
    audiences: frozenset[str]
    skew_ms: int = 30_000
    sub_claim: str = "sub"
    scope_claim: str = "scope"

    def identity_of(self, claims: Claims, now_ms: int) -> Identity:
        """Return who the token is for, and until when. Raises ValueError with the reason."""
        if claims.get("iss") != self.issuer:
            raise ValueError(f"its issuer is {named(claims.get('iss'))}, not {self.issuer}")
        if not self.audiences.intersection(strings(claims, "aud")):
            raise ValueError(
                f"its audience is {named(claims.get('aud'))}, not {' or '.join(self.audiences)}"
            )
        strings(claims, self.scope_claim)
        expires_at_ms = self._expires_at_ms(claims, now_ms)
        return Identity(user_of(claims, self.sub_claim), expires_at_ms=expires_at_ms)

    def _expires_at_ms(self, claims: Claims, now_ms: int) -> int:
        expires_at_ms = lifetime_of(claims, now_ms, self.skew_ms)
        if seconds_as_ms(claims.get("iat")) is None:
            raise ValueError("it does not say when it was issued (iat)")
        # Within the skew a session of no length would be one that never ends.
        return expires_at_ms if expires_at_ms > now_ms else expires_at_ms + self.skew_ms


def lifetime_of(claims: Claims, now_ms: int, skew_ms: int) -> int:
    """Return when a token ends, in milliseconds. Raises ValueError if it has, or has not begun."""
    times = {name: seconds_as_ms(claims.get(name)) for name in ("exp", "nbf", "iat")}
    for name, value_ms in times.items():
        if claims.get(name) is not None and value_ms is None:
            raise ValueError(f"its {name} is not a time")
    expires_at_ms = times["exp"]
    if expires_at_ms is None:
        raise ValueError("it does not say when it ends (exp)")
    if expires_at_ms + skew_ms <= now_ms:
        raise ValueError(f"it has expired {(now_ms - expires_at_ms) // 1000} s ago")
    for name in ("nbf", "iat"):
        begins_ms = times[name]
        if begins_ms is not None and begins_ms - skew_ms > now_ms:
            raise ValueError(f"it begins in {(begins_ms - now_ms) // 1000} s ({name})")
    return expires_at_ms


def user_of(claims: Claims, claim: str) -> str:
    """Return the name of the user, without blanks around it as in Kafka. Raises ValueError."""
    value = claims.get(claim)
    name = value.strip() if isinstance(value, str) else ""
    if not name or not name.isprintable():
        raise ValueError(f"it names no user ({claim})")
    return name


def strings(claims: Claims, claim: str) -> tuple[str, ...]:
    """Return the texts of a claim that holds one or a list of them. Raises ValueError."""
    value = claims.get(claim)
    if value is None:
        return ()
    values = value if isinstance(value, list) else [value]
    if not all(isinstance(each, str) and each.strip() for each in values):
        raise ValueError(f"its {claim} is not a text or a list of texts")
    return tuple(values)


def named(value: object) -> str:
    """Return a claim as a reason shows it: short, and without what could forge a line."""
    return "missing" if value is None else repr(value)[:_NAMED_MAX]
