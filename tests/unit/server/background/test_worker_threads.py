from __future__ import annotations

import threading

from kbroker.server.background.worker_threads import WorkerThreads


async def test_work_is_done_on_another_thread_and_a_stop_waits_for_it() -> None:
    threads = WorkerThreads(8, "flush")
    names: list[str] = []
    work = threads.run(lambda: names.append(threading.current_thread().name))
    await work

    threads.stop()
    threads.stop()

    assert len(names) == 1
    assert names[0].startswith("flush")
