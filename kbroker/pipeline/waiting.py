"""Waiting for the next round.

Law: nobody sleeps for long at one go. Python hears of a signal that comes in the moment before a
sleep when the sleep is over, and who watches a command's output sends one in that very moment.
"""

from __future__ import annotations

import time
from collections.abc import Callable

_LONGEST_SLEEP_S = 0.5


def wait_until(when_s: float, pause: Callable[[float], bool | None] = time.sleep) -> None:
    """Wait for a time of `time.monotonic`, or until `pause`, which sleeps, returns True."""
    while (left_s := when_s - time.monotonic()) > 0:
        if pause(min(left_s, _LONGEST_SLEEP_S)):
            return
