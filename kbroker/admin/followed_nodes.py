"""FollowedNodes: what a broker knows of nodes that change, kept up to date by their notifications.

Law: everything is read once before the start has ended. Each notification makes what it names be
read again, and the loss of a session everything, as notifications may be gone. Readings come one
after another: one that began earlier never ends later, and undoes nothing.

Owned by the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Generic, NamedTuple, TypeVar

from kbroker.clock import Clock
from kbroker.zk.tree import Tree, TreeError
from kbroker.zk.zk_watchers import (
    RETRY_BACKOFF_S,
    ChangeNotificationWatcher,
    RepeatedReading,
    on_new_session,
)
from kbroker.zk.znode_json import ZnodeFormatError

_log = logging.getLogger(__name__)

KeyT = TypeVar("KeyT")


class Reading(NamedTuple, Generic[KeyT]):
    """The reading of nodes, by their keys, and what a notification names. `decode_change` raises
    ZnodeFormatError for one that does not say what has changed: everything is read then.
    """

    read_some: Callable[[list[KeyT]], Awaitable[None]]
    read_all: Callable[[], Awaitable[None]]
    decode_change: Callable[[bytes | None], KeyT]


class FollowedNodes(Generic[KeyT]):
    """The nodes of one kind."""

    def __init__(
        self, what: str, tree: Tree, roots: Iterable[str], reading: Reading[KeyT], clock: Clock
    ) -> None:
        """`what` names them in the log; their notifications are under `roots`."""
        self._what = what
        self._tree = tree
        self._nodes = reading
        self._is_stale = False  # everything has to be read again
        self._changed: dict[KeyT, None] = {}
        self._lock = asyncio.Lock()
        self._watchers = [
            ChangeNotificationWatcher(tree, root, self._on_notification, clock) for root in roots
        ]
        self._applying = RepeatedReading(f"changed {what}", self._apply_all)

    async def start(self) -> None:
        """Read everything, and follow changes. Raises TreeError."""
        on_new_session(self._tree, self._on_new_session)
        for watcher in self._watchers:
            await watcher.start()
        await self._read_all()
        self._applying.start()

    async def stop(self) -> None:
        """Follow changes no longer."""
        for watcher in self._watchers:
            await watcher.stop()
        await self._applying.stop()

    async def read(self, keys: Iterable[KeyT]) -> None:
        """Read some nodes now: they are known as they are, or newer, when this returns."""
        async with self._lock:
            await self._nodes.read_some(list(keys))

    async def _read_all(self) -> None:
        async with self._lock:
            await self._nodes.read_all()

    def _on_notification(self, data: bytes | None) -> None:
        self._applying.again()
        try:
            self._changed[self._nodes.decode_change(data)] = None
        except ZnodeFormatError:
            self._is_stale = True
            raise

    def _on_new_session(self) -> None:
        self._is_stale = True
        self._applying.again()

    async def _apply_all(self) -> None:
        while self._is_stale or self._changed:
            try:
                await self._apply()
            except TreeError:
                raise
            except Exception:  # a bug, or they would be followed no more
                _log.exception("changed %s cannot be read; all are read again", self._what)
                self._is_stale = True
                await asyncio.sleep(RETRY_BACKOFF_S)

    async def _apply(self) -> None:
        """Read what has changed; it goes on waiting if the tree is away."""
        some, is_stale = self._changed, self._is_stale
        self._changed, self._is_stale = {}, False
        try:
            if is_stale:
                await self._read_all()
            else:
                await self.read(some)
        except TreeError:
            self._changed = {**some, **self._changed}
            self._is_stale |= is_stale  # a session that was lost meanwhile has set it, too
            raise
