"""The delegation tokens of KRaft's metadata, as nodes of the tree. They log in as before, under the
secret that signed them. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kbroker.delegation_tokens.delegation_token import DelegationToken
from kbroker.server.adoption.kraft_metadata import ClusterMetadata
from kbroker.zk import zk_paths
from kbroker.zk.nodes.acl_znodes import can_be_kept
from kbroker.zk.nodes.delegation_token_znodes import decode_token, encode_token, token_path
from kbroker.zk.tree import CreateOp, Op
from kbroker.zk.znode_json import ZnodeFormatError


def usable_tokens(metadata: ClusterMetadata | None) -> tuple[tuple[DelegationToken, ...], int]:
    """The tokens, and how many others a tree cannot have."""
    tokens: list[DelegationToken] = []
    lost = 0
    for record in metadata.tokens.values() if metadata is not None else ():
        token = DelegationToken(
            token_id=record.token_id,
            owner=record.owner,
            requester=record.requester,
            renewers=tuple(record.renewers),
            issued_ms=record.issue_timestamp,
            expires_ms=record.expiration_timestamp,
            ends_ms=record.max_timestamp,
        )
        if _can_be_kept(token):
            tokens.append(token)
        else:
            lost += 1
    return tuple(tokens), lost


def token_ops(tokens: Sequence[DelegationToken]) -> Iterator[Op]:
    """The writes that make the tokens, in a tree without any."""
    if tokens:
        yield CreateOp(zk_paths.DELEGATION_TOKENS.rpartition("/")[0])
        yield CreateOp(zk_paths.DELEGATION_TOKENS)
    for token in tokens:
        yield CreateOp(token_path(token.token_id), encode_token(token))


def _can_be_kept(token: DelegationToken) -> bool:
    try:
        return can_be_kept(token.token_id) and token == decode_token(
            token.token_id, encode_token(token)
        )
    except ZnodeFormatError:
        return False
