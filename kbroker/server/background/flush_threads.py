"""The threads that sync logs producers wait for. Started with the first sync."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kbroker.replication.writes.shared_flush import MAX_THREADS
from kbroker.server.background.worker_threads import WorkerThreads


class FlushThreads:
    """Owned by the event loop."""

    def __init__(self) -> None:
        self._threads = WorkerThreads(MAX_THREADS, "flush")

    def run(self, work: Callable[[], None]) -> asyncio.Future[None]:
        """Do `work` on a thread; the future belongs to the running loop."""
        return self._threads.run(work)

    def stop(self) -> None:
        """Return when the syncs under way are done."""
        self._threads.stop()
