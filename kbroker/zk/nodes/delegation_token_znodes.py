"""Delegation tokens in nodes of the tree: paths and JSON of Kafka 3.9.

Pure. A token has a node under /delegation_token/tokens, without its signature: that is made from
its id, with the secret of the brokers. The encoder gives Kafka's bytes; the decoder takes versions
1 to 3, and raises ZnodeFormatError for anything that Kafka could not have written.
"""

from __future__ import annotations

from kbroker.delegation_tokens.delegation_token import DelegationToken
from kbroker.zk import zk_paths
from kbroker.zk.nodes.acl_znodes import can_be_kept
from kbroker.zk.nodes.entity_configs import entity_name
from kbroker.zk.znode_json import ZnodeFormatError, decode_json, encode_json, int32, int64, text

CHANGE_PREFIX = "token_change_"

_VERSION = 3
_FIRST_WITH_REQUESTER = 3


def token_path(token_id: str) -> str:
    return f"{zk_paths.DELEGATION_TOKENS}/{token_id}"


def encode_token(token: DelegationToken) -> bytes:
    """Data of the node of a token, version 3."""
    return encode_json(
        {
            "issueTimestamp": token.issued_ms,
            "renewers": [zk_paths.sanitized(renewer) for renewer in token.renewers],
            "tokenRequester": zk_paths.sanitized(token.requester),
            "tokenId": token.token_id,
            "owner": zk_paths.sanitized(token.owner),
            "expiryTimestamp": token.expires_ms,
            "maxTimestamp": token.ends_ms,
            "version": _VERSION,
        }
    )


def decode_token(token_id: str, data: bytes | None) -> DelegationToken:
    """The token in the node of this name. Raises ZnodeFormatError."""
    path = token_path(token_id)
    document = decode_json(path, data)
    try:
        version = int32(document["version"])
        if not 1 <= version <= _VERSION:
            raise ValueError(f"version {version}")
        if text(document["tokenId"]) != token_id:
            raise ValueError("it is about another token")
        owner = _principal(document["owner"])
        renewers = document["renewers"]
        if not isinstance(renewers, list):
            raise TypeError("renewers is not a list")
        has_requester = version >= _FIRST_WITH_REQUESTER
        return DelegationToken(
            token_id=token_id,
            owner=owner,
            requester=_principal(document["tokenRequester"]) if has_requester else owner,
            renewers=tuple(map(_principal, renewers)),
            issued_ms=int64(document["issueTimestamp"]),
            expires_ms=int64(document["expiryTimestamp"]),
            ends_ms=int64(document["maxTimestamp"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ZnodeFormatError(f"{path}: {error!r}") from error


def encode_change(token_id: str) -> bytes:
    """Data of a notification about a token."""
    return token_id.encode()


def decode_change(data: bytes | None) -> str:
    """The id of the token that a notification is about. Raises ZnodeFormatError."""
    token_id = (data or b"").decode(errors="replace")
    if not can_be_kept(token_id):
        raise ZnodeFormatError(f"{zk_paths.DELEGATION_TOKEN_CHANGES}: {token_id!r} is not a token")
    return token_id


def _principal(value: object) -> str:
    principal = entity_name(text(value))
    if not principal.partition(":")[1]:
        raise ValueError(f"{principal!r} is not like User:ann")
    return principal
