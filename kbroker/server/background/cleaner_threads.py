"""Carries out cleaning jobs outside the event loop: each on a thread, and its work in a process
(`kbroker.cleaner=process`) or on that thread itself (`thread`).

Why a process: Python runs one thread at a time. A cleaning thread would delay the loop by 5 ms at
every switch, or by one of its slices, at every single request; a process that takes only idle
processor time does not.

Law: every callback runs in the loop's thread, because it changes logs. After `stop`, no thread and
no process is left.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from kbroker.log.cleaner.cleaning_job import (
    CleanedGroup,
    CleaningDone,
    CleaningEnd,
    CleaningFailed,
    CleaningJob,
)

_STOP_TIMEOUT_S = 10.0

_log = logging.getLogger(__name__)

OnGroup = Callable[[CleanedGroup], None]
OnEnd = Callable[[CleaningEnd | None], None]


class CleanerWorker(Protocol):
    """Does one job after the other, on the thread that asks."""

    def clean(self, job: CleaningJob, report: OnGroup) -> CleaningEnd | None:
        """Do the job; None if it was aborted or broke off."""
        ...

    def abort(self) -> None:
        """Make `clean` return soon, from any thread; only `close` may follow."""
        ...

    def close(self) -> None:
        """Free what is held between two jobs; this waits for a moment."""
        ...


class CleanerThreads:
    """A CleanerRunner. Owned by the event loop."""

    def __init__(self, new_worker: Callable[[], CleanerWorker]) -> None:
        self._new_worker = new_worker
        self._resting: list[CleanerWorker] = []
        self._running: dict[threading.Thread, CleanerWorker] = {}

    def run(self, job: CleaningJob, on_group: OnGroup, on_end: OnEnd) -> Callable[[], None]:
        """Run a job on a resting worker, or a new one; returns the call that aborts it."""
        worker = self._resting.pop() if self._resting else self._new_worker()
        loop = asyncio.get_running_loop()

        def work() -> None:
            end: CleaningEnd | None = None
            try:
                end = worker.clean(job, lambda group: post(lambda: on_group(group)))
            except BaseException as error:
                _log.error("cleaning of %s-%d failed", job.topic, job.partition, exc_info=error)
                end = CleaningFailed(reason=f"the cleaner failed: {error!r}")
            try:
                if not isinstance(end, CleaningDone):
                    worker.abort()
                    worker.close()
            finally:
                post(lambda: finish(end))

        def finish(end: CleaningEnd | None) -> None:
            self._running.pop(thread, None)
            if isinstance(end, CleaningDone):
                self._resting.append(worker)
            on_end(end)

        def post(callback: Callable[[], None]) -> None:
            with suppress(RuntimeError):  # the loop is closed, and nobody waits
                loop.call_soon_threadsafe(callback)

        thread = threading.Thread(target=work, name="log-cleaner", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # the system gives no thread: later, perhaps
            _log.warning(
                "Cannot start a thread to clean %s-%d: %s", job.topic, job.partition, error
            )
            post(lambda: finish(None))
        else:
            self._running[thread] = worker
        return worker.abort

    def rest(self) -> None:
        """Let idle workers go."""
        for worker in self._resting:
            threading.Thread(target=worker.close, name="log-cleaner-close", daemon=True).start()
        self._resting.clear()

    async def stop(self) -> None:
        """Abort everything; return once all has ended and every callback has run."""
        for worker in self._running.values():
            worker.abort()
        for thread in list(self._running):
            await asyncio.to_thread(thread.join, _STOP_TIMEOUT_S)
        await asyncio.sleep(0)
        for worker in self._resting:
            await asyncio.to_thread(worker.close)
        self._resting.clear()
