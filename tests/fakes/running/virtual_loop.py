"""An event loop whose time stands still until nothing is left to do, and then jumps to the next
timer: everything on it follows from the program alone, and hours pass in no time.

Every callback belongs to an `Owner`, which stands for a process: the one in whose context it was
scheduled. What a paused owner would do waits until it goes on; what a dead one would do is never
done. So a process can be stopped or killed between any two steps of its tasks.
"""

from __future__ import annotations

import asyncio
import heapq
from asyncio import format_helpers
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from enum import Enum
from typing import Any

MAX_TURNS_AT_ONE_TIME = 20_000  # time that does not go on any more is a program that spins
SWEPT_TASKS = 64


class OwnerState(Enum):
    RUNNING = "running"
    PAUSED = "paused"
    DEAD = "dead"


_RUNNING = OwnerState.RUNNING  # asked before each step


class Owner:
    """A process: its callbacks run in `context`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.state = OwnerState.RUNNING
        self.held: deque[asyncio.Handle] = deque()  # while it is paused
        self.tasks: list[asyncio.Task[Any]] = []  # those that are not done, and some that are
        self._context = Context()
        self._context.run(_OWNER.set, self)

    def add(self, task: asyncio.Task[Any]) -> None:
        """It is this process that works on a task."""
        self.tasks.append(task)
        if len(self.tasks) > SWEPT_TASKS:
            self.tasks = [each for each in self.tasks if not each.done()]

    @property
    def context(self) -> Context:
        """To schedule callbacks of this process in; a new one each time, to be entered once."""
        return self._context.copy()


_OWNER: ContextVar[Owner | None] = ContextVar("owner", default=None)


def _make_task(
    loop: asyncio.AbstractEventLoop,
    coroutine: Coroutine[Any, Any, Any],
    *,
    context: Context | None = None,
) -> asyncio.Task[Any]:
    task = asyncio.Task(coroutine, loop=loop, context=context)
    owner = context.get(_OWNER) if context is not None else _OWNER.get()
    if owner is not None:
        owner.add(task)
    return task


def nobody() -> Context:
    """Of whatever is no process: networks, ensembles, the test itself."""
    return Context()


class SpinningError(Exception):
    """Callbacks follow each other without end while the time stands still."""


class NothingLeftError(Exception):
    """The loop runs, and nothing will ever happen on it again."""


class _Call(asyncio.TimerHandle):
    """What is to be done, now or at a time, without what asyncio keeps for whoever debugs a loop: a
    history makes thousands of them.
    """

    __slots__ = ()

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: asyncio.AbstractEventLoop,
        context: Context | None,
    ) -> None:
        self._when = when
        self._callback = callback
        self._args = args
        self._loop = loop
        self._context = copy_context() if context is None else context
        self._cancelled = self._scheduled = False
        self._repr = self._source_traceback = None

    def cancel(self) -> None:
        self._cancelled = True
        self._callback = self._args = None


class VirtualLoop(asyncio.BaseEventLoop):
    """Calls whoever looks on between rounds of callbacks."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._sequence = 0
        self._timers: list[tuple[float, int, _Call]] = []
        self._turns = 0
        self.look_on(lambda: None, MAX_TURNS_AT_ONE_TIME)
        self.set_task_factory(_make_task)
        self.set_exception_handler(lambda _loop, context: self.on_exception(context))
        self.on_exception: Callable[[dict[str, Any]], None] = lambda _: None

    def look_on(self, look: Callable[[], None], every_turns: int = 1) -> None:
        """From now on call `look` after so many rounds of callbacks, again and again."""
        self._look = look
        self._look_every = self._until_look = every_turns

    def time(self) -> float:
        return self._now

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        call = _Call(self._now, callback, args, self, context)
        self._ready.append(call)
        return call

    def call_at(
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        call = _Call(when, callback, args, self, context)
        self._sequence += 1
        heapq.heappush(self._timers, (when, self._sequence, call))
        return call

    def run_in_executor(self, _executor: Any, func: Callable[..., Any], *args: Any) -> Any:
        """There are no threads: the work is done at once."""
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    def start(
        self, coroutine: Coroutine[Any, Any, Any], owner: Owner, name: str
    ) -> asyncio.Task[Any]:
        """Run a coroutine as a task of a process."""
        task = asyncio.Task(coroutine, loop=self, name=name, context=owner.context)
        owner.add(task)
        return task

    def pause(self, owner: Owner) -> None:
        assert owner.state is OwnerState.RUNNING
        owner.state = OwnerState.PAUSED

    def resume(self, owner: Owner) -> None:
        """Go on where it was."""
        assert owner.state is OwnerState.PAUSED
        owner.state = OwnerState.RUNNING
        self._ready.extend(owner.held)
        owner.held.clear()

    def kill(self, owner: Owner) -> None:
        owner.state = OwnerState.DEAD
        owner.held.clear()

    def _run_once(self) -> None:
        ready = self._ready
        if not ready:
            self._advance()
        self._turns += 1
        if self._turns > MAX_TURNS_AT_ONE_TIME:
            self._turns = 0
            raise SpinningError(f"at {self._now:.3f}: {ready[0] if ready else None}")
        for _ in range(len(ready)):
            call = ready.popleft()
            if call._cancelled:
                continue
            context = call._context
            owner = context.get(_OWNER)
            if owner is None or owner.state is _RUNNING:
                try:
                    context.run(call._callback, *call._args)
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as error:
                    self._tell(call, error)
            elif owner.state is OwnerState.PAUSED:
                owner.held.append(call)
        self._until_look -= 1
        if not self._until_look:
            self._until_look = self._look_every
            self._look()

    def _tell(self, call: _Call, error: BaseException) -> None:
        source = format_helpers._format_callback_source(call._callback, call._args)
        self.call_exception_handler(
            {"message": f"Exception in callback {source}", "exception": error, "handle": call}
        )

    def _advance(self) -> None:
        timers, ready = self._timers, self._ready
        while timers and timers[0][2]._cancelled:
            heapq.heappop(timers)
        if not timers:
            raise NothingLeftError
        now = timers[0][0]
        if now > self._now:
            self._now = now
            self._turns = 0
        while timers and timers[0][0] <= self._now:
            ready.append(heapq.heappop(timers)[2])

    def _check_closed(self) -> None:
        """Allow calls after the close: tasks of dead processes still clean up."""

    def _write_to_self(self) -> None:
        pass

    def _process_events(self, event_list: Any) -> None:
        pass


class LoopClock:
    """Clock and Timer of everything on the loop."""

    def __init__(self, loop: VirtualLoop, now_ms: int = 1_795_000_000_000) -> None:
        self._loop = loop
        self._start_ms = now_ms

    def now_ms(self) -> int:
        return self._start_ms + int(self._loop.time() * 1000)

    def monotonic_ms(self) -> float:
        return self._loop.time() * 1000

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        return self._loop.call_later(delay_ms / 1000, callback)
