"""A broker as a process of its own that counts the calls between two signals, and writes them to a
file: `python counted_broker.py FILE start --listen ...`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import Counter
from types import FrameType
from typing import Any

from kbroker.cli.__main__ import main

PYTHON, C = "python", "c"
SYSTEM = "system"
# What asks the system for something; the loop's own waiting and reading come once per turn.
_SYSTEM_CALLS = frozenset(
    {"pread", "preadv", "pwrite", "pwritev", "sendfile", "open", "close", "fstat", "socket.send"}
)


class CallCounter:
    """Counts the calls of this thread while it is on."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._counts: Counter[str] = Counter()
        self._is_on = False

    def switch(self, *_: Any) -> None:
        """Begin to count, or write what was counted."""
        self._is_on = not self._is_on
        if self._is_on:
            self._counts.clear()
            sys.setprofile(self._count)
            return
        sys.setprofile(None)
        with open(self._path + ".part", "w") as file:
            json.dump(self._counts, file)
        os.rename(self._path + ".part", self._path)

    def _count(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            self._counts[PYTHON] += 1
            code = frame.f_code
            self._counts[f"{code.co_filename}:{code.co_qualname}"] += 1
        elif event == "c_call":
            self._counts[C] += 1
            if getattr(argument, "__qualname__", "") in _SYSTEM_CALLS:
                self._counts[SYSTEM] += 1


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, CallCounter(sys.argv.pop(1)).switch)
    sys.exit(main())
