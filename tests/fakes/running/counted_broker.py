"""A broker as a process of its own that counts the calls between two signals, and writes them to a
file: `python counted_broker.py FILE start --listen ...`.

The file is JSON, one object for each function that the loop itself calls: how often it did, and the
calls of that function and of all that it led to.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import Counter, defaultdict
from types import FrameType
from typing import Any

from kbroker.cli.__main__ import main

PYTHON, C = "python", "c"
SYSTEM = "system"
TURNS = "turns"
# What asks the system for something; the loop's own waiting and reading come once per turn.
_SYSTEM_CALLS = frozenset(
    {"pread", "preadv", "pwrite", "pwritev", "sendfile", "open", "close", "fstat", "socket.send"}
)


# Frames whose callees the loop has called: uvloop has none of its own, asyncio has this one.
_OF_THE_LOOP = frozenset({"Runner.run", "Handle._run"})


class CallCounter:
    """Counts the calls of this thread while it is on."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._of_turn: Counter[str] = Counter()  # of the function that the loop called last
        self._is_on = False

    def switch(self, *_: Any) -> None:
        """Begin to count, or write what was counted."""
        self._is_on = not self._is_on
        if self._is_on:
            self._counts.clear()
            self._of_turn = Counter()  # what is left of this turn is not whole
            sys.setprofile(self._count)
            return
        sys.setprofile(None)
        with open(self._path + ".part", "w") as file:
            json.dump(self._counts, file)
        os.rename(self._path + ".part", self._path)

    def _count(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            code = frame.f_code
            name = f"{code.co_filename}:{code.co_qualname}"
            caller = frame.f_back
            if caller is not None and caller.f_code.co_qualname in _OF_THE_LOOP:
                self._of_turn = self._counts[name]
                self._of_turn[TURNS] += 1
            self._of_turn[PYTHON] += 1
            self._of_turn[name] += 1
        elif event == "c_call":
            self._of_turn[C] += 1
            if getattr(argument, "__qualname__", "") in _SYSTEM_CALLS:
                self._of_turn[SYSTEM] += 1


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, CallCounter(sys.argv.pop(1)).switch)
    sys.exit(main())
