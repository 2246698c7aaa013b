"""How much work a call is, counted: the same on every machine, however busy it is."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import kbroker

_OURS = str(Path(kbroker.__file__).parent)


def steps_of(work: Callable[[], object]) -> int:
    """Lines of kbroker that run in a call, each as often as it runs."""
    steps = 0

    def step(_frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal steps
        steps += event == "line"
        return step

    def enter(frame: FrameType, _event: str, _argument: Any) -> Any:
        return step if frame.f_code.co_filename.startswith(_OURS) else None

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        work()
    finally:
        sys.settrace(before)
    return steps


def growth(work: Callable[[int], Callable[[], object]], size: int) -> float:
    """How many times the steps of a work are, where there is twice as much: 2.0 and below is
    linear. `work(size)` prepares it and returns the call to be counted.
    """
    once = steps_of(work(size))
    return steps_of(work(2 * size)) / once
