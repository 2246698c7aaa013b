"""Operations that wait for something to happen, or for their time to run out (Kafka's purgatory).

Law: owned by the event loop. An operation is watched under keys; whoever changes what a key stands
for calls `check_and_complete(key)`, or the operation waits until its deadline. One timer, set to
the earliest deadline, serves all operations, so that a waiting one costs next to nothing. If very
many wait under one key, they are checked in slices, with other work of the loop in between.

An operation ends exactly once: its condition holds, its deadline passes, or it is dropped because
nobody waits for it any more.
"""

from __future__ import annotations

import asyncio
import heapq
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from kbroker.clock import Clock, Timer, TimerHandle

# A connection waits for one request at a time, or for a few hundred sent ahead, and its operations
# go with it: this is above any limit of connections.
OPERATIONS_MAX = 100_000
PURGE_INTERVAL = 1_000  # completed operations; `fetch.purgatory.purge.interval.requests`
SLICE_OPERATIONS = 100  # some ten milliseconds if each is answered
EVERY_KEY: tuple[Hashable, ...] = ("every key",)  # for an operation that picks its own changes


class DelayedOperation(ABC):
    """An operation that waits. Subclasses say when it is done, and what happens then."""

    __slots__ = ("is_completed", "watch_keys")

    def __init__(self) -> None:
        self.is_completed = False  # or expired, or dropped
        self.watch_keys: list[Hashable] = []

    @abstractmethod
    def try_complete(self, key: Hashable) -> bool:
        """Check whether the condition holds, now that what `key` stands for has changed."""

    @abstractmethod
    def on_complete(self) -> None:
        """Give the answer: the condition holds."""

    @abstractmethod
    def on_expiration(self) -> None:
        """Give what there is: the deadline has passed."""


class Listener(Protocol):
    """Called once when something changes, before the operations that wait for it."""

    def changed(self, key: Any, /) -> None: ...


OperationT = TypeVar("OperationT", bound=DelayedOperation)
AnswerT = TypeVar("AnswerT")


