"""IdleAlarm: ends a wait for records, as Ctrl-C does, when none has come for a while.

Belongs to the main thread; a process has one at most.
"""

from __future__ import annotations

import signal
from typing import NoReturn


class IdleAlarm:
    """Raises KeyboardInterrupt, which ends readers of records."""

    def __init__(self, idle_ms: int | None, most: int | None) -> None:
        """`idle_ms` None: it never rings; nor does it once `most` records have come."""
        self._idle_s = None if idle_ms is None else max(idle_ms, 1) / 1000
        self._most = most
        self.has_rung = False

    def start(self) -> None:
        """Begin to wait for the first record."""
        if self._idle_s is not None:
            signal.signal(signal.SIGALRM, self._ring)
            signal.setitimer(signal.ITIMER_REAL, self._idle_s)

    def came(self, count: int) -> None:
        """Begin the time again: `count` records have come so far."""
        if self._idle_s is not None:
            is_over = self._most is not None and count >= self._most
            signal.setitimer(signal.ITIMER_REAL, 0 if is_over else self._idle_s)

    def stop(self) -> None:
        """Let the alarm ring no more."""
        if self._idle_s is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _ring(self, _number: int, _frame: object) -> NoReturn:
        self.has_rung = True
        raise KeyboardInterrupt
