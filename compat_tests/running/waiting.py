"""Waiting for what another process does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
PATIENCE_S = 60.0  # on a busy machine
_PAUSE_S = 0.02


def until(condition: Callable[[], T | None], what: str = "", timeout_s: float = PATIENCE_S) -> T:
    """Wait until a condition holds; its value. Raises AssertionError with what was seen last."""
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}, last: {value!r}"
        time.sleep(_PAUSE_S)
    return value
