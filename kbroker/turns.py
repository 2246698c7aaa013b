"""Turns of the event loop: long work is done in small pieces, and of all long work of a broker one
piece is done in each turn, however many clients asked for some.

Owned by the event loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterable, Iterable
from contextvars import Context

ENTRIES = 256  # of a request; a few milliseconds


class Turns:
    """The tasks that wait for a turn of one loop, in their order."""

    __slots__ = ("_is_going", "_loop", "_nobodys", "_waiting", "given")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_going = False
        self._nobodys = Context()  # turns go on whatever becomes of the one that waits first
        self.given = 0  # of the loop, not of a broker

    async def next(self) -> None:
        """Let everything else have its turn, and others who wait for one before."""
        future = self._loop.create_future()
        self._waiting.append(future)
        if not self._is_going:
            self._is_going = True
            self._loop.call_soon(self._give, context=self._nobodys)
        await future

    def _give(self) -> None:
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():  # else it was given up
                self.given += 1
                future.set_result(None)
                break
        self._is_going = bool(self._waiting)
        if self._is_going:
            self._loop.call_soon(self._give, context=self._nobodys)


# Each holds its loop, and with it all that ran there: they go once a loop is closed and another one
# comes. Programs and tests with brokers of their own make hundreds.
_turns: dict[asyncio.AbstractEventLoop, Turns] = {}


def turns() -> Turns:
    """Return those of the running loop."""
    loop = asyncio.get_running_loop()
    found = _turns.get(loop)
    if found is None:
        for other in list(_turns):  # loops of other threads may come meanwhile
            if other.is_closed():
                _turns.pop(other, None)
        found = _turns[loop] = Turns(loop)
    return found


async def turn() -> None:
    await turns().next()


async def in_turns(steps: Iterable[object] | AsyncIterable[object]) -> None:
    """Work small steps to their end, with other work in between."""
    if not isinstance(steps, AsyncIterable):
        for number, _ in enumerate(steps, 1):
            if number % ENTRIES == 0:
                await turn()
        return
    number = 0
    async for _ in steps:  # some wait for more than their turn
        number += 1
        if number % ENTRIES == 0:
            await turn()
