"""OwnCode: code of the operator's on a thread of its own, call after call, in their order.

Law: nothing that it raises ends the thread, and nobody waits for the thread at the end of a broker.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any


class Call:
    """A call on its way to the thread and back."""

    __slots__ = ("_arguments", "_code", "_on_done", "answer", "done", "error")

    def __init__(
        self, code: Callable[..., object], arguments: tuple[Any, ...], on_done: Callable[[], object]
    ) -> None:
        self._code = code
        self._arguments = arguments
        self._on_done = on_done
        self.answer: object = None
        self.error: BaseException | None = None
        self.done = threading.Event()

    def make(self) -> None:
        """Call the code, on its thread."""
        try:
            self.answer = self._code(*self._arguments)
        except BaseException as error:  # `sys.exit` must not end the thread
            self.error = error
        self.done.set()
        self._on_done()


def _nothing() -> None:
    return


class OwnCode:
    """The thread, which begins with the first call. Owned by the event loop."""

    def __init__(self, thread_name: str) -> None:
        self._thread_name = thread_name
        self._calls: SimpleQueue[Call | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self.latest: Call | None = None
        """The call that ended last; any thread may look."""

    def call(
        self,
        code: Callable[..., object],
        *arguments: Any,
        on_done: Callable[[], object] = _nothing,
    ) -> Call | None:
        """Let the thread call this after all that was asked for before; it calls `on_done` then.
        None if the system has no thread for it.
        """
        if self._thread is None:
            thread = threading.Thread(target=self._make_all, name=self._thread_name, daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the system's limit
                return None
            self._thread = thread
        call = Call(code, arguments, on_done)
        self._calls.put(call)
        return call

    def stop(self) -> None:
        """Let the thread end after the calls that it has got."""
        self._calls.put(None)
        self._thread = None

    def _make_all(self) -> None:
        while (call := self._calls.get()) is not None:
            call.make()
            self.latest = call


def on_loop(loop: asyncio.AbstractEventLoop, call: Callable[..., object], *arguments: Any) -> None:
    """Have the loop call this soon, unless it has ended; any thread may ask."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(call, *arguments)
