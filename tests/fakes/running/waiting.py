"""Waiting on an event loop for what nobody tells of."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")
PATIENCE_S = 30.0
_PAUSE_S = 0.005


async def until(find: Callable[[], T | Awaitable[T]], timeout_s: float = PATIENCE_S) -> T:
    """The first answer that is neither None nor False. Raises TimeoutError."""
    async with asyncio.timeout(timeout_s):
        while True:
            found = find()
            if inspect.isawaitable(found):
                found = await found
            if found is not None and found is not False:
                return found  # type: ignore[return-value]
            await asyncio.sleep(_PAUSE_S)
