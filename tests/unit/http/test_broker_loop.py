"""Questions to another loop, answered in slices."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from kbroker.http.broker_loop import SLICE_S, BrokerLoop


@pytest.fixture
def other() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop that runs in a thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


async def test_values_come_in_order_and_steps_without_one_leave_none(
    other: asyncio.AbstractEventLoop,
) -> None:
    assert await BrokerLoop(other).collect(lambda: iter([1, None, 2]), 30) == [1, 2]


async def test_the_other_loop_has_turns_between_the_slices(
    other: asyncio.AbstractEventLoop,
) -> None:
    turns = 0

    def beat() -> None:
        nonlocal turns
        turns += 1
        other.call_soon(beat)

    def steps() -> Iterator[int]:
        assert asyncio.get_running_loop() is other
        other.call_soon(beat)
        while turns < 3:  # for ever, if this kept the loop
            yield 1

    assert await BrokerLoop(other).collect(steps, 30)


async def test_many_who_ask_at_once_share_the_slice_of_a_turn(
    other: asyncio.AbstractEventLoop,
) -> None:
    at_work: set[int] = set()
    in_one_turn: list[int] = []

    def turn() -> None:
        in_one_turn.append(len(at_work))
        at_work.clear()
        other.call_soon(turn)

    def steps_of(number: int) -> Callable[[], Iterator[int]]:
        def steps() -> Iterator[int]:
            for _ in range(3):
                at_work.add(number)
                ends_s = time.monotonic() + SLICE_S  # all of a turn's time
                while time.monotonic() < ends_s:
                    pass
                yield number

        return steps

    other.call_soon_threadsafe(turn)
    broker_loop = BrokerLoop(other)
    found = await asyncio.gather(*(broker_loop.collect(steps_of(n), 30) for n in range(20)))

    assert found == [[number] * 3 for number in range(20)]
    assert max(in_one_turn) == 1


async def test_what_the_steps_raise_is_raised_to_who_asked(
    other: asyncio.AbstractEventLoop,
) -> None:
    def steps() -> Iterator[int]:
        yield 1
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        await BrokerLoop(other).collect(steps, 30)


async def test_steps_that_nobody_waits_for_any_more_end(other: asyncio.AbstractEventLoop) -> None:
    ended = threading.Event()

    def steps() -> Iterator[None]:
        try:
            while True:
                yield None
        finally:
            ended.set()

    with pytest.raises(TimeoutError):
        await BrokerLoop(other).collect(steps, 0.01)
    await asyncio.to_thread(ended.wait)


async def test_a_loop_that_is_closed_does_not_answer() -> None:
    loop = asyncio.new_event_loop()
    loop.close()

    with pytest.raises(TimeoutError):
        await BrokerLoop(loop).collect(lambda: iter(()), 30)


async def test_work_is_awaited_on_the_other_loop_as_long_as_somebody_waits(
    other: asyncio.AbstractEventLoop,
) -> None:
    loops: list[asyncio.AbstractEventLoop] = []
    given_up = threading.Event()

    async def work() -> None:
        loops.append(asyncio.get_running_loop())

    async def endless() -> None:
        try:
            await other.create_future()
        finally:
            given_up.set()

    await BrokerLoop(other).run(work, 30)
    with pytest.raises(TimeoutError):
        await BrokerLoop(other).run(endless, 0.01)

    assert loops == [other]
    await asyncio.to_thread(given_up.wait)


async def test_no_work_is_awaited_on_a_loop_that_is_closed() -> None:
    loop = asyncio.new_event_loop()
    loop.close()

    async def work() -> None:
        raise AssertionError

    with pytest.raises(TimeoutError):
        await BrokerLoop(loop).run(work, 30)
