"""The periodic duties of a broker: checkpoints, retention, flushing, care of followers.

Law: all duties are held and cancelled here. A duty that visits all partitions does so in small
steps, with other work in between. A duty that fails is logged and tried again at its next turn: one
full disk must not end all checkpoints.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kbroker.turns import in_turns

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Duty:
    """A periodic duty: `work` does it at once, or returns the steps that do it."""

    name: str
    interval_ms: float
    work: Callable[[], Iterable[object] | None]
    first_delay_ms: float | None = None  # None: after one interval


class BackgroundWork:
    """Runs duties on the event loop, whose own work without steps is short."""

    def __init__(self, duties: list[Duty]) -> None:
        self._duties = duties
        # Each duty's next turn, or the steps under way.
        self._handles: dict[str, asyncio.TimerHandle | asyncio.Task[None]] = {}

    def start(self) -> None:
        """Set every duty's first turn."""
        for duty in self._duties:
            delay = duty.interval_ms if duty.first_delay_ms is None else duty.first_delay_ms
            self._schedule(duty, delay)

    def stop(self) -> None:
        """Cancel every duty, with its steps."""
        for handle in self._handles.values():
            handle.cancel()
        self._handles.clear()

    def _schedule(self, duty: Duty, delay_ms: float) -> None:
        loop = asyncio.get_running_loop()
        self._handles[duty.name] = loop.call_later(delay_ms / 1000, self._run, duty)

    def _run(self, duty: Duty) -> None:
        try:
            steps = duty.work()
        except Exception:
            self._failed(duty)
        else:
            if steps is not None:
                working = asyncio.ensure_future(self._work(duty, steps))
                self._handles[duty.name] = working
                return
        self._schedule(duty, duty.interval_ms)

    async def _work(self, duty: Duty, steps: Iterable[object]) -> None:
        try:
            await in_turns(steps)
        except Exception:
            self._failed(duty)
        self._schedule(duty, duty.interval_ms)

    def _failed(self, duty: Duty) -> None:
        _log.exception("%s failed, trying again in %g s", duty.name, duty.interval_ms / 1000)
