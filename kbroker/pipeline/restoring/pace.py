"""Limits how fast a restore writes, and tells whether it goes on."""

from __future__ import annotations

import time
from collections.abc import Callable

_LOOK_S = 0.2
_CREDIT_S = 1.0  # how much lost time a writer that was held up may make up


class Pace:
    """The pace of one writer; `bytes_per_s` 0: unlimited."""

    def __init__(
        self,
        bytes_per_s: float = 0.0,
        goes_on: Callable[[], bool] = lambda: True,
        now_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._bytes_per_s = bytes_per_s
        self._goes_on = goes_on
        self._now_s = now_s
        self._sleep = sleep
        self._due_s = now_s()

    def owed_s(self, size_bytes: int) -> float:
        """Return how long to wait after so many bytes more."""
        if not self._bytes_per_s:
            return 0.0
        now_s = self._now_s()
        self._due_s = max(self._due_s, now_s - _CREDIT_S) + size_bytes / self._bytes_per_s
        return max(self._due_s - now_s, 0.0)

    def wait(self, seconds: float) -> bool:
        """Wait unless the restore stops; return whether it goes on."""
        end_s = self._now_s() + seconds
        while self._goes_on():
            left_s = end_s - self._now_s()
            if left_s <= 0:
                return True
            self._sleep(min(left_s, _LOOK_S))
        return False
