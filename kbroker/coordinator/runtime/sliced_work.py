"""SlicedWork: long work on the event loop, in slices between which others run.

Law: a piece of work is a generator that yields after each small step. Pieces run one after the
other, and all together have one place among those who wait for a turn of the loop (`turns`). Unlike
with `in_turns`, work that one slice is enough for is done at once.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from kbroker.clock import Clock
from kbroker.turns import turn

_log = logging.getLogger(__name__)

SLICE_MS = 5.0

Steps = Iterator[None]


class SlicedWork:
    """Owned by the event loop; the task it starts belongs to whoever gave `start`."""

    def __init__(
        self,
        clock: Clock,
        start: Callable[[Coroutine[Any, Any, None], str], None],
    ) -> None:
        self._clock = clock
        self._start = start
        self._waiting: deque[tuple[Steps, str]] = deque()

    def run(self, steps: Steps, name: str) -> None:
        """Work `steps` to their end: before this returns if one slice is enough and none waits.

        A step that fails ends its piece of work with a log line.
        """
        if not self._waiting and self._work_slice(steps, name):
            return
        self._waiting.append((steps, name))
        if len(self._waiting) == 1:
            self._start(self._work_all(), "sliced work")

    async def _work_all(self) -> None:
        while self._waiting:
            await turn()
            if self._work_slice(*self._waiting[0]):
                self._waiting.popleft()

    def _work_slice(self, steps: Steps, name: str) -> bool:
        """True when the steps have come to their end."""
        pause_at = self._clock.monotonic_ms() + SLICE_MS
        try:
            for _ in steps:
                if self._clock.monotonic_ms() >= pause_at:
                    return False
        except Exception:
            _log.exception("%s failed", name)
        return True
