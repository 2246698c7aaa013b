"""Work beside the loop of a group coordinator, done when a test wants it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

_TURNS = 6


class Beside:
    """In the place of a coordinator's threads."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Callable[[], Any], asyncio.Future[Any]]] = []

    async def __call__(self, work: Callable[[], Any]) -> Any:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.waiting.append((work, future))
        return await future

    async def finish(self) -> None:
        """Do what was asked for first."""
        work, future = self.waiting.pop(0)
        try:
            future.set_result(work())
        except Exception as error:
            future.set_exception(error)
        await turns()


async def turns() -> None:
    """Let everything go on that can."""
    for _ in range(_TURNS):
        await asyncio.sleep(0)
