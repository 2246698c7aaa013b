"""Requests that are answered without being read, as equal ones were (`known` of a registration).

Law: the answer has the memory that it takes before it goes out, as any other has.
"""

from __future__ import annotations

from kbroker.apis.context import LargeContext, Services
from kbroker.apis.large_answers import is_large
from kbroker.apis.served_api import Served
from kbroker.memory_room import MemoryRoom
from kbroker.model import new_tuple
from kbroker.protocol.request import Piece, Request, Response


def known_answer(
    served: Served, services: Services, request: Request, room: MemoryRoom
) -> Response | None:
    """Answer what was asked before; None if it was not, or has to wait for memory."""
    assert served.known is not None
    message = served.known.find(services, request)
    if message is None:
        return None
    head = served.header.pack(request.header.correlation_id)
    if not is_large(len(message)):
        response: Response = new_tuple(Response, ([head + message], 0, None))
        return response
    share = room.share(request.connection)
    return Response([head, message], 0, share) if share.take_now(len(message)) else None


def keep_whole(
    served: Served, ctx: LargeContext, request: Request, pieces: list[Piece], since: object
) -> None:
    """Keep the answer to a request that was answered in parts, if no part refused anything."""
    if served.known is None or ctx.has_refused:
        return
    answer = b"".join(map(bytes, pieces))  # type: ignore[arg-type]  # nothing comes from files
    served.known.keep(ctx.services, request, answer[served.header.size :], since)
