"""How the replicas of a coordinator's partition answer, and calls made where they answer late."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from enum import Enum
from typing import Any, ClassVar

_TURNS = 12  # of the loop, until every answer is there


class Replication(Enum):
    """`FAILING`: every third append that somebody waits for is refused, or not confirmed in time;
    the others are confirmed late.
    """

    IMMEDIATE = "immediate"
    DELAYED = "delayed"
    FAILING = "failing"


class Calls:
    """An object whose methods are called on a loop that goes on until the replicas have answered:
    tests without a loop of their own see what a client sees. On a running loop nothing is added.
    """

    loop: ClassVar[asyncio.AbstractEventLoop | None] = None  # set while replicas answer late

    def __init__(self, target: Any, *inner: str) -> None:
        self.__dict__.update(target=target.target if isinstance(target, Calls) else target)
        self.__dict__.update(_inner=inner)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.target, name)
        if name in self._inner:
            return Calls(value)
        if not inspect.ismethod(value):
            return value
        return lambda *arguments, **fields: _call(value, *arguments, **fields)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.target, name, value)


def _call(method: Callable[..., Any], *arguments: Any, **fields: Any) -> Any:
    loop = Calls.loop
    if loop is None or _is_on_a_loop():
        return method(*arguments, **fields)

    async def run() -> Any:
        outcome = method(*arguments, **fields)
        if inspect.isawaitable(outcome):
            outcome = asyncio.ensure_future(outcome)
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        is_there = isinstance(outcome, asyncio.Future) and outcome.done()
        return outcome.result() if is_there else outcome

    return loop.run_until_complete(run())


def _is_on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
