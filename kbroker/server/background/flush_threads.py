"""The threads that sync logs producers wait for. Started with the first sync."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from kbroker.replication.group_commit import MAX_THREADS


class FlushThreads:
    """Owned by the event loop."""

    def __init__(self) -> None:
        self._executor: ThreadPoolExecutor | None = None

    def run(self, work: Callable[[], None]) -> asyncio.Future[None]:
        """Do `work` on a thread; the future belongs to the running loop."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="flush")
        return asyncio.get_running_loop().run_in_executor(self._executor, work)

    def stop(self) -> None:
        """Return when the syncs under way are done."""
        if self._executor is not None:
            self._executor.shutdown()
            self._executor = None
