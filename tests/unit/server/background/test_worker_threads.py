from __future__ import annotations

import threading

import pytest

from kbroker.server.background.fair_threads import FairThreads
from kbroker.server.background.worker_threads import NoThreadError, WorkerThreads


async def test_work_is_done_on_another_thread_and_a_stop_waits_for_it() -> None:
    threads = WorkerThreads(8, "flush")
    names: list[str] = []
    work = threads.run(lambda: names.append(threading.current_thread().name))
    await work

    threads.stop()
    threads.stop()

    assert len(names) == 1
    assert names[0].startswith("flush")


async def test_without_a_thread_work_that_may_take_its_time_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_thread(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    at_once, fair, names = WorkerThreads(1, "flush"), FairThreads(1, "login"), list[str]()

    def work() -> None:
        names.append(threading.current_thread().name)

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", no_thread)
        await at_once.run(work)
        for asker in ("10.0.0.1", "10.0.0.2"):
            with pytest.raises(NoThreadError, match="there is no thread for login"):
                await fair.run(asker, work)
    assert names == [threading.current_thread().name]
    await fair.run("10.0.0.1", work)
    assert names[1].startswith("login")
    fair.leave()
