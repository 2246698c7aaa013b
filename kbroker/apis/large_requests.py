"""Requests of many entries: read outside the loop and answered in parts, so that other clients are
answered in between.

Law: a request costs memory in proportion to what its client may honestly need. An entry of a few
bytes becomes an object of some hundred, so requests without records are bounded; a request that may
carry records is not read here, and what brokers send grows with their cluster. Parts are answered
in their order, and only where the answer of an entry does not depend on the others; where it does,
the handler itself lets others run in between.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar, TypeVarTuple

from kbroker.apis.now_or_later import NowOrLater
from kbroker.errors import ProtocolError
from kbroker.protocol.codec import decode, encode_pieces
from kbroker.protocol.request import Piece
from kbroker.protocol.schema import Message

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

LARGE_BYTES = 64 * 1024  # about 5 ms to read
LARGEST_BYTES = 8 * 1024 * 1024  # a hundred thousand topics; read, it takes 20 to 70 times as much
PART_ENTRIES = 256  # a few milliseconds


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Parts:
    """The array of a request whose entries are answered apart, and the array of their answers."""

    asked: str
    answered: str
    key: str | None = None  # of entries that must not be named twice; "" where they are the name


AS_A_WHOLE = Parts("", "")  # nothing is answered apart: see `in_turns`


def check_size(name: str, size_bytes: int) -> None:
    """Raises ProtocolError for what no client needs."""
    if size_bytes > LARGEST_BYTES:
        raise ProtocolError(f"{name} of {size_bytes} bytes, {LARGEST_BYTES} are the most")


async def decoded(
    cls: type[Message], version: int, frame: memoryview, offset: int
) -> tuple[Message, int]:
    """Read a large request. Raises ProtocolError."""
    return await asyncio.to_thread(decode, cls, version, frame, offset)


async def encoded(answer: Message, version: int, head: bytes) -> list[Piece]:
    """The pieces of what was answered in parts: what the answer is made of changes no more."""
    return await asyncio.to_thread(encode_pieces, answer, version, head)


async def answered_in_parts(handler: Any, ctx: Any, request: Message, parts: Parts | None) -> Any:
    """Return the handler's answer to a large request, worked out part by part."""
    whole: Any = None
    for part in _split(request, parts):
        answer = handler(ctx, part)
        if inspect.isawaitable(answer):
            answer = await answer
        if whole is None:
            whole = answer
        elif parts is not None:
            getattr(whole, parts.answered).extend(getattr(answer, parts.answered))
        await asyncio.sleep(0)
    return whole


async def in_turns(steps: Iterable[None]) -> None:
    """Work the small steps of a handler to their end, with other requests in between."""
    for number, _ in enumerate(steps, 1):
        if number % PART_ENTRIES == 0:
            await asyncio.sleep(0)


def worked(
    steps: Iterable[None], entries: int, answer: Callable[[*Ts], NowOrLater[T]], *args: *Ts
) -> NowOrLater[T]:
    """Work the steps of a handler to their end, then return `answer(*args)`: now where the request
    has few entries, else with other requests in between.
    """
    if entries > PART_ENTRIES:
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


def _split(request: Any, parts: Parts | None) -> Iterator[Any]:
    if parts is None or parts is AS_A_WHOLE:
        yield request
        return
    entries = getattr(request, parts.asked)
    if not entries or not _are_apart(entries, parts.key):
        yield request
        return
    for start in range(0, len(entries), PART_ENTRIES):
        part = copy.copy(request)
        setattr(part, parts.asked, entries[start : start + PART_ENTRIES])
        yield part


def _are_apart(entries: list[Any], key: str | None) -> bool:
    if key is None:
        return True
    names = entries if not key else [getattr(entry, key) for entry in entries]
    return len(set(names)) == len(names)
