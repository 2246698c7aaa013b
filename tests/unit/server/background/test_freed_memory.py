from __future__ import annotations

import asyncio

from kbroker.memory_room import MemoryRoom
from kbroker.server.background.freed_memory import WORTH_IT_BYTES, FreedMemory, trim_memory


async def test_memory_goes_back_once_when_large_requests_have_ended() -> None:
    room, trims = MemoryRoom(100 * WORTH_IT_BYTES), asyncio.Queue[None]()
    loop = asyncio.get_running_loop()
    freed = FreedMemory(room, lambda: loop.call_soon_threadsafe(trims.put_nowait, None) and None)
    small, large = room.share(), room.share()

    await small.take(WORTH_IT_BYTES - 1)
    small.give_back()
    freed.look()
    await large.take(2 * WORTH_IT_BYTES)
    freed.look()
    large.give_back()
    freed.look()
    await trims.get()
    freed.look()

    await loop.shutdown_default_executor()
    assert trims.empty()


def test_the_library_is_asked_without_an_error() -> None:
    trim_memory()
