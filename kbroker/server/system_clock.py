"""The machine's clocks and the event loop's timers: the only place that asks them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from kbroker.clock import TimerHandle


class SystemClock:
    """Implements ClockWithTimer: timers are of the loop that is running when a timer is set."""

    __slots__ = ()

    def now_ms(self) -> int:
        """Unix time in milliseconds; may jump."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> float:
        """Milliseconds that never go back."""
        return time.monotonic() * 1000

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> TimerHandle:
        """Run `callback` on the running loop after `delay_ms`; at once when that is negative."""
        return asyncio.get_running_loop().call_later(max(delay_ms, 0) / 1000, callback)
