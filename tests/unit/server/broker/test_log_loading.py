"""Logs are opened on a thread: it can be watched, and stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event

import pytest

from kbroker.log.recovery.load_progress import LoadCancelledError, LoadProgress
from kbroker.server.broker.log_loading import load_on_thread, nobody_watches

MIB = 1024 * 1024


async def test_who_watches_is_asked_to_look_until_the_end() -> None:
    seen: list[object] = []

    def load(progress: LoadProgress) -> str:
        progress.expect("/data", logs=1, size_bytes=MIB)
        return "loaded"

    @contextmanager
    def watch(progress: LoadProgress) -> Iterator[Callable[[], object]]:
        yield lambda: seen.append(list(progress.directories))
        seen.append("over")

    loaded = await load_on_thread(load, watch)

    assert loaded == "loaded"
    assert seen == [["/data"], "over"]


async def test_who_watches_is_let_go_when_the_opening_fails() -> None:
    seen: list[str] = []

    def load(_progress: LoadProgress) -> None:
        raise LookupError("no logs")

    @contextmanager
    def watch(_progress: LoadProgress) -> Iterator[Callable[[], object]]:
        yield lambda: None
        seen.append("over")

    with pytest.raises(LookupError, match="no logs"):
        await load_on_thread(load, watch)

    assert seen == ["over"]


async def test_a_cancelled_start_stops_the_thread_first() -> None:
    begun, stopped = Event(), Event()

    def load(progress: LoadProgress) -> None:
        progress.expect("/data", logs=1, size_bytes=MIB)
        read = progress.meter("/data")
        begun.set()
        try:
            while True:
                read(MIB)
        except LoadCancelledError:
            stopped.set()
            raise

    task = asyncio.create_task(load_on_thread(load, nobody_watches))
    await asyncio.to_thread(begun.wait)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task

    assert stopped.is_set()
