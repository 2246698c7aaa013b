"""Counts the descriptors that this process holds, for tests of what is closed.

Law: only those below a named directory, because what other tests left to a thread
or to the garbage collector may close at any time.
"""

from __future__ import annotations

import os
from pathlib import Path

DESCRIPTORS = Path("/proc/self/fd")


def open_files_below(directory: Path) -> int:
    return sum(target_of(number).startswith(f"{directory}/") for number in os.listdir(DESCRIPTORS))


def target_of(number: str) -> str:
    """Return the file that the descriptor stands for; "" where it was closed since the listing."""
    try:
        return os.readlink(DESCRIPTORS / number)
    except FileNotFoundError:
        return ""
