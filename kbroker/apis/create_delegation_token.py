"""CreateDelegationToken (key 38), versions 0 to 3: a token for an owner (KIP-48, KIP-373).

v1: same bytes. v2: flexible. v3: the owner may be another one than who asks, under a rule. Any
broker does it, as in Kafka's ZooKeeper mode. Kafka fails for an owner without a type; here it is
refused.
"""

from __future__ import annotations

from kbroker.acl.acl import AclOperation, AclResource, AclResourceType
from kbroker.apis.authorization import AskedInside
from kbroker.apis.context import RequestContext
from kbroker.apis.registry import api
from kbroker.apis.token_requests import check_may_ask, tokens_of, type_and_name
from kbroker.delegation_tokens.delegation_token import NO_TIME, USER_TYPE, DelegationToken
from kbroker.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)


@api(
    CreateDelegationTokenRequest,
    AskedInside(AclOperation.CREATE_TOKENS, AclResourceType.USER),
)
async def handle(
    ctx: RequestContext, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    """Make a token, and answer when it can be used at this broker."""
    requester = ctx.connection.principal
    owner = requester
    if request.owner_principal_name:
        owner = f"{request.owner_principal_type or ''}:{request.owner_principal_name}"
    try:
        _check(ctx, request, owner)
        tokens = tokens_of(ctx)
        renewers = tuple(f"{USER_TYPE}:{each.principal_name}" for each in request.renewers)
        token = await tokens.create(owner, requester, renewers, request.max_lifetime_ms)
    except KafkaError as refusal:
        none = DelegationToken("", owner, requester, (), NO_TIME, NO_TIME, NO_TIME)
        return _answer(none, b"", refusal.code)
    return _answer(token, tokens.signature(token.token_id))


def _check(ctx: RequestContext, request: CreateDelegationTokenRequest, owner: str) -> None:
    check_may_ask(ctx)
    user = AclResource(AclResourceType.USER, owner)
    is_own = owner == ctx.connection.principal
    if not is_own and not ctx.is_authorized(AclOperation.CREATE_TOKENS, user):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
    if owner.startswith(":") or any(each.principal_type != USER_TYPE for each in request.renewers):
        raise KafkaError(ErrorCode.INVALID_PRINCIPAL_TYPE)


def _answer(
    token: DelegationToken, hmac: bytes, code: ErrorCode = ErrorCode.NONE
) -> CreateDelegationTokenResponse:
    kind, name = type_and_name(token.owner)
    requester_kind, requester_name = type_and_name(token.requester)
    return CreateDelegationTokenResponse(
        error_code=code,
        principal_type=kind,
        principal_name=name,
        token_requester_principal_type=requester_kind,
        token_requester_principal_name=requester_name,
        issue_timestamp_ms=token.issued_ms,
        expiry_timestamp_ms=token.expires_ms,
        max_timestamp_ms=token.ends_ms,
        token_id=token.token_id,
        hmac=hmac,
    )
