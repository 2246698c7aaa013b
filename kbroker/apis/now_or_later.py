"""Answers that are there now, or come later: the one form in which handlers return them.

A handler that need not wait answers directly, which costs no task and no turn of the loop.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, TypeVar, TypeVarTuple, cast

from kbroker.protocol.request import Coming

T = TypeVar("T")
R = TypeVar("R")
Ts = TypeVarTuple("Ts")

NowOrLater: TypeAlias = T | Awaitable[T]


def then(outcome: NowOrLater[T], shape: Callable[[T, *Ts], R], *args: *Ts) -> NowOrLater[R]:
    """Return `shape(outcome, *args)`: at once if the outcome is there, else when it comes.

    >>> then(2, max, 3)
    3
    """
    if isinstance(outcome, Coming):
        finish = outcome.finish
        return outcome.ended_by(lambda: shape(finish(), *args))
    if hasattr(outcome, "__await__"):
        return _later(cast(Awaitable[T], outcome), shape, *args)
    return shape(outcome, *args)


async def _later(outcome: Awaitable[Any], shape: Callable[..., Any], *args: Any) -> Any:
    return then(await outcome, shape, *args)  # which may be accepted, and still to come