class DelayedOperationPurgatory(Generic[OperationT]):
    """The waiting operations of one kind."""

    def __init__(
        self,
        clock: Clock,
        timer: Timer,
        *,
        operations_max: int = OPERATIONS_MAX,
        purge_interval: int = PURGE_INTERVAL,
    ) -> None:
        self._clock = clock
        self._timer = timer
        self._operations_max = operations_max
        self._purge_interval = purge_interval
        self._watchers: dict[Hashable, dict[OperationT, None]] = {}
        self._everywhere: dict[OperationT, None] = {}  # watched under every key
        self._listeners: dict[Hashable, dict[Listener, None]] = {}
        # A heap; completed operations stay in it until they are purged.
        self._deadlines: list[tuple[float, int, OperationT]] = []
        self._sequence = 0
        self._size = 0
        self._armed: tuple[float, TimerHandle] | None = None
        self._to_look_at: dict[Hashable, list[OperationT]] = {}  # of keys under which many wait
        self._changed_again: set[Hashable] = set()  # since the first of those were checked

    def __len__(self) -> int:
        return self._size

    def watched(self) -> int:
        """The number of watches: an operation is watched once under each of its keys."""
        return len(self._everywhere) + sum(map(len, self._watchers.values()))

    def watch(self, operation: OperationT, keys: Iterable[Hashable], timeout_ms: float) -> None:
        """Keep an operation whose condition was just found not to hold.

        It expires at once if there is no room left or no time to wait.
        """
        if timeout_ms <= 0 or self._size >= self._operations_max:
            operation.is_completed = True
            operation.on_expiration()
            return
        if keys is EVERY_KEY:
            self._everywhere[operation] = None
        else:
            operation.watch_keys = list(keys)
            for key in operation.watch_keys:
                self._watchers.setdefault(key, {})[operation] = None
        self._size += 1
        self._sequence += 1
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        heapq.heappush(self._deadlines, (deadline_ms, self._sequence, operation))
        if len(self._deadlines) - self._size > self._purge_interval:
            self._purge()
        if self._armed is None or deadline_ms < self._armed[0]:
            self._arm(deadline_ms)

    def hold(
        self,
        operation: OperationT,
        keys: Iterable[Hashable],
        timeout_ms: float,
        future: asyncio.Future[AnswerT],
    ) -> asyncio.Future[AnswerT]:
        """Watch an operation for as long as somebody waits for its `future`."""
        self.watch(operation, keys, timeout_ms)
        future.add_done_callback(partial(self._ended, operation))
        return future

    def _ended(self, operation: OperationT, _future: asyncio.Future[Any]) -> None:
        if not operation.is_completed:  # nobody waits any more
            self.drop(operation)

    def check_and_complete(self, key: Hashable) -> int:
        """Complete what can be, now that `key` has changed. Returns how many were so far."""
        if self._listeners:
            self.notify(key)
        watching = self._watchers.get(key)
        if self._everywhere:
            watching = self._everywhere | (watching or {})
        if watching is None:
            return 0
        if len(watching) <= SLICE_OPERATIONS:
            return self._look_at(key, list(watching))
        if key in self._to_look_at:
            self._changed_again.add(key)
            return 0
        self._to_look_at[key] = list(watching)
        return self._look_at(key, self._next_slice(key))

    def _next_slice(self, key: Hashable) -> list[OperationT]:
        left = self._to_look_at[key]
        some = left[:SLICE_OPERATIONS]
        del left[:SLICE_OPERATIONS]
        if left:
            self._timer.call_later(0, partial(self._go_on, key))
        else:
            del self._to_look_at[key]
        return some

    def _go_on(self, key: Hashable) -> None:
        self._look_at(key, self._next_slice(key))
        if key not in self._to_look_at and key in self._changed_again:
            self._changed_again.remove(key)
            self._timer.call_later(0, partial(self._look_again, key))

    def _look_again(self, key: Hashable) -> None:
        self.check_and_complete(key)

    def _look_at(self, key: Hashable, operations: Iterable[OperationT]) -> int:
        completed = 0
        for operation in operations:
            if not operation.is_completed and operation.try_complete(key):
                self.drop(operation)
                operation.on_complete()
                completed += 1
        return completed

    def complete(self, operation: OperationT) -> None:
        """Complete an operation whose condition holds, unless it has ended since."""
        if not operation.is_completed:
            self.drop(operation)
            operation.on_complete()

    def watch_also(self, operation: OperationT, key: Hashable) -> None:
        """Watch a waiting operation under one more key."""
        operation.watch_keys.append(key)
        self._watchers.setdefault(key, {})[operation] = None

    def listen_once(self, key: Hashable, listener: Listener) -> None:
        """Call `listener` at the next change, however long that takes."""
        self._listeners.setdefault(key, {})[listener] = None

    def notify(self, key: Hashable) -> None:
        """Call the listeners of `key`: it has changed in a way that completes no operation."""
        for listener in self._listeners.pop(key, ()):
            listener.changed(key)

    def stop_listening(self, key: Hashable, listener: Listener) -> None:
        """Withdraw a listener that waits under `key`."""
        listeners = self._listeners[key]
        del listeners[listener]
        if not listeners:
            del self._listeners[key]

    def drop(self, operation: OperationT) -> None:
        """Forget an operation without an answer; nothing happens if it has ended already."""
        if operation.is_completed:
            return
        operation.is_completed = True
        self._size -= 1
        self._everywhere.pop(operation, None)
        for key in operation.watch_keys:
            watching = self._watchers.get(key)
            if watching is not None:
                watching.pop(operation, None)
                if not watching:
                    del self._watchers[key]

    def shutdown(self) -> None:
        """Expire everything that waits, and cancel the timer."""
        if self._armed is not None:
            self._armed[1].cancel()
            self._armed = None
        while self._deadlines:
            self._expire(heapq.heappop(self._deadlines)[2])

    def _arm(self, deadline_ms: float) -> None:
        if self._armed is not None:
            if self._armed[0] <= deadline_ms:
                return
            self._armed[1].cancel()
        delay_ms = max(0.0, deadline_ms - self._clock.monotonic_ms())
        self._armed = (deadline_ms, self._timer.call_later(delay_ms, self._on_timer))

    def _on_timer(self) -> None:
        self._armed = None
        now_ms = self._clock.monotonic_ms()
        deadlines = self._deadlines
        while deadlines:
            deadline_ms, _, operation = deadlines[0]
            if deadline_ms > now_ms and not operation.is_completed:
                break
            heapq.heappop(deadlines)
            if not operation.is_completed:
                self._expire(operation)
        if deadlines:
            self._arm(deadlines[0][0])

    def _expire(self, operation: OperationT) -> None:
        if operation.is_completed:
            return
        self.drop(operation)
        operation.on_expiration()

    def _purge(self) -> None:
        self._deadlines = [entry for entry in self._deadlines if not entry[2].is_completed]
        heapq.heapify(self._deadlines)
