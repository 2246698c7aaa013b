"""ZkDelegationTokens: the delegation tokens of a cluster, in the nodes where Kafka keeps them.

Law: a change expects the version that was read, and is written in one transaction with the
notification that makes every broker read it. A node that cannot be read is reported, and is not
a token to anybody.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress

from kbroker.delegation_tokens.delegation_token import DelegationToken
from kbroker.slices import slices
from kbroker.zk import zk_paths
from kbroker.zk.nodes import delegation_token_znodes as znodes
from kbroker.zk.tree import (
    BadVersionError,
    CreateOp,
    DeleteOp,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Op,
    SetOp,
)
from kbroker.zk.zk_utils import MAX_CONFLICTS, ZkUtils

Change = Callable[[DelegationToken | None], DelegationToken | None]
"""The token afterwards, None if it goes, given the one before, None if there is none. May refuse by
raising.
"""
_ROW_NODES = 64  # read and decoded at a time: a few milliseconds


class ZkDelegationTokens:
    """The nodes under /delegation_token. Used on the event loop only."""

    def __init__(self, zk: ZkUtils) -> None:
        self._zk = zk

    async def create_paths(self) -> None:
        """Create the nodes that brokers with tokens expect."""
        await self._zk.create_if_absent(zk_paths.DELEGATION_TOKEN_CHANGES)
        await self._zk.create_if_absent(zk_paths.DELEGATION_TOKENS)

    async def every(self) -> AsyncIterator[dict[str, DelegationToken | None]]:
        """All tokens, some hundred at a time, by their ids."""
        for some in slices(await self._zk.children(zk_paths.DELEGATION_TOKENS), _ROW_NODES):
            yield await self.read(some)

    async def read(self, token_ids: Iterable[str]) -> dict[str, DelegationToken | None]:
        """Some tokens as they are now; None for one that is not there, or cannot be read."""
        wanted = list(token_ids)
        nodes = await self._zk.tree.get_all([znodes.token_path(each) for each in wanted])
        return {
            token_id: node and self._zk.decoded(znodes.decode_token, token_id, node[0])
            for token_id, node in zip(wanted, nodes, strict=True)
        }

    async def change(self, token_id: str, change: Change) -> DelegationToken | None:
        """Make, change or remove a token, and notify all brokers; returns it as it is now.

        Raises ZnodeFormatError for one that cannot be read, NodeTooLargeError, and BadVersionError
        if others change it all the time.
        """
        path = znodes.token_path(token_id)
        notification = CreateOp(
            f"{zk_paths.DELEGATION_TOKEN_CHANGES}/{znodes.CHANGE_PREFIX}",
            znodes.encode_change(token_id),
            sequential=True,
        )
        for _ in range(MAX_CONFLICTS):
            write, after = await self._write(token_id, path, change)
            if write is None:
                return after
            try:
                await self._zk.tree.multi((write, notification))
            except (BadVersionError, NodeExistsError):
                continue
            except NotEmptyError:
                await self._delete_below(path)
                continue
            except NoNodeError:
                await self.create_paths()
                continue
            return after
        raise BadVersionError(path)

    async def _write(
        self, token_id: str, path: str, change: Change
    ) -> tuple[Op | None, DelegationToken | None]:
        """The write that is needed, and the token after it."""
        try:
            data, stat = await self._zk.tree.get(path)
        except NoNodeError:
            after = change(None)
            return after and CreateOp(path, znodes.encode_token(after)), after
        before = znodes.decode_token(token_id, data)
        after = change(before)
        if after is None:
            return DeleteOp(path, stat.version), None
        if after == before:
            return None, after
        return SetOp(path, znodes.encode_token(after), stat.version), after

    async def _delete_below(self, path: str) -> None:
        """Delete what somebody has put below a token by hand, as Kafka does."""
        with suppress(NoNodeError):
            for name in await self._zk.tree.children(path):
                await self._delete_below(f"{path}/{name}")
                with suppress(NoNodeError):
                    await self._zk.tree.delete(f"{path}/{name}")
