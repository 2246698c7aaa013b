"""A line of progress: written over on a terminal, and elsewhere written every few seconds, or
never.
"""

from __future__ import annotations

from typing import TextIO

_TERMINAL_INTERVAL_S = 0.2
_BEGIN_OF_LINE = "\r\x1b[K"


class TerminalLine:
    """A line; with `plain_interval_s` None it is shown on a terminal only."""

    def __init__(self, stream: TextIO, first_s: float, plain_interval_s: float | None) -> None:
        self._stream = stream
        self._is_terminal = stream.isatty()
        self._interval_s = _TERMINAL_INTERVAL_S if self._is_terminal else plain_interval_s
        self._next_s = first_s
        self._is_shown = False

    def is_due(self, now_s: float) -> bool:
        """Say whether it is time for the next text."""
        return self._interval_s is not None and now_s >= self._next_s

    def show(self, text: str, now_s: float) -> None:
        """Write the line, in place of the one before it on a terminal."""
        self._next_s = now_s + (self._interval_s or 0)
        self._stream.write(f"{_BEGIN_OF_LINE}{text}" if self._is_terminal else f"{text}\n")
        self._stream.flush()
        self._is_shown = True

    def end(self) -> None:
        """Take the line away."""
        if self._is_shown and self._is_terminal:
            self._stream.write(_BEGIN_OF_LINE)
            self._stream.flush()
            self._is_shown = False
