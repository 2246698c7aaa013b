"""DescribeDelegationToken (key 41), versions 0 to 3: tokens that one may see (KIP-48, KIP-373).

v1: same bytes. v2: flexible. v3: who has asked for a token. Owners, those who asked, and renewers
see their tokens, others under a rule. Whoever sees a token gets its signature, as in Kafka, and can
log in by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from kbroker.acl.acl import AclOperation, AclResource, AclResourceType
from kbroker.apis.authorization import AskedInside
from kbroker.apis.context import RequestContext
from kbroker.apis.large_answers import is_large, written
from kbroker.apis.now_or_later import NowOrLater
from kbroker.apis.registry import api
from kbroker.apis.token_requests import check_may_ask, tokens_of, type_and_name
from kbroker.delegation_tokens.delegation_token import DelegationToken
from kbroker.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from kbroker.slices import slices

Described = DescribeDelegationTokenResponse.DescribedDelegationToken
Renewer = DescribeDelegationTokenResponse.DescribedDelegationTokenRenewer

_BYTES_OF_TOKEN = 256
_BYTES_OF_RENEWER = 32
_TOKENS_AT_ONCE = 32  # a few milliseconds, with as many renewers as they may have


@api(
    DescribeDelegationTokenRequest,
    AskedInside(AclOperation.DESCRIBE, AclResourceType.DELEGATION_TOKEN),
    AskedInside(AclOperation.DESCRIBE_TOKENS, AclResourceType.USER),
)
def handle(
    ctx: RequestContext, request: DescribeDelegationTokenRequest
) -> NowOrLater[DescribeDelegationTokenResponse]:
    """List the tokens of the owners asked for, of all if that is null, that the client may see."""
    check_may_ask(ctx)
    tokens, response = tokens_of(ctx), DescribeDelegationTokenResponse()
    if request.owners is None:
        owners = None
    else:
        owners = frozenset(f"{o.principal_type}:{o.principal_name}" for o in request.owners)
    if owners is not None and not owners:
        return response
    parts = (_described(ctx, owners, some) for some in slices(tokens.every(), _TOKENS_AT_ONCE))
    renewers = sum(len(token.renewers) for token in tokens.every())
    size_bytes = _BYTES_OF_TOKEN * tokens.count + _BYTES_OF_RENEWER * renewers
    if is_large(size_bytes):
        return written(ctx, response, "tokens", parts, size_bytes)
    response.tokens = list(chain.from_iterable(parts))
    return response


def _described(
    ctx: RequestContext, owners: frozenset[str] | None, tokens: Iterable[DelegationToken]
) -> list[Described]:
    return list(_visible(ctx, owners, tokens))


def _visible(
    ctx: RequestContext, owners: frozenset[str] | None, tokens: Iterable[DelegationToken]
) -> Iterator[Described]:
    own = (ctx.connection.principal,)
    for token in tokens:
        if owners is not None and not token.concerns(owners):
            continue
        if token.concerns(own) or _is_shown(ctx, token):
            yield _entry(token, tokens_of(ctx).signature(token.token_id))


def _is_shown(ctx: RequestContext, token: DelegationToken) -> bool:
    itself = AclResource(AclResourceType.DELEGATION_TOKEN, token.token_id)
    if ctx.is_authorized(AclOperation.DESCRIBE, itself):
        return True
    owner = AclResource(AclResourceType.USER, token.owner)
    return ctx.is_authorized(AclOperation.DESCRIBE_TOKENS, owner)


def _entry(token: DelegationToken, hmac: bytes) -> Described:
    kind, name = type_and_name(token.owner)
    requester_kind, requester_name = type_and_name(token.requester)
    renewers = [Renewer(principal_type=k, principal_name=n) for k, n in _each(token.renewers)]
    return Described(
        principal_type=kind,
        principal_name=name,
        token_requester_principal_type=requester_kind,
        token_requester_principal_name=requester_name,
        issue_timestamp=token.issued_ms,
        expiry_timestamp=token.expires_ms,
        max_timestamp=token.ends_ms,
        token_id=token.token_id,
        hmac=hmac,
        renewers=renewers,
    )


def _each(principals: Iterable[str]) -> Iterator[tuple[str, str]]:
    return map(type_and_name, principals)
