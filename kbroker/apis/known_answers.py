"""Requests that are answered without being read, as equal ones were (`known` of a registration).

What goes out is what is kept, in whichever way it was made: at once, as a large answer, in parts.

Law: the answer has the memory that it takes before it goes out, as any other has, and its time
counts against its client's limits. One that refuses something is not kept, nor one to a request
with bytes beyond its end: both are counted or logged each time. Nor is one that says how long a
client pauses.
"""

from __future__ import annotations

from struct import Struct

from kbroker.apis.context import RequestContext
from kbroker.apis.large_answers import is_large
from kbroker.apis.quota_meter import place_of_throttle
from kbroker.apis.served_api import Served
from kbroker.apis.throttling import throttle_ms
from kbroker.memory_room import MemoryRoom
from kbroker.model import new_tuple
from kbroker.protocol.request import Piece, Request, Response
from kbroker.replication.kept_answers import LARGEST_BYTES

_INT32 = Struct(">i")


def known_answer(
    served: Served, request: Request, room: MemoryRoom, began_ns: int
) -> Response | None:
    """Answer what was asked before; None if it was not, or has to wait for memory."""
    assert served.known is not None
    message = served.known.find(served.services, request)
    if message is None:
        return None
    head = served.header.pack(request.header.correlation_id)
    share = None
    if is_large(len(message)):
        share = room.share(request.connection)
        if not share.take_now(len(message)):
            return None
    delay_ms = 0
    if served.quotas is not None:
        ctx = RequestContext(request.header, request.connection, served.services, began_ns)
        delay_ms = throttle_ms(served, request, ctx)
        if delay_ms:
            message = _with_pause(served, message, delay_ms)
    pieces = [head + message] if share is None else [head, message]
    response: Response = new_tuple(Response, (pieces, delay_ms, share))
    return response


def _with_pause(served: Served, message: bytes, delay_ms: int) -> bytes:
    at = place_of_throttle(served.response_class, served.version)  # type: ignore[arg-type]  # a class has a hash
    if at is None:
        return message
    changed = bytearray(message)
    _INT32.pack_into(changed, at if at >= 0 else len(changed) + at, delay_ms)
    return bytes(changed)


def keep(
    served: Served, ctx: RequestContext, request: Request, pieces: list[Piece], delay_ms: int = 0
) -> None:
    """Keep an answer as it goes out, if it was noted that it is to be kept (`ctx.since`), unless it
    says that its client pauses.
    """
    if ctx.since is None or delay_ms or sum(map(len, pieces)) > LARGEST_BYTES:
        return
    assert served.known is not None
    answer = b"".join(map(bytes, pieces))  # type: ignore[arg-type]  # nothing comes from files
    served.known.keep(ctx.services, request, answer[served.header.size :], ctx.since)
