from __future__ import annotations

import threading

import pytest

from kbroker.log.disk.file_system import StorageError
from kbroker.server.background.background_writer import BackgroundWriter


async def test_work_is_done_in_order_on_one_thread_and_reported_on_the_loop() -> None:
    done: list[tuple[str, int]] = []
    worked: list[tuple[str, int]] = []
    writer = BackgroundWriter()
    for name in ("a", "b", "c"):
        writer.run(
            lambda name=name: worked.append((name, threading.get_ident())),
            lambda _, name=name: done.append((name, threading.get_ident())),
        )
    assert done == []
    await writer.stop()

    assert [name for name, _ in worked] == ["a", "b", "c"]
    assert {thread for _, thread in worked} & {threading.get_ident()} == set()
    assert sorted(done) == [(name, threading.get_ident()) for name in ("a", "b", "c")]


async def test_a_refusal_of_the_disk_is_handed_over() -> None:
    errors: list[StorageError | None] = []
    error = StorageError("/x", "write", 28)
    writer = BackgroundWriter()
    writer.run(lambda: refuse(error), errors.append)
    await writer.stop()

    assert errors == [error]


async def test_once_stopped_it_writes_at_once() -> None:
    events: list[str] = []
    writer = BackgroundWriter()
    await writer.stop()
    writer.run(lambda: events.append("written"), lambda _: events.append("told"))
    assert events == ["written", "told"]


@pytest.mark.parametrize("error", [RuntimeError("a bug"), MemoryError(), SystemExit(3)])
async def test_an_error_of_the_program_is_handed_over_as_a_failed_sync(
    error: BaseException,
) -> None:
    """Who waits for a write must hear of every end of it: the swap of a cleaned log waited for
    good.
    """
    errors: list[StorageError | None] = []
    writer = BackgroundWriter()
    writer.run(lambda: refuse(error), errors.append)
    writer.run(lambda: None, errors.append)
    await writer.stop()
    writer.run(lambda: refuse(RuntimeError("after the stop")), errors.append)

    first, second, after = errors
    assert first is not None
    assert not first.is_passing
    assert second is None
    assert after is not None


async def test_an_owner_that_cannot_go_on_keeps_nobody_else_from_hearing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told: list[StorageError | None] = []
    writer = BackgroundWriter()
    writer.run(lambda: None, lambda _: refuse(RuntimeError("a bug of the owner")))
    writer.run(lambda: None, told.append)
    await writer.stop()

    assert told == [None]
    assert "a bug of the owner" in caplog.text


async def test_without_a_thread_the_work_is_done_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[StorageError | None] = []

    def no_thread(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_thread)
    writer = BackgroundWriter()
    writer.run(lambda: None, told.append)
    writer.run(lambda: refuse(StorageError("/x", "write", 28)), told.append)
    await writer.stop()

    assert told[0] is None
    assert told[1] is not None


def refuse(error: BaseException) -> None:
    raise error
