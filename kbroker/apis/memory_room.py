"""MemoryRoom: how much memory large requests and their answers may take together.

Law: what does not fit waits, in the order it came; the oldest share always gets what it asks for,
so that one request is always being answered. A share is given back when nobody holds it any more,
whatever became of its request.

Owned by the event loop.
"""

from __future__ import annotations

import asyncio
from collections import deque

BUDGET_BYTES = 128 * 1024 * 1024


class Share:
    """What one request takes: from when it is read until its answer has left."""

    __slots__ = ("__weakref__", "_room", "size_bytes")

    def __init__(self, room: MemoryRoom) -> None:
        self._room = room
        self.size_bytes = 0

    async def take(self, size_bytes: int) -> None:
        """From now on it takes so much; waits until there is room for that."""
        await self._room.change(self, size_bytes)

    def give_back(self) -> None:
        """It takes nothing any more."""
        self._room.leave(id(self), self.size_bytes)
        self.size_bytes = 0

    def __del__(self) -> None:
        self.give_back()


class MemoryRoom:
    """The shares that are held, and requests that wait for one."""

    def __init__(self, budget_bytes: int = BUDGET_BYTES) -> None:
        self._budget_bytes = budget_bytes
        self._holders: dict[int, None] = {}  # oldest first
        self._waiting: deque[tuple[int, int, asyncio.Future[None]]] = deque()
        self.taken_bytes = 0

    def share(self) -> Share:
        """A share that takes nothing yet."""
        return Share(self)

    async def change(self, share: Share, size_bytes: int) -> None:
        """See `Share.take`."""
        more, key = size_bytes - share.size_bytes, id(share)
        if more > 0 and (not self._fits(key, more) or (self._waiting and not self._is_oldest(key))):
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((key, more, future))
            try:
                await future  # `_let_in` counts it
            except asyncio.CancelledError:
                if future.done() and not future.cancelled():
                    share.size_bytes = size_bytes  # it goes with the share
                raise
        else:
            self._count(key, more)
        share.size_bytes = size_bytes
        if more < 0:
            self._let_in()

    def leave(self, key: int, size_bytes: int) -> None:
        """A share is gone."""
        if self._holders.pop(key, "") is None:
            self.taken_bytes -= size_bytes
            self._let_in()

    def _count(self, key: int, more: int) -> None:
        self._holders.setdefault(key)
        self.taken_bytes += more

    def _is_oldest(self, key: int) -> bool:
        return next(iter(self._holders), key) == key

    def _fits(self, key: int, more: int) -> bool:
        return self.taken_bytes + more <= self._budget_bytes or self._is_oldest(key)

    def _let_in(self) -> None:
        is_full = False
        for entry in list(self._waiting):
            key, more, future = entry
            if future.done():  # given up
                self._waiting.remove(entry)
            elif self._is_oldest(key) or (not is_full and self._fits(key, more)):
                self._waiting.remove(entry)
                self._count(key, more)
                future.set_result(None)
            else:
                is_full = True
