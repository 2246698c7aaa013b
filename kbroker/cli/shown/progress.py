"""Progress of a long command: one line that is written over, on a terminal at standard error."""

from __future__ import annotations

import sys
import time

from kbroker.cli.shown.terminal_line import TerminalLine

_FIRST_S = 0.2
_MEBIBYTE = 1024 * 1024


class Progress:
    """Counts bytes and shows them; `rate` says how fast it went."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._begun_s = time.monotonic()
        self._line = TerminalLine(sys.stderr, self._begun_s + _FIRST_S, plain_interval_s=None)
        self._item = ""
        self.size_bytes = 0

    def begin(self, item: str) -> None:
        """Name the item that is looked at from now on."""
        self._item = item
        self.add(0)

    def add(self, size_bytes: int) -> None:
        """Count more bytes, and show the sum if it is time to."""
        self.size_bytes += size_bytes
        now_s = time.monotonic()
        if self._line.is_due(now_s):
            text = f"{self._what} {self._item}: {self.size_bytes / _MEBIBYTE:.0f} MiB"
            self._line.show(text, now_s)

    def end(self) -> None:
        self._line.end()

    def rate(self) -> str:
        """Return seconds and MB/s so far."""
        seconds = max(time.monotonic() - self._begun_s, 1e-6)
        return f"{seconds:.1f} s, {self.size_bytes / 1e6 / seconds:.0f} MB/s"


class CountedProgress:
    """Counts items towards an end that is known."""

    def __init__(self, what: str) -> None:
        self._what = what
        first_s = time.monotonic() + _FIRST_S
        self._line = TerminalLine(sys.stderr, first_s, plain_interval_s=None)

    def show(self, done: int, of: int) -> None:
        """Show how many are done, if it is time to."""
        now_s = time.monotonic()
        if self._line.is_due(now_s):
            self._line.show(f"{self._what}: {done} of {of}", now_s)

    def end(self) -> None:
        self._line.end()
