from __future__ import annotations

import asyncio

from kbroker.errors import ProtocolError
from kbroker.memory_room import SMALL_EACH_BYTES, SMALL_REQUESTS_BYTES, MemoryRoom, Share
from tests.fakes.requests.api_context import connection


async def begun(share: Share, size_bytes: int) -> asyncio.Task[None]:
    task = asyncio.ensure_future(share.take(size_bytes))
    await asyncio.sleep(0)
    return task


async def test_what_does_not_fit_waits_until_an_answer_has_left() -> None:
    room = MemoryRoom(100)
    first, second = room.share(), room.share()
    await first.take(60)

    waiting = await begun(second, 60)

    assert not waiting.done()
    del first
    await waiting
    assert room.taken_bytes == 60


async def test_those_that_wait_are_let_in_in_their_order() -> None:
    room = MemoryRoom(100)
    first, large, small = room.share(), room.share(), room.share()
    await first.take(60)
    waits = [await begun(large, 50), await begun(small, 10)]

    assert [task.done() for task in waits] == [False, False]
    await first.take(50)
    await asyncio.gather(waits[0])
    await asyncio.sleep(0)

    assert not waits[1].done()
    await large.take(20)
    await waits[1]


async def test_the_oldest_always_gets_what_it_asks_for() -> None:
    room = MemoryRoom(100)
    first, second = room.share(), room.share()
    await first.take(60)
    await second.take(40)
    waiting = await begun(second, 60)

    await first.take(1_000)

    assert not waiting.done()
    del first
    await waiting
    assert room.taken_bytes == 60


async def test_the_next_one_is_let_in_when_it_has_become_the_oldest() -> None:
    room = MemoryRoom(100)
    first, second, third = room.share(), room.share(), room.share()
    await first.take(60)
    await second.take(30)
    await third.take(10)
    waiting = [await begun(third, 20), await begun(second, 200)]

    del first

    await asyncio.gather(*waiting)
    assert room.taken_bytes == 220


async def test_who_gives_up_leaves_nothing_behind() -> None:
    room = MemoryRoom(100)
    first, second, third = room.share(), room.share(), room.share()
    await first.take(100)
    given_up, waiting = await begun(second, 100), await begun(third, 100)

    given_up.cancel()
    del first
    await waiting
    given_up = await begun(second, 100)
    del third
    given_up.cancel()  # at the moment in which it was let in
    await asyncio.gather(given_up, return_exceptions=True)
    second.give_back()

    assert room.taken_bytes == 0


async def test_what_is_in_memory_already_is_counted_though_it_does_not_fit() -> None:
    room = MemoryRoom(100)
    first, second, third = room.share(), room.share(), room.share()
    first.hold(90)
    second.hold(90)

    waiting = await begun(third, 10)

    assert room.is_full
    assert room.is_wanted
    del first
    await asyncio.sleep(0)
    assert waiting.done()
    assert room.taken_bytes == 100


async def test_a_small_share_does_not_wait_behind_large_ones() -> None:
    large = MemoryRoom(10 * SMALL_EACH_BYTES)
    room = MemoryRoom(SMALL_REQUESTS_BYTES, large)
    slow, others, small = room.share(), [room.share() for _ in range(20)], room.share()
    await slow.take(10 * SMALL_EACH_BYTES)
    waits = [await begun(other, 2 * SMALL_EACH_BYTES) for other in others]

    await small.take(SMALL_EACH_BYTES)

    assert not any(task.done() for task in waits)
    slow.give_back()
    small.give_back()
    for task, other in zip(waits, others, strict=True):
        await task
        other.give_back()
    assert (room.taken_bytes, large.taken_bytes) == (0, 0)


async def test_a_small_share_that_grows_keeps_what_it_has_until_there_is_room_for_more() -> None:
    large = MemoryRoom(2 * SMALL_EACH_BYTES)
    room = MemoryRoom(SMALL_REQUESTS_BYTES, large)
    first, growing = room.share(), room.share()
    await first.take(2 * SMALL_EACH_BYTES)
    await growing.take(SMALL_EACH_BYTES)
    more = await begun(growing, SMALL_EACH_BYTES + 1)

    assert not more.done()
    assert (room.taken_bytes, large.taken_bytes) == (SMALL_EACH_BYTES, 2 * SMALL_EACH_BYTES)
    first.give_back()
    await more

    assert (room.taken_bytes, large.taken_bytes) == (0, SMALL_EACH_BYTES + 1)
    await growing.take(1)
    assert large.taken_bytes == 1


async def test_a_small_share_that_gives_up_waiting_for_more_keeps_what_it_has() -> None:
    large = MemoryRoom(1)
    room = MemoryRoom(SMALL_REQUESTS_BYTES, large)
    first, growing = room.share(), room.share()
    first_room = await begun(first, 2 * SMALL_EACH_BYTES)
    await first_room
    await growing.take(1)
    more = await begun(growing, 2 * SMALL_EACH_BYTES)

    more.cancel()
    await asyncio.wait([more])

    assert not large.is_wanted
    assert (room.taken_bytes, growing.size_bytes) == (1, 1)


async def test_all_that_waits_for_one_client_ends_when_it_goes() -> None:
    client = connection()
    room = MemoryRoom(100)
    first, second, third = room.share(), room.share(client), room.share(client)
    await first.take(60)
    waits = [await begun(second, 60), await begun(third, 60)]

    client.close()
    outcomes = await asyncio.gather(*waits, return_exceptions=True)

    assert [type(outcome) for outcome in outcomes] == [ProtocolError, ProtocolError]
    assert not room.is_wanted


async def test_a_client_that_goes_ends_nothing_that_it_got_before() -> None:
    client = connection()
    room = MemoryRoom(100)
    first, second = room.share(), room.share(client)
    await first.take(60)
    waiting = await begun(second, 60)
    first.give_back()
    await waiting

    client.close()

    assert (second.size_bytes, client.when_closed) == (60, ())
