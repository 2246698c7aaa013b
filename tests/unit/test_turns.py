from __future__ import annotations

import asyncio
import gc
from weakref import ref

from kbroker.turns import ENTRIES, in_turns, turn, turns
from tests.fakes.running.virtual_loop import Owner, VirtualLoop


async def test_one_piece_of_all_long_work_is_done_in_each_turn_of_the_loop() -> None:
    done: list[int] = []

    async def work(number: int) -> None:
        for _ in range(3):
            await turn()
            done.append(number)

    tasks = [asyncio.ensure_future(work(number)) for number in range(4)]
    before, most = 0, 0
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0)
        most, before = max(most, len(done) - before), len(done)

    assert most == 1
    assert done == [0, 1, 2, 3] * 3


async def test_steps_are_worked_in_pieces() -> None:
    given = turns().given

    await in_turns(None for _ in range(3 * ENTRIES + 1))

    assert turns().given - given == 3


async def test_who_gave_up_takes_no_turn() -> None:
    first, second = asyncio.ensure_future(turn()), asyncio.ensure_future(turn())
    await asyncio.sleep(0)
    first.cancel()
    await second
    await turn()

    assert first.cancelled()


def test_brokers_of_one_loop_have_their_turns_though_the_first_that_waits_is_killed() -> None:
    loop, killed, other = VirtualLoop(), Owner("killed"), Owner("other")

    async def both() -> None:
        loop.start(turn(), killed, "turn")
        waiting = loop.start(turn(), other, "turn")
        await asyncio.sleep(0)
        loop.kill(killed)
        await asyncio.wait_for(waiting, 1)

    loop.run_until_complete(both())
    loop.close()


def test_a_closed_loop_is_let_go_when_another_one_comes() -> None:
    gone = asyncio.new_event_loop()
    gone.run_until_complete(turn())
    gone.call_later(1, turns)  # what it still holds is let go with it
    gone.close()
    watched = ref(gone)
    del gone

    asyncio.run(turn())
    gc.collect()

    assert watched() is None
