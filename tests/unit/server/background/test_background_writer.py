from __future__ import annotations

import asyncio
import threading

from kbroker.log.file_system import StorageError
from kbroker.server.background.background_writer import BackgroundWriter


def test_work_is_done_in_order_on_one_thread_and_reported_on_the_loop() -> None:
    done: list[tuple[str, int]] = []
    worked: list[tuple[str, int]] = []

    async def run() -> None:
        writer = BackgroundWriter()
        for name in ("a", "b", "c"):
            writer.run(
                lambda name=name: worked.append((name, threading.get_ident())),
                lambda _, name=name: done.append((name, threading.get_ident())),
            )
        assert worked == []
        await writer.stop()

    asyncio.run(run())

    assert [name for name, _ in worked] == ["a", "b", "c"]
    assert {thread for _, thread in worked} & {threading.get_ident()} == set()
    assert sorted(done) == [(name, threading.get_ident()) for name in ("a", "b", "c")]


def test_a_refusal_of_the_disk_is_handed_over() -> None:
    errors: list[StorageError | None] = []
    error = StorageError("/x", "write", 28)

    async def run() -> None:
        writer = BackgroundWriter()
        writer.run(lambda: refuse(error), errors.append)
        await writer.stop()

    asyncio.run(run())

    assert errors == [error]


def test_once_stopped_it_writes_at_once() -> None:
    events: list[str] = []

    async def run() -> None:
        writer = BackgroundWriter()
        await writer.stop()
        writer.run(lambda: events.append("written"), lambda _: events.append("told"))
        assert events == ["written", "told"]

    asyncio.run(run())


def refuse(error: StorageError) -> None:
    raise error
