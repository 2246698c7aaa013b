"""What long work leaves to the event loop beside it."""

from __future__ import annotations

import asyncio
import gc
from threading import Event

import pytest

from kbroker.record.default_record import Record, let_go
from kbroker.replication.long_work import LongWork


async def test_no_garbage_is_collected_while_it_runs() -> None:
    assert gc.isenabled()

    seen = await LongWork().run(lambda _: gc.isenabled(), None)

    assert (seen, gc.isenabled()) == (False, True)


async def test_garbage_is_collected_again_after_it_failed() -> None:
    def fail(_: None) -> None:
        raise ValueError("damaged")

    with pytest.raises(ValueError, match="damaged"):
        await LongWork().run(fail, None)

    assert gc.isenabled()


@pytest.mark.parametrize("count", [0, 1, 4096, 4097, 10_000])
def test_a_list_that_is_let_go_is_empty(count: int) -> None:
    entries = [Record(offset, 0, None, b"v") for offset in range(count)]

    let_go(entries)

    assert entries == []


async def test_work_that_nobody_waits_for_any_more_keeps_its_turn() -> None:
    begun, may_end = Event(), Event()
    order: list[str] = []

    def first(_: None) -> None:
        begun.set()
        may_end.wait(10)
        order.append("first")

    work = LongWork()
    cancelled = asyncio.ensure_future(work.run(first, None))
    await asyncio.to_thread(begun.wait, 10)
    cancelled.cancel()  # the client has gone
    await asyncio.gather(cancelled, return_exceptions=True)
    second = asyncio.ensure_future(work.run(lambda _: order.append("second"), None))
    await asyncio.to_thread(lambda: None)
    may_end.set()
    await second

    assert order == ["first", "second"]
    assert gc.isenabled()
