"""How a request of many entries is read and answered in parts.

A registration names the arrays (`Parts`). The frame is gone through twice: what is wrong anywhere
in it is known before anything is done, and so are the fields after the arrays, and what is named
more than once. Then each part is a request of its own for the handler, and its answers are bytes
before the next one is read. Others have their turn after each part.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from operator import attrgetter
from typing import Any

from kbroker.errors import ErrorCode, KafkaError
from kbroker.protocol.part_decoder import MessagePart, parts_of
from kbroker.protocol.part_encoder import ArrayInParts, encode_runs
from kbroker.protocol.request import Piece
from kbroker.protocol.schema import Message, field_specs
from kbroker.turns import ENTRIES, turn

LARGEST_ANSWER_BYTES = 100_000_000  # librdkafka takes no larger one

_BYTES_OF_NAMES = 12  # for a byte of the frame
_LOOKED_THROUGH = 1_024  # entries in one turn: a millisecond


class Again(Enum):
    """The treatment of an entry that is named again."""

    ANSWERED = auto()  # like the first; the handler may ask `RequestContext.twice`
    LEFT_OUT = auto()
    IN_PLACE_OF_FIRST = auto()  # the last wish counts


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Parts:
    """Arrays of a request whose entries are answered apart, and the arrays of their answers.

    Both are paths from the message, as "topics.partitions". `key` tells entries apart, for each
    level of the path: "name.partition_index"; two fields are "name+topic_id", and a level of plain
    values is empty.
    """

    asked: str
    answered: str
    key: str | None = None
    again: Again = Again.ANSWERED


AS_A_WHOLE = Parts("", "")  # nothing is answered apart; the handler gives others their turn


def parts_in(parts: Parts | tuple[Parts, ...] | None, cls: type[Message], version: int) -> Any:
    """Return the parts that a version has, of alternatives; None if there are none."""
    if parts is None or parts is AS_A_WHOLE:
        return parts
    fields = {field.name: field.versions for field in field_specs(cls)}
    for each in parts if isinstance(parts, tuple) else (parts,):
        if version in fields[each.asked.partition(".")[0]]:
            return each
    return None


class NamedTwice:
    """The names that a request has more than once, kept as hashes: there may be a million."""

    __slots__ = ("_left", "_seen", "_twice")

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self._twice: dict[int, int] = {}  # how often
        self._left: dict[int, int] = {}  # how often they are still to come

    def add(self, name: object) -> None:
        """Count a name once more."""
        number = hash(name)
        if number in self._seen:
            self._twice[number] = self._twice.get(number, 1) + 1
        else:
            self._seen.add(number)

    def all_added(self) -> None:
        """No more will come, and they are gone through from the first one on."""
        self._seen = set()
        self._left = self._twice.copy()

    def __contains__(self, name: object) -> bool:
        """Return whether a name came more than once; a tuple if it has two levels."""
        return bool(self._twice) and hash(name) in self._twice

    def comes_again(self, name: object) -> bool:
        """Whether what is named comes once more, asked each time that it is named."""
        number = hash(name)
        if number not in self._left:
            return False
        self._left[number] -= 1
        return self._left[number] > 0

    def was_told(self, name: object) -> bool:
        """Whether this was asked before of something that is named more than once."""
        number = hash(name)
        if number not in self._twice:
            return False
        if number in self._seen:
            return True
        self._seen.add(number)
        return False


class RequestInParts:
    """A large request, taken part by part."""

    def __init__(
        self, cls: type[Message], version: int, parts: Parts, frame: memoryview, offset: int
    ) -> None:
        self._source = (cls, version, tuple(parts.asked.split(".")), frame, offset)
        self._parts = parts
        self._keys = [_getter(fields) for fields in (parts.key or "").split(".")]
        self.version = version
        self.rest: Any = None  # the message, with some of its entries
        self.end = offset
        self.twice = NamedTwice()

    @property
    def bytes_looked_through(self) -> int:
        """Return what its names may take of the memory while it is looked through."""
        return 0 if self._parts.key is None else _BYTES_OF_NAMES * len(self._source[3])

    async def look_through(self) -> None:
        """Read all of it once. Raises ProtocolError if its bytes are not this message."""
        async for part in self._read(_LOOKED_THROUGH):
            if self._parts.key is not None:
                for name in self._names(part.message):
                    self.twice.add(name)
            self.rest, self.end = part.message, part.end

    async def parts(self) -> AsyncIterator[MessagePart]:
        """Each is a request of its own; a refusal goes through them again."""
        self.twice.all_added()
        array = self._source[2][0]
        is_first = True
        async for message, going_on, end in self._read(ENTRIES):
            part = copy.copy(self.rest)
            setattr(part, array, getattr(message, array))
            if self._parts.again is Again.ANSWERED or self._leave_out(part) or is_first:
                yield MessagePart(part, going_on, end)
            is_first = False

    async def _read(self, most: int) -> AsyncIterator[MessagePart]:
        """Others have their turn after each part, and within large ones."""
        for part in parts_of(*self._source, most):
            if part is not None:
                yield part
            await turn()

    def _names(self, message: Any) -> Iterator[object]:
        path, keys = self._source[2], self._keys
        for entry in getattr(message, path[0]) or ():
            name = keys[0](entry)
            if len(keys) == 1:
                yield name
            else:
                yield from ((name, keys[1](inner)) for inner in getattr(entry, path[1]))

    def _leave_out(self, message: Any) -> bool:
        """Take out what was answered before, or comes again; return whether anything is left."""
        path, keys, is_out = self._source[2], self._keys, self.twice.was_told
        if self._parts.again is Again.IN_PLACE_OF_FIRST:
            is_out = self.twice.comes_again
        entries = getattr(message, path[0]) or []
        if len(keys) == 1:
            kept = [entry for entry in entries if not is_out(keys[0](entry))]
        else:
            for entry in entries:
                inner = getattr(entry, path[1])
                name = keys[0](entry)
                left = [each for each in inner if not is_out((name, keys[1](each)))]
                setattr(entry, path[1], left)
            kept = [entry for entry in entries if getattr(entry, path[1])]
        if getattr(message, path[0]) is not None:
            setattr(message, path[0], kept)
        return bool(kept)


def _getter(fields: str) -> Callable[[Any], object]:
    return attrgetter(*fields.split("+")) if fields else lambda entry: entry


def check_answer(size_bytes: int) -> None:
    """Raises KafkaError for an answer that no client takes."""
    if size_bytes > LARGEST_ANSWER_BYTES:
        text = f"The answer takes more than {LARGEST_ANSWER_BYTES} bytes: ask for less at once."
        raise KafkaError(ErrorCode.INVALID_REQUEST, text)


class AnswerInParts:
    """The answer of a request, put together from the answers of its parts."""

    def __init__(self, version: int, parts: Parts) -> None:
        self._version = version
        self._array, *path = parts.answered.split(".")
        self._entries = ArrayInParts(version, path)
        self.whole: Any = None

    @property
    def size_bytes(self) -> int:
        return self._entries.size_bytes

    def add(self, answer: Any, going_on: int) -> None:
        """Raises KafkaError for an answer that no client takes."""
        if self.whole is None:
            self.whole = answer
        else:
            self._take(answer)
        self._entries.add(getattr(answer, self._array) or (), going_on)
        check_answer(self._entries.size_bytes)

    def _take(self, answer: Any) -> None:
        """Take what a later part says of all."""
        if getattr(answer, "error_code", 0):
            self.whole.error_code = answer.error_code
        throttle_ms = getattr(answer, "throttle_time_ms", 0)
        if throttle_ms:
            self.whole.throttle_time_ms = max(self.whole.throttle_time_ms, throttle_ms)

    def pieces(self, head: bytes) -> list[Piece]:
        """Return all of the answer."""
        if self.whole is None:
            return []
        setattr(self.whole, self._array, self._entries.run())
        return encode_runs(self.whole, self._version, head)
