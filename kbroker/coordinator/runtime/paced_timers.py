"""PacedTimers: timers by key; of those that fall due together some run, then others of the loop.

Law: a timer runs once, not before its time, unless it is cancelled or set again until then. When a
slice of the loop's time is over, what else falls due is put off, as thousands of sessions end at
once if a broker that has loaded a group finds its members gone.

Owned by the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from kbroker.clock import Clock, Timer, TimerHandle

SLICE_MS = 5.0


class PacedTimers:
    """The timers of one coordinator."""

    def __init__(self, clock: Clock, timer: Timer) -> None:
        self._monotonic_ms = clock.monotonic_ms
        self._timer = timer
        self._handles: dict[Hashable, TimerHandle] = {}
        self._began_ms = 0.0  # the slice
        self._rests_until_ms = 0.0
        self._ran = 0  # in the slice
        self._put_off = 0  # since the slice began

    def set(self, key: Hashable, deadline_ms: float, callback: Callable[[], None]) -> None:
        """Run `callback` at `deadline_ms` (monotonic), instead of an earlier timer of that key."""
        self.cancel(key)

        def fire() -> None:
            now_ms = self._monotonic_ms()
            if now_ms < self._rests_until_ms:
                self._handles[key] = self._timer.call_later(self._pause_ms(now_ms), fire)
                return
            del self._handles[key]
            self._run(callback, now_ms)

        delay_ms = max(0.0, deadline_ms - self._monotonic_ms())
        self._handles[key] = self._timer.call_later(delay_ms, fire)

    def cancel(self, key: Hashable) -> None:
        """Forget a timer, if it is set."""
        handle = self._handles.pop(key, None)
        if handle is not None:
            handle.cancel()

    def cancel_all(self) -> None:
        """Forget what is set, as the coordinator ends."""
        for handle in self._handles.values():
            handle.cancel()
        self._handles.clear()

    def _run(self, callback: Callable[[], None], now_ms: float) -> None:
        if now_ms - self._began_ms >= SLICE_MS:
            self._began_ms, self._ran, self._put_off = now_ms, 0, 0
        self._ran += 1
        try:
            callback()
        finally:
            end_ms = self._monotonic_ms()
            if end_ms - self._began_ms >= SLICE_MS:
                self._rests_until_ms = end_ms + SLICE_MS

    def _pause_ms(self, now_ms: float) -> float:
        """As many are put off to one slice as this one had room for."""
        slices = self._put_off // self._ran
        self._put_off += 1
        return self._rests_until_ms - now_ms + 2 * SLICE_MS * slices
