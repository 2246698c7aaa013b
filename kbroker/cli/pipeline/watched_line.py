"""A line on standard error that says how far a job is, while the job itself is busy."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable

from kbroker.cli.shown.terminal_line import TerminalLine

_LOOK_S = 0.5
_PLAIN_INTERVAL_S = 10.0


class WatchedLine:
    """From a thread of its own: on a terminal the line is written over, elsewhere it comes every
    10 s.
    """

    def __init__(self, text: Callable[[], str]) -> None:
        """`text` is called in the thread."""
        self._text = text
        first_s = time.monotonic() + (0 if sys.stderr.isatty() else _PLAIN_INTERVAL_S)
        self._line = TerminalLine(sys.stderr, first_s, _PLAIN_INTERVAL_S)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._show, name="progress", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Take the line away."""
        self._is_over.set()
        self._thread.join()
        self._line.end()

    def _show(self) -> None:
        while not self._is_over.wait(_LOOK_S):
            now_s = time.monotonic()
            if self._line.is_due(now_s):
                self._line.show(self._text(), now_s)
