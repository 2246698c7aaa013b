"""Chooses the event loop: uvloop if it is installed, plain asyncio otherwise or on request. Only
this module imports uvloop; all others use asyncio.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from enum import StrEnum
from typing import Any, TypeVar

T = TypeVar("T")

# How long a computing thread may keep the interpreter from the loop. Python's own 5 ms, several
# times per request, make an answer too slow.
_SWITCH_INTERVAL_S = 0.0005


class EventLoopKind(StrEnum):
    """Values of the setting `kbroker.event.loop`."""

    AUTO = "auto"
    UVLOOP = "uvloop"
    ASYNCIO = "asyncio"


def loop_factory(
    kind: EventLoopKind = EventLoopKind.AUTO,
) -> Callable[[], asyncio.AbstractEventLoop]:
    """The factory of the loop. Raises ModuleNotFoundError if uvloop is wanted but missing."""
    if kind is EventLoopKind.ASYNCIO:
        return asyncio.new_event_loop
    try:
        import uvloop  # here: not installed everywhere, and slow to import
    except ModuleNotFoundError:
        if kind is EventLoopKind.UVLOOP:
            raise
        return asyncio.new_event_loop
    return uvloop.new_event_loop


def run_on_loop(main: Coroutine[Any, Any, T], kind: EventLoopKind = EventLoopKind.AUTO) -> T:
    """Run a program's main coroutine to its end on the chosen loop; worker threads give way."""
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    with asyncio.Runner(loop_factory=loop_factory(kind)) as runner:
        return runner.run(main)
