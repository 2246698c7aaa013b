"""The wall clock of this machine, for commands, jobs and the console. A broker asks its `Clock`."""

from __future__ import annotations

import time


def unix_now_ms() -> int:
    """Return the Unix time of now, in milliseconds."""
    return time.time_ns() // 1_000_000
