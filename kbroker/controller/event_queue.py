"""The controller's queue: events are worked one at a time, in the order they came, by one task.

Owned by the controller, which starts and stops it. Unbounded as in Kafka: an event that is dropped
would be a change of the cluster nobody ever acts on; what is queued is bounded by the number of
changes in the tree.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable

from kbroker.controller.machines.events import Event

log = logging.getLogger(__name__)


class EventQueue:
    """One queue, one consumer."""

    def __init__(self, process: Callable[[Event], Awaitable[None]]) -> None:
        self._process = process
        self._events: deque[tuple[Event, asyncio.Future[None]]] = deque()
        self._arrived = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the consumer."""
        assert self._task is None
        self._task = asyncio.create_task(self._run(), name="controller events")

    def put(self, event: Event) -> asyncio.Future[None]:
        """Queue an event; the future is done when it has been worked, also when that failed."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._events.append((event, done))
        self._arrived.set()
        return done

    async def stop(self) -> None:
        """Stop the consumer; events still queued are left, their futures cancelled."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        while self._events:
            self._events.popleft()[1].cancel()

    async def _run(self) -> None:
        while True:
            while self._events:
                event, done = self._events.popleft()
                try:
                    await self._process(event)
                except Exception:
                    log.exception("event %s failed", event)
                finally:
                    if not done.done():
                        done.set_result(None)
            self._arrived.clear()
            await self._arrived.wait()
