"""Time as an argument: what pure code and shells ask for.

Pure. The only implementation of a machine's clock is in `server`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    """Wall clock and monotonic clock, both in milliseconds."""

    def now_ms(self) -> int:
        """Unix time in milliseconds; may jump, used for timestamps and retention only."""
        ...

    def monotonic_ms(self) -> float:
        """Never goes back; used for sessions, timeouts and intervals."""
        ...


class TimerHandle(Protocol):
    """A timer that has been set."""

    def cancel(self) -> None:
        """Make sure the callback does not run; does nothing when it already ran."""
        ...


class Timer(Protocol):
    """Runs callbacks later, on the thread of the event loop."""

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> TimerHandle:
        """Run `callback` after `delay_ms` milliseconds."""
        ...


class ClockWithTimer(Clock, Timer, Protocol):
    """A clock and its timers, as a whole broker is given them."""
