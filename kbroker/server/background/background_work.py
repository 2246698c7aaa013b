"""What a broker does from time to time: checkpoints, retention, flushing, looking after followers.

Law: one task per duty, all held and cancelled here. A duty that fails is logged and tried again at
its next turn: one full disk must not end all checkpoints.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Duty:
    """Something to do again and again."""

    name: str
    interval_ms: float
    work: Callable[[], object]
    first_delay_ms: float | None = None  # None: after one interval


class BackgroundWork:
    """Runs duties on the event loop. A duty is synchronous and short."""

    def __init__(self, duties: list[Duty]) -> None:
        self._duties = duties
        self._handles: dict[str, asyncio.TimerHandle] = {}

    def start(self) -> None:
        """Set every duty's first turn."""
        for duty in self._duties:
            delay = duty.interval_ms if duty.first_delay_ms is None else duty.first_delay_ms
            self._schedule(duty, delay)

    def stop(self) -> None:
        """Nothing runs any more."""
        for handle in self._handles.values():
            handle.cancel()
        self._handles.clear()

    def _schedule(self, duty: Duty, delay_ms: float) -> None:
        loop = asyncio.get_running_loop()
        self._handles[duty.name] = loop.call_later(delay_ms / 1000, self._run, duty)

    def _run(self, duty: Duty) -> None:
        try:
            duty.work()
        except Exception:
            _log.exception("%s failed, trying again in %g s", duty.name, duty.interval_ms / 1000)
        self._schedule(duty, duty.interval_ms)
