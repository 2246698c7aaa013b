"""Requests about delegation tokens: who may send them, and principals as they stand in them."""

from __future__ import annotations

from kbroker.admin.delegation_token_manager import DelegationTokenManager
from kbroker.apis.context import RequestContext
from kbroker.errors import ErrorCode, KafkaError

_ANONYMOUS = "User:ANONYMOUS"


def check_may_ask(ctx: RequestContext) -> None:
    """Raises KafkaError DELEGATION_TOKEN_REQUEST_NOT_ALLOWED to those who have not said who they
    are, and to those who have logged in by a token: no token begets another one.
    """
    connection = ctx.connection
    protocol, principal = connection.security_protocol, connection.principal
    is_nobody = protocol == "PLAINTEXT" or (protocol == "SSL" and principal == _ANONYMOUS)
    if connection.has_token or is_nobody:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)


def tokens_of(ctx: RequestContext) -> DelegationTokenManager:
    """The tokens of the cluster. Raises KafkaError DELEGATION_TOKEN_AUTH_DISABLED."""
    tokens = ctx.services.tokens
    if tokens is None:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    return tokens


def type_and_name(principal: str) -> tuple[str, str]:
    """A principal as answers have it.

    >>> type_and_name("User:a:b")
    ('User', 'a:b')
    """
    kind, _, name = principal.partition(":")
    return kind, name
