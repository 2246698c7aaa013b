"""What long work leaves to the event loop and to other long work beside it."""

from __future__ import annotations

import asyncio
import gc
import os
from threading import Event

import pytest

from kbroker.record.codecs.payload import PIECE_BYTES
from kbroker.record.record_stream import Pace
from kbroker.replication.long_work import LANE_PIECES, PROCESS_TURN, LongWork

pytestmark = pytest.mark.timeout(30)


def no_pause() -> None:
    pass


class Large:
    """Work of many pieces, which a test may stop before each."""

    def __init__(self, pieces: int) -> None:
        self._pieces = pieces
        self.begun = 0
        self.done = 0
        self.in_last_lane = Event()
        self.before_piece = no_pause

    def run(self, _given: None, pace: Pace) -> str:
        self.begun += 1
        for _ in range(self._pieces):
            if self.begun > len(LANE_PIECES):
                self.in_last_lane.set()
                self.before_piece()
            self.done += 1
            pace(PIECE_BYTES)
        return "large"


async def test_no_garbage_is_collected_while_it_runs() -> None:
    assert gc.isenabled()

    seen = await LongWork().run(lambda *_: gc.isenabled(), None)

    assert (seen, gc.isenabled()) == (False, True)


async def test_garbage_is_collected_again_after_it_failed() -> None:
    def fail(*_: object) -> None:
        raise ValueError("damaged")

    with pytest.raises(ValueError, match="damaged"):
        await LongWork().run(fail, None)

    assert gc.isenabled()


@pytest.mark.parametrize(
    ("pieces", "begun", "done"),
    [(1, 1, 1), (8, 1, 8), (9, 2, 9 + 9), (128, 2, 9 + 128), (129, 3, 9 + 129 + 129)],
)
async def test_what_is_too_much_for_a_lane_begins_again_in_the_next_one(
    pieces: int, begun: int, done: int
) -> None:
    large = Large(pieces)
    reads: list[None] = []

    assert await LongWork().run_read(lambda: reads.append(None), large.run) == "large"

    assert (large.begun, large.done, len(reads)) == (begun, done, begun)


@pytest.mark.parametrize(
    ("least_bytes", "begun"),
    [
        (8 * PIECE_BYTES, 3),
        (8 * PIECE_BYTES + 1, 2),
        (128 * PIECE_BYTES, 2),
        (128 * PIECE_BYTES + 1, 1),
    ],
)
async def test_work_begins_in_the_lane_for_what_it_says(least_bytes: int, begun: int) -> None:
    large = Large(130)

    await LongWork().run(large.run, None, least_bytes)

    assert large.begun == begun


async def test_little_work_waits_for_one_piece_of_larger_work() -> None:
    large = Large(1_000)
    goes_on = Event()
    done_before: list[int] = []
    work = LongWork()

    def wait_for_another() -> None:
        goes_on.wait(10)
        while not (PROCESS_TURN.waiting or done_before):
            os.sched_yield()

    large.before_piece = wait_for_another
    first = asyncio.ensure_future(work.run(large.run, None))
    await asyncio.to_thread(large.in_last_lane.wait, 10)
    before = large.done
    second = asyncio.ensure_future(work.run(lambda *_: done_before.append(large.done), None))
    goes_on.set()
    await second

    assert done_before == [before + 1]
    assert await first == "large"


async def test_work_that_nobody_waits_for_any_more_keeps_its_turn() -> None:
    begun, may_end = Event(), Event()
    order: list[str] = []

    def first(*_: object) -> None:
        begun.set()
        may_end.wait(10)
        order.append("first")

    work = LongWork()
    cancelled = asyncio.ensure_future(work.run(first, None))
    await asyncio.to_thread(begun.wait, 10)
    cancelled.cancel()  # the client has gone
    await asyncio.gather(cancelled, return_exceptions=True)
    second = asyncio.ensure_future(work.run(lambda *_: order.append("second"), None))
    await asyncio.to_thread(lambda: None)
    may_end.set()
    await second

    assert order == ["first", "second"]
    assert gc.isenabled()


async def test_work_that_nobody_waits_for_any_more_ends_with_its_piece() -> None:
    large = Large(1_000)
    goes_on = Event()
    large.before_piece = lambda: goes_on.wait(10)  # type: ignore[assignment]
    work = LongWork()
    cancelled = asyncio.ensure_future(work.run(large.run, None))
    await asyncio.to_thread(large.in_last_lane.wait, 10)
    before = large.done
    cancelled.cancel()
    await asyncio.gather(cancelled, return_exceptions=True)
    goes_on.set()

    again = Large(200)
    assert await work.run(again.run, None) == "large"  # in the same lane, after it

    assert large.done == before + 1
