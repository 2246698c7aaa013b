"""Duties come again and again, one that takes many steps lets others run in between."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from kbroker.server.background.background_work import BackgroundWork, Duty
from kbroker.turns import ENTRIES


async def test_a_duty_of_many_steps_gives_others_their_turn() -> None:
    worked: list[int] = []
    turns: list[int] = []  # of the loop: how many steps were worked before

    def steps() -> Iterator[None]:
        for number in range(4 * ENTRIES):
            worked.append(number)
            yield

    work = BackgroundWork([Duty("steps", 60_000, steps, 0)])
    work.start()
    for _ in range(20):
        await asyncio.sleep(0)
        turns.append(len(worked))
    work.stop()

    assert turns[-1] == 4 * ENTRIES
    assert max(later - at for at, later in zip([0, *turns], turns, strict=False)) <= ENTRIES


async def test_a_duty_is_done_again_after_its_last_step_also_where_one_failed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    begun = 0
    again = asyncio.Event()

    def steps() -> Iterator[None]:
        nonlocal begun
        begun += 1
        if begun == 3:
            again.set()
        yield
        raise RuntimeError("a step")

    work = BackgroundWork([Duty("steps", 0, steps)])
    work.start()
    await again.wait()
    work.stop()

    assert "steps failed" in caplog.text


async def test_a_stop_ends_steps_that_are_under_way() -> None:
    worked = 0
    is_begun = asyncio.Event()

    def steps() -> Iterator[None]:
        nonlocal worked
        is_begun.set()
        while True:
            worked += 1
            yield

    work = BackgroundWork([Duty("steps", 0, steps)])
    work.start()
    await is_begun.wait()
    work.stop()
    await asyncio.sleep(0)
    before = worked
    for _ in range(5):
        await asyncio.sleep(0)

    assert worked == before
