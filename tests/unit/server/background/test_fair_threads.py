from __future__ import annotations

import asyncio
import threading
from weakref import ref

import pytest

from kbroker.server.background.fair_threads import FairThreads


async def test_who_asks_often_delays_another_by_a_turn() -> None:
    threads, done, go = FairThreads(1, "test"), list[str](), threading.Event()

    def work(name: str) -> str:
        go.wait(30)
        done.append(name)
        return name

    many = [threads.run("1.1.1.1", lambda n=n: work(f"many {n}")) for n in range(50)]  # type: ignore[misc]
    other = threads.run("2.2.2.2", lambda: work("other"))
    many[30].cancel()
    go.set()

    assert await other == "other"
    assert done.index("other") <= 2
    await asyncio.gather(*many, return_exceptions=True)
    assert "many 30" not in done
    for thread in threads.leave():
        thread.join()


async def test_what_is_given_up_is_not_kept_until_a_thread_is_free() -> None:
    threads, go = FairThreads(1, "test"), threading.Event()
    hung = threads.run("1.1.1.1", lambda: go.wait(30))
    frame = threading.Event()  # of a login
    kept = ref(frame)
    waiting = [threads.run(asker, frame.set) for asker in ("1.1.1.1", "1.1.1.1", "2.2.2.2")]
    del frame
    for each in waiting:
        each.cancel()
    await asyncio.sleep(0)

    assert kept() is None
    go.set()
    assert await hung
    assert await threads.run("2.2.2.2", lambda: 1) == 1
    threads.leave()


async def test_an_error_is_that_of_whoever_asked() -> None:
    threads = FairThreads(2, "test")

    with pytest.raises(ZeroDivisionError):
        await threads.run("a", lambda: 1 // 0)
    assert await threads.run("a", lambda: 1) == 1
    threads.leave()
