"""SIGHUP: a broker reads its certificates again, and does not end by it, unless the terminal that
it was started in is gone.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable

_log = logging.getLogger(__name__)

_TERMINAL = "/dev/tty"


def follow_hangups(read_again: Callable[[], bool], stop: Callable[[], None]) -> None:
    """Call `read_again` for each signal, which returns whether there is anything to read; `stop`
    for the end of the terminal.
    """
    # Under nohup the end of the terminal means nothing.
    is_heeded = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
    ends_with_terminal = is_heeded and _has_terminal()

    def hang_up() -> None:
        if ends_with_terminal and not _has_terminal():
            stop()
        elif read_again():
            _log.info("SIGHUP: certificates were read again")
        else:
            _log.warning("SIGHUP: no listener has TLS, so there is nothing to read again")

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, hang_up)


def _has_terminal() -> bool:
    """Whether this process has a terminal that is there."""
    try:
        os.close(os.open(_TERMINAL, os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True
