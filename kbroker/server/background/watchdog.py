"""Reports blocks of the event loop: a debugging aid for the rule that nothing blocks it over 10 ms.

A thread watches a counter that a timer on the loop advances. If the counter stands still too long,
the thread logs where the loop's thread is at that moment, once per block.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import traceback

_log = logging.getLogger(__name__)

LIMIT_MS = 10.0


class Watchdog:
    """Watches the loop it is started on; `longest_ms` is the longest block seen."""

    def __init__(self, limit_ms: float = LIMIT_MS) -> None:
        self._limit_s = limit_ms / 1000
        self._beat_s = time.monotonic()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._watched = 0
        self.blocks = 0
        self.longest_ms = 0.0

    def start(self) -> None:
        """Watch the running loop from now on."""
        loop = asyncio.get_running_loop()
        self._watched = threading.get_ident()

        def beat() -> None:
            now = time.monotonic()
            self.longest_ms = max(self.longest_ms, (now - self._beat_s - self._limit_s / 4) * 1000)
            self._beat_s = now
            self._timer = loop.call_later(self._limit_s / 4, beat)

        self._beat_s = time.monotonic()
        beat()
        self._thread = threading.Thread(target=self._watch, name="loop-watchdog", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop watching and wait for the thread."""
        self._stop.set()
        if self._timer is not None:
            self._timer.cancel()
        if self._thread is not None:
            self._thread.join(timeout=1.0)

    def _watch(self) -> None:
        reported_s = 0.0
        while not self._stop.wait(self._limit_s / 2):
            beat_s = self._beat_s
            blocked_s = time.monotonic() - beat_s - self._limit_s / 4
            if blocked_s < self._limit_s or beat_s == reported_s:
                continue
            reported_s = beat_s
            self.blocks += 1
            frame = sys._current_frames().get(self._watched)
            stack = "".join(traceback.format_stack(frame)) if frame is not None else "(unknown)\n"
            _log.warning("event loop blocked for %.1f ms so far, in:\n%s", blocked_s * 1000, stack)
