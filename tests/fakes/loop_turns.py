"""How often others are answered while one request is."""

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
