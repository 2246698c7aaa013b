"""Work that takes too long for the event loop: done on a worker thread, one piece at a time for the
whole broker, in the order in which it was asked for.

Law: what runs here is a function of its arguments and touches nothing that the event loop owns. One
at a time, because threads that compute share one interpreter with the event loop: it waits for one
of them at most, and no more than one piece's memory is in use. Nor does it wait for a collection of
garbage among the many records that a piece makes: there is none while it runs.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from threading import Lock
from typing import TypeVar

Given = TypeVar("Given")
Made = TypeVar("Made")


class LongWork:
    """Owned by the event loop."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def run(self, work: Callable[[Given], Made], given: Given) -> Made:
        """`work(given)`, when its turn has come."""
        return await self.run_read(lambda: given, work)

    async def run_read(self, read: Callable[[], Given], work: Callable[[Given], Made]) -> Made:
        """`work(read())`, when its turn has come: `read` is called then, on the event loop."""
        async with self._turn:
            return await asyncio.to_thread(_without_collections, work, read())


_one_at_a_time = Lock()  # for all brokers of the process, and for work nobody waits for any more


def _without_collections(work: Callable[[Given], Made], given: Given) -> Made:
    with _one_at_a_time:
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            return work(given)
        finally:
            if was_enabled:
                gc.enable()
