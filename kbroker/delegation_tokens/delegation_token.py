"""DelegationToken: somebody's right to log in as its owner, for a time (KIP-48, KIP-373).

Pure. Law: who owns a token or may renew it, and nobody else, changes its end; no change lets it
last beyond the time that it was made for. A token has no secret of its own: what its holder proves
to know is its signature, made with the secret of the brokers.
"""

from __future__ import annotations

import base64
from collections.abc import Collection
from typing import NamedTuple

from kbroker.errors import ErrorCode, KafkaError

USER_TYPE = "User"
NO_TIME = -1
"""The time in the answer to a request that is refused."""
_LAST_MS = 2**63 - 1


class Lifetimes(NamedTuple):
    """How long tokens last that nobody has other wishes for, in milliseconds."""

    unless_renewed_ms: int
    longest_ms: int


class DelegationToken(NamedTuple):
    """A token; principals are like User:ann, times milliseconds since 1970."""

    token_id: str
    owner: str
    requester: str  # who asked for it, in the owner's place
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int  # unless it is renewed
    ends_ms: int  # whatever happens

    def has_expired(self, now_ms: int) -> bool:
        """Whether nobody may log in by it any more."""
        return min(self.expires_ms, self.ends_ms) < now_ms

    def concerns(self, principals: Collection[str]) -> bool:
        """Whether one of these owns it, has asked for it, or may renew it."""
        return (
            self.owner in principals
            or self.requester in principals
            or any(renewer in principals for renewer in self.renewers)
        )


def issued(
    token: DelegationToken, wanted_ms: int, lifetimes: Lifetimes, now_ms: int
) -> DelegationToken:
    """A new token with its times; at most `wanted_ms` if that is positive."""
    longest_ms = lifetimes.longest_ms
    life_ms = min(wanted_ms, longest_ms) if wanted_ms > 0 else longest_ms
    ends_ms = min(now_ms + life_ms, _LAST_MS)
    expires_ms = min(now_ms + lifetimes.unless_renewed_ms, ends_ms)
    return token._replace(issued_ms=now_ms, expires_ms=expires_ms, ends_ms=ends_ms)


def renewed(
    token: DelegationToken, principal: str, period_ms: int, lifetimes: Lifetimes, now_ms: int
) -> DelegationToken:
    """The token with its end at a period from now; a negative one is the brokers' own.

    Raises KafkaError DELEGATION_TOKEN_OWNER_MISMATCH, DELEGATION_TOKEN_EXPIRED.
    """
    _check(token, principal)
    period_ms = lifetimes.unless_renewed_ms if period_ms < 0 else period_ms
    return _ending_in(token, period_ms, now_ms)


def shortened(
    token: DelegationToken, principal: str, period_ms: int, now_ms: int
) -> DelegationToken | None:
    """The token with its end at a period from now; None, at once, for a negative one.

    Raises KafkaError as `renewed`.
    """
    _check(token, principal)
    return None if period_ms < 0 else _ending_in(token, period_ms, now_ms)


def _check(token: DelegationToken, principal: str) -> None:
    if principal != token.owner and principal not in token.renewers:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)


def _ending_in(token: DelegationToken, period_ms: int, now_ms: int) -> DelegationToken:
    if token.has_expired(now_ms):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    return token._replace(expires_ms=min(token.ends_ms, now_ms + period_ms))


def signature(secret: bytes, token_id: str) -> bytes:
    """Sign a token's id, as each broker does again: its holder has that (HMAC-SHA512)."""
    import hmac  # OpenSSL's library, which a broker without tokens does without

    return hmac.digest(secret, token_id.encode(), "sha512")


def password(signed: bytes) -> str:
    """The password with which a token logs in: its signature in base64."""
    return base64.b64encode(signed).decode()
