"""A Fetch whose records are converted for a client of an old format (versions 0 to 3): they are in
memory, and not slices of files.

Law: the memory that they take, about what was read, is taken before they are converted, and held
until the answer has left.
"""

from __future__ import annotations

from collections.abc import Callable

from kbroker.apis.context import RequestContext
from kbroker.apis.large_answers import check_is_there
from kbroker.apis.now_or_later import NowOrLater
from kbroker.memory_room import Share
from kbroker.protocol.messages.fetch import FetchRequest, FetchResponse


class ConvertingContext(RequestContext):
    """The context of one such request: its reads take turns at one share."""

    __slots__ = ("_whole", "memory")

    def __init__(self, whole: RequestContext) -> None:
        super().__init__(whole.header, whole.connection, whole.services, whole.began_ns)
        self._whole = whole
        self.memory: Share | None = None

    def used_ns(self) -> int:
        return self._whole.used_ns()

    async def take(self, size_bytes: int) -> Share:
        """Take memory for records of so many bytes. Raises ProtocolError if the client has gone."""
        if self.memory is None:
            self.memory = await self._whole.take(size_bytes)
        elif size_bytes > self.memory.size_bytes:
            await self.memory.take(size_bytes)
        check_is_there(self)
        return self.memory


async def fetch_converted(
    ctx: RequestContext,
    request: FetchRequest,
    fetch: Callable[[RequestContext, FetchRequest], NowOrLater[FetchResponse]],
) -> FetchResponse:
    """Return what `fetch` answers, with the memory that its records take."""
    converting = ConvertingContext(ctx)
    try:
        answer = fetch(converting, request)
        response = answer if isinstance(answer, FetchResponse) else await answer
    except BaseException:
        if converting.memory is not None:
            converting.memory.give_back()  # before the error, which holds it, is gone
        raise
    response.memory = converting.memory
    return response
