"""The controller's queue: events are handled one at a time, in the order they came, by one task.

Law: an event being handled is never interrupted; between two events the queue may rest (the tree
cannot be reached), and events that came meanwhile are handled afterwards. Every asker gets an
answer: an event dropped with its reign is refused with NOT_CONTROLLER.

Owned by the controller, which starts and stops it. Unbounded as in Kafka: a dropped event would be
a change of the cluster that nobody ever acts on; the queue is bounded by the number of changes in
the tree.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from kbroker.controller.state_machines.events import Event
from kbroker.errors import ErrorCode, KafkaError

_log = logging.getLogger(__name__)


class EventQueue:
    """One queue, one consumer."""

    def __init__(self, process: Callable[[Event], Awaitable[object]]) -> None:
        self._process = process
        self._events: deque[tuple[Event, asyncio.Future[Any] | None]] = deque()
        self._arrived = asyncio.Event()
        self._awake = asyncio.Event()
        self._awake.set()
        self._task: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._events)

    def start(self) -> None:
        """Start the task that handles the events."""
        assert self._task is None
        self._task = asyncio.create_task(self._run(), name="controller events")

    def put(self, event: Event) -> None:
        """Queue an event nobody waits for."""
        self._events.append((event, None))
        self._arrived.set()

    def put_first(self, event: Event) -> None:
        """Queue an event before all others."""
        self._events.appendleft((event, None))
        self._arrived.set()

    async def ask(self, event: Event) -> Any:
        """Queue an event and wait for its answer.

        Raises the KafkaError of its refusal; NOT_CONTROLLER if it was dropped.
        """
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._events.append((event, answer))
        self._arrived.set()
        return await answer

    def rest(self) -> None:
        self._awake.clear()

    def wake(self) -> None:
        self._awake.set()

    def drop(self, is_dropped: Callable[[Event], bool]) -> None:
        """Drop the queued events that match; their askers are refused."""
        events, self._events = self._events, deque()
        for event, answer in events:
            if not is_dropped(event):
                self._events.append((event, answer))
            elif answer is not None and not answer.done():
                answer.set_exception(not_controller())

    async def stop(self) -> None:
        """Stop the consumer; events still queued are dropped."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        self.drop(lambda _: True)

    async def _run(self) -> None:
        while True:
            await self._arrived.wait()
            await self._awake.wait()
            if not self._events:
                self._arrived.clear()
                continue
            event, answer = self._events.popleft()
            try:
                result = await self._process(event)
            except Exception as error:
                _fail(event, answer, error)
            except BaseException:
                if answer is not None and not answer.done():
                    answer.set_exception(not_controller())
                raise
            else:
                if answer is not None and not answer.done():
                    answer.set_result(result)


def not_controller() -> KafkaError:
    """The error for requests to a broker that is not, or no longer, the controller."""
    return KafkaError(
        ErrorCode.NOT_CONTROLLER, "This is not the correct controller for this cluster."
    )


def _fail(event: Event, answer: asyncio.Future[Any] | None, error: Exception) -> None:
    if answer is None:
        if not isinstance(error, KafkaError):
            _log.error("event %.500s failed", event, exc_info=error)
    elif not answer.done():
        answer.set_exception(error)
