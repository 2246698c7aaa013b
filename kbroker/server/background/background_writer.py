"""Writes checkpoints and syncs segments on a thread, so that the event loop never waits for the
disk.

Law: one thread, so that what was gathered later is written later. Owned by the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from kbroker.log.file_system import StorageError
from kbroker.log.write_runner import run_now

_log = logging.getLogger(__name__)


class BackgroundWriter:
    """A WriteRunner over one worker thread."""

    def __init__(self) -> None:
        self._thread: ThreadPoolExecutor | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped = False

    def run(self, work: Callable[[], None], done: Callable[[StorageError | None], None]) -> None:
        """Do `work` on the thread, then tell `done` on the loop; once stopped, both before this
        returns.
        """
        if self._stopped:
            run_now(work, done)
            return
        task = asyncio.create_task(self._carry_out(work, done), name="background write")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        """Return when everything asked for is written."""
        self._stopped = True
        while self._tasks:
            await asyncio.wait(list(self._tasks))
        if self._thread is not None:
            self._thread.shutdown()
            self._thread = None

    async def _carry_out(
        self, work: Callable[[], None], done: Callable[[StorageError | None], None]
    ) -> None:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="background-writer")
        error: StorageError | None = None
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except StorageError as failure:
            error = failure
        except Exception:
            _log.exception("a background write failed")
            return
        done(error)
