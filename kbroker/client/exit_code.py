"""How a command ends, for shells and scripts: the one list of exit codes."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """How a command ends."""

    FINE = 0
    ITEM_FAILED = 1
    USAGE = 2
    CANNOT_CONNECT = 3
    TIMEOUT = 124
    INTERRUPTED = 130  # Ctrl-C
    TERMINATED = 143  # SIGTERM
