"""Requests that are answered without being read, as equal ones were (`known` of a registration).

What goes out is what is kept, in whichever way it was made: at once, as a large answer, in parts.

Law: the answer has the memory that it takes before it goes out, as any other has. One that refuses
something is not kept, nor one to a request with bytes beyond its end: both are counted or logged
each time.
"""

from __future__ import annotations

from kbroker.apis.context import RequestContext
from kbroker.apis.large_answers import is_large
from kbroker.apis.served_api import Served
from kbroker.memory_room import MemoryRoom
from kbroker.model import new_tuple
from kbroker.protocol.request import Piece, Request, Response
from kbroker.replication.kept_answers import LARGEST_BYTES


def known_answer(served: Served, request: Request, room: MemoryRoom) -> Response | None:
    """Answer what was asked before; None if it was not, or has to wait for memory."""
    assert served.known is not None
    message = served.known.find(served.services, request)
    if message is None:
        return None
    head = served.header.pack(request.header.correlation_id)
    if not is_large(len(message)):
        response: Response = new_tuple(Response, ([head + message], 0, None))
        return response
    share = room.share(request.connection)
    return Response([head, message], 0, share) if share.take_now(len(message)) else None


def keep(served: Served, ctx: RequestContext, request: Request, pieces: list[Piece]) -> None:
    """Keep an answer as it goes out, if it was noted that it is to be kept (`ctx.since`)."""
    if ctx.since is None or sum(map(len, pieces)) > LARGEST_BYTES:
        return
    assert served.known is not None
    answer = b"".join(map(bytes, pieces))  # type: ignore[arg-type]  # nothing comes from files
    served.known.keep(ctx.services, request, answer[served.header.size :], ctx.since)
