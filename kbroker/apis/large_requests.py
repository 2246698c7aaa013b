"""Large requests: how they are read and answered without holding up others or filling the memory.

Law: a request costs memory and time in proportion to what its client may honestly need, and what
all of them take together is bounded (`MemoryRoom`). A registration says how its handler works on
many entries: in parts (`Parts`), or as a whole, in turns of its own (`AS_A_WHOLE`). One that says
nothing gets few entries. What may carry records is not read here, and what brokers send grows with
their cluster.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, TypeVar, TypeVarTuple

from kbroker.apis.now_or_later import NowOrLater
from kbroker.apis.request_parts import AnswerInParts, Parts, RequestInParts
from kbroker.errors import ProtocolError
from kbroker.protocol.codec import Decoder
from kbroker.protocol.part_encoder import encode_runs
from kbroker.protocol.request import Piece
from kbroker.protocol.schema import Message, Struct, field_specs
from kbroker.turns import ENTRIES, in_turns, turn

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

LARGE_BYTES = 16 * 1024  # one or two ms: twenty of them come in one turn of the loop
FEW_BYTES = 2 * 1024  # which are answered without asking for memory, unless others wait for some
LARGEST_BYTES = 8 * 1024 * 1024  # a hundred thousand topics

MOST_AS_A_WHOLE = 350_000  # elements: more than the largest cluster has partitions
MOST_UNDECLARED = 10_000
MOST_PRODUCED_AT_ONCE = 1_000  # topics and partitions; more are worked in turns
_ENDED_AT_ONCE = 1_000
_BYTES_READ = 40  # what a byte of a request takes when it is read as a whole, and answered
_BYTES_OF_ELEMENT = 250
_BYTES_READ_OF_PRODUCE = 160  # a partition without records takes six bytes
_BYTES_OF_PRODUCED = 900  # what is asked, appended and answered for a partition


def check_size(name: str, size_bytes: int) -> None:
    """Raises ProtocolError for what no client needs."""
    if size_bytes > LARGEST_BYTES:
        raise ProtocolError(f"{name} of {size_bytes} bytes, {LARGEST_BYTES} are the most")


def most_elements(parts: Any, cls: type[Message]) -> int:
    """How many elements of arrays a request may have that is read as a whole."""
    most = MOST_UNDECLARED if parts is None else MOST_AS_A_WHOLE
    return min(most, cls.max_elements)


def bytes_as_a_whole(size_bytes: int, most: int) -> int:
    """Return what a request of at most `most` elements takes of the memory until its answer."""
    return min(size_bytes * _BYTES_READ, size_bytes + most * _BYTES_OF_ELEMENT)


def bytes_of_produce(size_bytes: int, most: int) -> int:
    return min(size_bytes * _BYTES_READ_OF_PRODUCE, most * _BYTES_OF_PRODUCED)


class Beside:
    """Computes in a thread beside the loop, one thing at a time: with several threads, each would
    have its turn of the interpreter before the loop has one.
    """

    def __init__(self) -> None:
        self._is_busy = asyncio.Lock()

    async def run(self, work: Callable[[*Ts], T], *args: *Ts) -> T:
        """Return `work(*args)`, and raise what it raises."""
        async with self._is_busy:
            return await asyncio.to_thread(work, *args)

    async def decoded(self, decode: Decoder, frame: memoryview, offset: int) -> tuple[Any, int]:
        """Read a large request. Raises ProtocolError."""
        return await self.run(decode, frame, offset)

    async def encoded(self, answer: Message, version: int, head: bytes) -> list[Piece]:
        """Return the pieces of a large answer, which does not change any more."""
        return await self.run(encode_runs, answer, version, head)


async def let_go(things: list[Any]) -> None:
    """Let messages and other objects end, with other requests in between: the end of 100,000 takes
    30 ms. The caller keeps none of them but the messages, whose arrays are taken out, as a thread
    may still hold one. The list is empty afterwards.
    """
    while things:
        for _ in range(min(_ENDED_AT_ONCE, len(things))):
            thing = things.pop()
            for name in _arrays(type(thing)):  # type: ignore[arg-type]  # a class has a hash
                things += getattr(thing, name) or ()
                if isinstance(thing, Message):
                    setattr(thing, name, None)
        del thing
        await turn()


@cache
def _arrays(cls: type[Any]) -> tuple[str, ...]:
    """The arrays of structs in a struct."""
    fields = field_specs(cls) if issubclass(cls, Struct) else ()
    return tuple(field.name for field in fields if field.is_array and field.struct is not None)


async def answered_in_parts(
    handler: Callable[[Any], NowOrLater[Any]],
    request: RequestInParts,
    parts: Parts,
    take: Callable[[int], Any],
) -> AnswerInParts:
    """Return the handler's answers to all parts; `take` gets how many bytes they have so far."""
    whole = AnswerInParts(request.version, parts)
    async for message, going_on, _ in request.parts():
        answer = handler(message)
        if inspect.isawaitable(answer):
            answer = await answer
        whole.add(answer, going_on)
        await take(whole.size_bytes)
    return whole


def worked(
    steps: Iterable[None], entries: int, answer: Callable[[*Ts], NowOrLater[T]], *args: *Ts
) -> NowOrLater[T]:
    """Work the steps of a handler to their end, then return `answer(*args)`: at once if the request
    has few entries, else with other requests in between.
    """
    if entries > ENTRIES:
        return _worked_in_turns(steps, answer, *args)
    for _ in steps:
        pass
    return answer(*args)


async def _worked_in_turns(
    steps: Iterable[None], answer: Callable[..., NowOrLater[T]], *args: Any
) -> T:
    await in_turns(steps)
    outcome = answer(*args)
    return await outcome if inspect.isawaitable(outcome) else outcome
