"""MemoryRoom: how much memory things of one kind may take together: frames that are being received,
or large requests in work and their answers.

Law: what does not fit waits, in the order it came; the oldest share always gets what it asks for,
so that one of them can always be finished. A share is given back when nobody holds it any more,
whatever became of its request. Nobody waits who is gone: what such a request keeps is not counted.
A room for small shares has a larger one behind it: what turns out to take more than belongs here
goes there, and waits in that line.

Owned by the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeVar

from kbroker.errors import ProtocolError

T = TypeVar("T")

REQUESTS_BYTES = 80 * 1024 * 1024  # large requests in work, and answers that have not left
SMALL_REQUESTS_BYTES = 16 * 1024 * 1024  # those that take less than others of them
SMALL_EACH_BYTES = 4 * 1024 * 1024
FRAMES_BYTES = 64 * 1024 * 1024  # being received; one of them may take more


class Owner(Protocol):
    """The client or broker whose request takes memory."""

    is_closed: bool
    when_closed: tuple[Callable[[], None], ...]  # called when the owner is gone


class Share:
    """The memory of one request, from when it is read until its answer has left."""

    __slots__ = ("__weakref__", "_owner", "_room", "size_bytes")

    def __init__(self, room: MemoryRoom, owner: Owner | None) -> None:
        self._room = room
        self._owner = owner
        self.size_bytes = 0

    @property
    def is_wanted(self) -> bool:
        """Whether others wait for memory that this share takes."""
        return self.size_bytes > 0 and self._room.is_wanted

    def take_now(self, size_bytes: int) -> bool:
        """Take so much from now on; False, and nothing is changed, if it has to wait."""
        return self._room.change(self, size_bytes)

    def wait(self, size_bytes: int, granted: Callable[[], bool]) -> None:
        """Stand in line for so much. `granted` is called when there is room, and says whether it is
        still wanted; it may not ask anything of the room.
        """
        self._room.stand_in_line(self, size_bytes, granted)

    async def take(self, size_bytes: int) -> None:
        """Take so much from now on; waits until there is room for that. Raises ProtocolError if
        its owner goes meanwhile.
        """
        larger = self._room.larger
        if larger is not None and size_bytes > SMALL_EACH_BYTES:
            await self._move(larger, size_bytes)
            return
        if self.take_now(size_bytes):
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def granted() -> bool:
            if future.done():  # given up
                return False
            future.set_result(None)
            return True

        self.wait(size_bytes, granted)
        try:
            await while_there(self._owner, future)
        except BaseException:
            self.wait_no_more()
            raise

    async def _move(self, room: MemoryRoom, size_bytes: int) -> None:
        """Move to the room for larger ones; the present memory stays until there is room there."""
        more = room.share(self._owner)
        await more.take(size_bytes)
        self.give_back()
        self._room = room
        room.count(self, size_bytes)
        more.give_back()

    def wait_no_more(self) -> None:
        """Leave the line; memory that was granted on the way goes back with the share."""
        self._room.leave_line(self)

    def hold(self, size_bytes: int) -> None:
        """Take so much whether it fits or not: the memory is taken already."""
        self._room.count(self, size_bytes)

    def give_back(self) -> None:
        """Take nothing any more, and wait for nothing."""
        self._room.leave(self)

    def __del__(self) -> None:
        self.give_back()


async def while_there(owner: Owner | None, future: asyncio.Future[T]) -> T:
    """Wait for a future as long as its owner is there. Raises ProtocolError once that has gone."""
    if owner is None:
        return await future

    def give_up() -> None:
        if not future.done():
            future.set_exception(ProtocolError("the client has gone"))

    if owner.is_closed:
        give_up()
    owner.when_closed += (give_up,)
    try:
        return await future
    finally:
        owner.when_closed = tuple(each for each in owner.when_closed if each is not give_up)


class _Waiting(NamedTuple):
    share: Share
    size_bytes: int
    granted: Callable[[], bool]


class MemoryRoom:
    """The shares that are held, and those that wait to take more."""

    def __init__(self, budget_bytes: int, larger: MemoryRoom | None = None) -> None:
        self.larger = larger
        self._budget_bytes = budget_bytes
        self._holders: dict[int, None] = {}  # oldest first
        self._waiting: dict[int, _Waiting] = {}  # in their order
        self.taken_bytes = 0
        self.most_bytes = 0  # taken at once, since `forget_most`

    @property
    def is_wanted(self) -> bool:
        """Whether anybody waits for memory that others hold."""
        return bool(self._waiting)

    @property
    def is_full(self) -> bool:
        return self.taken_bytes > self._budget_bytes

    @property
    def left_bytes(self) -> int:
        return max(0, self._budget_bytes - self.taken_bytes)

    def share(self, owner: Owner | None = None) -> Share:
        return Share(self, owner)

    def change(self, share: Share, size_bytes: int) -> bool:
        """Let a share take this much in all; False if it has to wait."""
        more = size_bytes - share.size_bytes
        if more > 0 and not (
            self._is_oldest(id(share)) or (self._fits(more) and not self._waiting)
        ):
            return False
        self.count(share, size_bytes)
        return True

    def count(self, share: Share, size_bytes: int) -> None:
        """Count a share with this much, whether it fits or not."""
        more = size_bytes - share.size_bytes
        self._holders.setdefault(id(share))
        self.taken_bytes += more
        self.most_bytes = max(self.most_bytes, self.taken_bytes)
        share.size_bytes = size_bytes
        if more < 0:
            self._let_in()

    def forget_most(self) -> None:
        """Measure the most from now on."""
        self.most_bytes = self.taken_bytes

    def stand_in_line(self, share: Share, size_bytes: int, granted: Callable[[], bool]) -> None:
        """Let a share wait for this much in all; `granted` as in `Share.wait`."""
        self._waiting[id(share)] = _Waiting(share, size_bytes, granted)

    def leave_line(self, share: Share) -> None:
        """Take a share out of the line; others may be let in."""
        if self._waiting.pop(id(share), None):
            self._let_in()

    def leave(self, share: Share) -> None:
        """Forget a share that is gone; others may be let in."""
        self._waiting.pop(id(share), None)
        self._holders.pop(id(share), None)
        self.taken_bytes -= share.size_bytes
        share.size_bytes = 0
        self._let_in()

    def _is_oldest(self, key: int) -> bool:
        return next(iter(self._holders), key) == key

    def _fits(self, more: int) -> bool:
        return self.taken_bytes + more <= self._budget_bytes

    def _let_in(self) -> None:
        while (waiting := self._next()) is not None:
            share, size_bytes, granted = waiting
            del self._waiting[id(share)]
            if granted():
                self.count(share, size_bytes)

    def _next(self) -> _Waiting | None:
        """The share to let in now: the first in line if it fits, else the oldest."""
        if not self._waiting:
            return None
        first = next(iter(self._waiting.values()))
        if self._fits(first.size_bytes - first.share.size_bytes) or not self._holders:
            return first
        return self._waiting.get(next(iter(self._holders)))
