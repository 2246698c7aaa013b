from __future__ import annotations

import asyncio
import threading

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


async def test_an_error_is_that_of_whoever_asked() -> None:
    threads = FairThreads(2, "test")

    with pytest.raises(ZeroDivisionError):
        await threads.run("a", lambda: 1 // 0)
    assert await threads.run("a", lambda: 1) == 1
    threads.leave()
