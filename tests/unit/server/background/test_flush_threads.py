from __future__ import annotations

import threading

from kbroker.server.background.flush_threads import FlushThreads


async def test_work_is_done_on_another_thread_and_a_stop_waits_for_it() -> None:
    threads = FlushThreads()
    names: list[str] = []
    work = threads.run(lambda: names.append(threading.current_thread().name))
    await work

    threads.stop()
    threads.stop()

    assert len(names) == 1
    assert names[0].startswith("flush")
