from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from kbroker.log.cleaner.cleaning_job import CleaningEnd, CleaningFailed
from kbroker.server.background.cleaner_threads import CleanerThreads


class Job:
    """As much of a job as is named in the log."""

    topic = "t"
    partition = 0


class FaultyWorker:
    """Ends in an error of the program, where it is told to."""

    def __init__(self, *faults: str) -> None:
        self._faults = faults

    def clean(self, _job: Any, _report: Callable[[Any], None]) -> CleaningEnd | None:
        self._fail("clean")
        return None

    def abort(self) -> None:
        self._fail("abort")

    def close(self) -> None:
        self._fail("close")

    def _fail(self, step: str) -> None:
        if step in self._faults:
            raise SystemExit(step)


async def ends_with(*faults: str) -> list[CleaningEnd | None]:
    ends: list[CleaningEnd | None] = []
    threads = CleanerThreads(lambda: FaultyWorker(*faults))
    told = asyncio.Event()
    threads.run(Job(), ends.append, lambda end: (ends.append(end), told.set()))  # type: ignore[arg-type, func-returns-value]
    await told.wait()
    for thread in threading.enumerate():  # what it ends in is said after the job has been told
        if thread.name == "log-cleaner":
            await asyncio.to_thread(thread.join, 10)
    return ends


@pytest.mark.parametrize("fault", ["clean", "abort", "close"])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_every_end_of_a_worker_is_told(fault: str) -> None:
    (end,) = await ends_with(fault)

    assert (end is None) == (fault != "clean")
    assert end is None or isinstance(end, CleaningFailed)


async def test_a_job_that_gets_no_thread_is_told_to_have_come_to_no_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_thread(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_thread)

    assert await ends_with() == [None]
