"""Shows the operator how far the opening of the logs has come.

Law: an opening that takes less than a second shows nothing, because nobody waits for it. A terminal
gets one line that is written over; anything else, such as a log file, gets a line every few
seconds.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TextIO

from kbroker.cli.shown.terminal_line import TerminalLine
from kbroker.log.recovery.load_progress import DirectoryProgress, LoadProgress

_FIRST_S: Final = 1.0
_PLAIN_INTERVAL_S: Final = 5.0
_MEBIBYTE: Final = 1024 * 1024


@contextmanager
def recovery_line(progress: LoadProgress) -> Iterator[Callable[[], None]]:
    """Show on standard error how far an opening is, whenever the function given is called."""
    display = RecoveryDisplay(progress, sys.stderr, time.monotonic())
    try:
        yield lambda: display.update(time.monotonic())
    finally:
        display.end()


class RecoveryDisplay:
    """One line about all data directories."""

    def __init__(self, progress: LoadProgress, stream: TextIO, begun_s: float) -> None:
        self._progress = progress
        self._line = TerminalLine(stream, begun_s + _FIRST_S, _PLAIN_INTERVAL_S)
        self._begun_s = begun_s

    def update(self, now_s: float) -> None:
        """Show the progress, if it is time to."""
        if not self._line.is_due(now_s):
            return
        elapsed_s = now_s - self._begun_s
        directories = list(self._progress.directories.values())
        unfinished = [d for d in directories if d.logs_done < d.logs_total]
        if not unfinished:
            return
        text = "; ".join(describe(directory, elapsed_s) for directory in unfinished)
        self._line.show(text, now_s)

    def end(self) -> None:
        self._line.end()


def describe(directory: DirectoryProgress, elapsed_s: float) -> str:
    """`recovering /data: 12 of 100 logs, 120 of 1,024 MiB, 310 MB/s, 3 s left`."""
    logs = f"{directory.logs_done:,} of {directory.logs_total:,} logs"
    if not directory.bytes_total:
        return f"opening {directory.path}: {logs}"
    done = min(directory.bytes_done, directory.bytes_total)
    text = (
        f"recovering {directory.path}: {logs}, {done / _MEBIBYTE:,.0f} of "
        f"{directory.bytes_total / _MEBIBYTE:,.0f} MiB, {done / 1e6 / elapsed_s:,.0f} MB/s"
    )
    if not done:
        return text
    return f"{text}, {elapsed_s * (directory.bytes_total - done) / done:,.0f} s left"
