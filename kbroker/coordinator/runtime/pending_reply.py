"""PendingReply: an answer that may be there at once, or may have to be waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from kbroker.errors import ErrorCode

ResultT = TypeVar("ResultT")


class PendingReply(Generic[ResultT]):
    """Owned by the event loop. No future is made if the answer is there already."""

    __slots__ = ("_future", "_is_answered", "_refused", "_result")

    def __init__(self, refused: Callable[[ErrorCode], ResultT] | None = None) -> None:
        """`refused` makes the answer for an error, for who may be asked for a `refusal`."""
        self._refused = refused
        self._future: asyncio.Future[ResultT] | None = None
        self._is_answered = False
        self._result: ResultT | None = None

    def answer(self, result: ResultT) -> None:
        """Give the answer; the first one counts."""
        if self._is_answered:
            return
        self._is_answered = True
        self._result = result
        if self._future is not None and not self._future.done():
            self._future.set_result(result)

    def refusal(self, code: ErrorCode) -> ResultT:
        """Return the answer for an error."""
        assert self._refused is not None
        return self._refused(code)

    def outcome(self) -> ResultT | Awaitable[ResultT]:
        """The answer, or something to await it with."""
        if self._is_answered:
            return self._result  # type: ignore[return-value]  # set together with the flag
        if self._future is None:
            self._future = asyncio.get_running_loop().create_future()
        return self._future
