"""Writes checkpoints, syncs segments and removes files on a thread, so that the event loop never
waits for the disk.

Law: one thread, so that what was gathered later is written later and no file goes back to older
content. Owned by the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from kbroker.log.disk.file_system import StorageError
from kbroker.log.disk.write_runner import Done, outcome, run_now, unexpected
from kbroker.server.background.worker_threads import WorkerThreads

_log = logging.getLogger(__name__)


class BackgroundWriter:
    """A WriteRunner over one worker thread."""

    def __init__(self) -> None:
        self._thread = WorkerThreads(1, "background-writer")
        self._under_way: set[asyncio.Future[StorageError | None]] = set()
        self._stopped = False

    def run(self, work: Callable[[], None], done: Done) -> None:
        """Do `work` on the thread, then call `done` on the loop; once stopped, do both at once."""
        if self._stopped:
            run_now(work, done)
            return
        future = self._thread.run(partial(outcome, work))
        self._under_way.add(future)
        future.add_done_callback(partial(self._end, done))

    async def stop(self) -> None:
        """Return once everything asked for is written."""
        self._stopped = True
        while self._under_way:
            await asyncio.wait(list(self._under_way))
        self._thread.stop()

    def _end(self, done: Done, future: asyncio.Future[StorageError | None]) -> None:
        self._under_way.discard(future)
        fault = asyncio.CancelledError() if future.cancelled() else future.exception()
        try:
            done(unexpected(fault) if fault is not None else future.result())
        except Exception:  # the other writes have owners of their own
            _log.exception("The code that asked for a background write failed")
