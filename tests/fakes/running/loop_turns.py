"""How often others are answered while one request is, and turns of the loop while there is work."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def counting_turns(answering: Awaitable[T]) -> tuple[T, int]:
    """(the answer, turns of the loop that others had meanwhile)."""
    task, turns = asyncio.ensure_future(answering), 0
    while not task.done():
        await asyncio.sleep(0)
        turns += 1
    return await task, turns


async def until_idle(most: int) -> None:
    """Give way until nobody else has anything to do, now or at a time, or so many turns."""
    held = vars(asyncio.get_running_loop())
    for _ in range(most):
        if not (held["_ready"] or held["_scheduled"]):
            return
        await asyncio.sleep(0)


def run_ready(loop: asyncio.AbstractEventLoop) -> None:
    """Run what can go on by now, and what that lets go on, on a loop that stands still."""
    for _ in range(2):
        if vars(loop)["_ready"]:
            loop.run_until_complete(asyncio.sleep(0))
