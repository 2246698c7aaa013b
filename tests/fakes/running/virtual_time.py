"""A clock and a timer in one, which stand still until a test moves them."""

from __future__ import annotations

import heapq
from collections.abc import Callable


class VirtualTimerHandle:
    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class VirtualTime:
    """Implements Clock and Timer; `advance` runs what falls due, in order."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._start_ms = now_ms
        self._elapsed_ms = 0.0
        self._sequence = 0
        self._due: list[tuple[float, int, VirtualTimerHandle, Callable[[], None]]] = []

    def now_ms(self) -> int:
        return self._start_ms + int(self._elapsed_ms)

    def monotonic_ms(self) -> float:
        return self._elapsed_ms

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> VirtualTimerHandle:
        handle = VirtualTimerHandle()
        self._sequence += 1
        heapq.heappush(self._due, (self._elapsed_ms + delay_ms, self._sequence, handle, callback))
        return handle

    def advance(self, delta_ms: float) -> None:
        end_ms = self._elapsed_ms + delta_ms
        while self._due and self._due[0][0] <= end_ms:
            due_ms, _, handle, callback = heapq.heappop(self._due)
            self._elapsed_ms = max(self._elapsed_ms, due_ms)
            if not handle.cancelled:
                callback()
        self._elapsed_ms = end_ms

    def armed(self) -> int:
        """Timers that are set."""
        return sum(not handle.cancelled for _, _, handle, _ in self._due)
