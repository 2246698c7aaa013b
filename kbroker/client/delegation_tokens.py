"""Delegation tokens as a running cluster has them: made, described, renewed and ended (KIP-48).

Law: a signature, which is as good as a password, is in no error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from kbroker.client.cluster_links import ClusterLinks
from kbroker.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from kbroker.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from kbroker.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kbroker.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest

Described = DescribeDelegationTokenResponse.DescribedDelegationToken
Owner = DescribeDelegationTokenRequest.DescribeDelegationTokenOwner
Renewer = CreateDelegationTokenRequest.CreatableRenewers

BROKERS_OWN = -1
"""A period that is left to the brokers' settings; for the end of a token: at once."""
_SENTENCES: Mapping[ErrorCode, str] = MappingProxyType(
    {
        ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: (
            "the brokers have no secret to sign tokens with: set delegation.token.secret.key, to "
            "the same at all of them"
        ),
        ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: (
            "tokens are for those who log in with a password or a certificate of their own: "
            "nobody gets one by a token, or without a login"
        ),
        ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: (
            "a token for another user takes the right CreateTokens on that user"
        ),
        ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH: "only its owner and its renewers may",
        ErrorCode.DELEGATION_TOKEN_EXPIRED: "it has expired: make another one",
        ErrorCode.DELEGATION_TOKEN_NOT_FOUND: "it is not there any more",
        ErrorCode.INVALID_PRINCIPAL_TYPE: "owners and renewers are like User:ann",
    }
)


def created_token(
    links: ClusterLinks, owner: str | None, renewers: Iterable[str], longest_ms: int
) -> CreateDelegationTokenResponse:
    """Make a token, for who asks without an `owner`. Raises OSError, and KafkaError if that is
    refused.
    """
    kind, name = (None, None) if owner is None else _parts(owner)
    request = CreateDelegationTokenRequest(
        owner_principal_type=kind,
        owner_principal_name=name,
        renewers=[Renewer(principal_type=k, principal_name=n) for k, n in map(_parts, renewers)],
        max_lifetime_ms=longest_ms,
    )
    answer: CreateDelegationTokenResponse = _checked(links.ask_any(request))
    return answer


def described_tokens(links: ClusterLinks, owners: Sequence[str] = ()) -> list[Described]:
    """Return the tokens of these owners, of all without any, that who asks may see. Raises as
    `created_token`.
    """
    asked = [Owner(principal_type=k, principal_name=n) for k, n in map(_parts, owners)]
    answer = _checked(links.ask_any(DescribeDelegationTokenRequest(owners=asked or None)))
    found: list[Described] = answer.tokens
    return sorted(found, key=lambda token: (token.issue_timestamp, token.token_id))


def renewed_token(links: ClusterLinks, hmac: bytes, period_ms: int) -> int:
    """Renew a token; returns when it ends now. Raises as `created_token`."""
    request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)
    return int(_checked(links.ask_any(request)).expiry_timestamp_ms)


def expired_token(links: ClusterLinks, hmac: bytes, period_ms: int) -> int:
    """End a token; returns when it ends now. Raises as `created_token`."""
    request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
    return int(_checked(links.ask_any(request)).expiry_timestamp_ms)


def _checked(answer: Any) -> Any:
    code = ErrorCode(answer.error_code)
    if code != ErrorCode.NONE:
        raise KafkaError(code, _SENTENCES.get(code))
    return answer


def _parts(principal: str) -> tuple[str, str]:
    kind, _, name = principal.partition(":")
    return kind, name
