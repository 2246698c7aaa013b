"""Progress of a long command: one line on standard error that is written over, on a terminal
only.
"""

from __future__ import annotations

import sys
import time

_INTERVAL_S = 0.2
_MEBIBYTE = 1024 * 1024


class Progress:
    """Counts bytes; `rate` says how fast it went."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._is_shown = sys.stderr.isatty()
        self._begun_s = time.monotonic()
        self._next_s = self._begun_s + _INTERVAL_S
        self._item = ""
        self.size_bytes = 0

    def begin(self, item: str) -> None:
        """What is looked at from now on."""
        self._item = item
        self.add(0)

    def add(self, size_bytes: int) -> None:
        """So many bytes more."""
        self.size_bytes += size_bytes
        now_s = time.monotonic()
        if self._is_shown and now_s >= self._next_s:
            self._next_s = now_s + _INTERVAL_S
            text = f"{self._what} {self._item}: {self.size_bytes / _MEBIBYTE:.0f} MiB"
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()

    def end(self) -> None:
        """Take the line away."""
        if self._is_shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def rate(self) -> str:
        """Seconds and MB/s so far."""
        seconds = max(time.monotonic() - self._begun_s, 1e-6)
        return f"{seconds:.1f} s, {self.size_bytes / 1e6 / seconds:.0f} MB/s"


class CountedProgress:
    """Counts items towards an end that is known."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._is_shown = sys.stderr.isatty()
        self._next_s = time.monotonic() + _INTERVAL_S

    def show(self, done: int, of: int) -> None:
        """So many are done."""
        now_s = time.monotonic()
        if self._is_shown and now_s >= self._next_s:
            self._next_s = now_s + _INTERVAL_S
            sys.stderr.write(f"\r\x1b[K{self._what}: {done} of {of}")
            sys.stderr.flush()

    def end(self) -> None:
        """Take the line away."""
        if self._is_shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
