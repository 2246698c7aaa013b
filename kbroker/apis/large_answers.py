"""Answers that are much larger than their requests: all groups, all topics, one group of thousands
of members.

Law: the handler takes the memory for such an answer before it makes any of it, as it knows how much
there is to say. Each part that it makes becomes bytes before the next is made, in turns with other
requests. So the answers in memory have a bound, however many clients ask and do not read.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Sequence
from typing import TypeVar

from kbroker.apis.context import RequestContext
from kbroker.apis.request_parts import check_answer
from kbroker.errors import ProtocolError
from kbroker.memory_room import Share
from kbroker.protocol.part_encoder import ArrayInParts
from kbroker.protocol.request import Piece
from kbroker.protocol.schema import Message, Struct
from kbroker.turns import turn

MessageT = TypeVar("MessageT", bound=Message)
T = TypeVar("T")

SMALL_BYTES = 16 * 1024

_BYTES_OF_ENTRY = 64

Part = Sequence[Struct]


class Rest(list[Struct]):
    """A part that begins with the rest of the last entry of the part before it."""


def is_large(size_bytes: int) -> bool:
    """Whether an answer of about so many bytes is not made at once, without asking for memory."""
    return size_bytes > SMALL_BYTES


async def written(
    ctx: RequestContext,
    response: MessageT,
    array: str,
    parts: Iterable[Part] | AsyncIterable[Part],
    size_bytes: int,
) -> MessageT:
    """Return `response` with the entries of all parts in its array, and with the memory they take.

    `array` is a path, as "topics.partitions"; with a path of two levels a part may be a `Rest`.
    `size_bytes` is about what all parts will take; they are begun when there is room for that.
    Raises KafkaError for an answer that no client takes, ProtocolError once the client has gone.
    """
    memory = await ctx.take(size_bytes)
    name, *path = array.split(".")
    entries = ArrayInParts(ctx.api_version, path)
    rest = parts if isinstance(parts, AsyncIterable) else _ThereNow(parts)
    try:
        await _write(ctx, entries, rest, memory, size_bytes)
    except BaseException:
        memory.give_back()  # before the error, which holds it, is gone
        raise
    setattr(response, name, entries.run())
    response.memory = memory
    return response


async def _write(
    ctx: RequestContext,
    entries: ArrayInParts,
    parts: AsyncIterable[Part],
    memory: Share,
    size_bytes: int,
) -> None:
    others_bytes = memory.size_bytes - size_bytes
    check_is_there(ctx)
    async for part in parts:
        entries.add(part, going_on=entries.depth if isinstance(part, Rest) else 0)
        del part  # it is bytes
        check_answer(entries.size_bytes)
        if entries.size_bytes > size_bytes:
            size_bytes = entries.size_bytes
            await memory.take(others_bytes + size_bytes)
        await turn()
        check_is_there(ctx)


def check_is_there(ctx: RequestContext) -> None:
    """Raises ProtocolError for a client that has gone: others are in line behind it."""
    if ctx.connection.is_closed:
        raise ProtocolError("the client has gone")


def bytes_to_come(answer: Message) -> int:
    """Return about how many bytes an answer will take, by its entries and the entries in them."""
    arrays = [value for value in vars(answer).values() if isinstance(value, list)]
    inner = (each for array in arrays for entry in array for each in vars(entry).values())
    entries = sum(map(len, arrays)) + sum(len(each) for each in inner if isinstance(each, list))
    return entries * _BYTES_OF_ENTRY


def bytes_in_memory(pieces: list[Piece]) -> int:
    """Return what they take; slices of files take nothing."""
    return sum(len(piece) for piece in pieces if isinstance(piece, bytes | bytearray | memoryview))


class _ThereNow(AsyncIterator[Part]):
    """Parts that need not be waited for. Keeps none, as a generator would."""

    def __init__(self, parts: Iterable[Part]) -> None:
        self._rest = iter(parts)

    async def __anext__(self) -> Part:
        for part in self._rest:
            return part
        raise StopAsyncIteration
