"""The bytes that a client repeats in every request of a kind: read from one, found again in others.

A request is a few bytes that differ each time, such as offsets and records, between bytes that are
always the same: the client's id, topics, limits. Its template knows the latter, and finds the
former without decoding the message again. What answers to such requests have in common is a form,
which is filled in.

Law: pure. A template fits a request only if every byte that is not of a varying field is the same,
and the request ends where the template does. So what is read is what the decoder would read; all
else does not fit, and is decoded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct, calcsize
from typing import Any, NamedTuple

from kbroker.protocol import codec
from kbroker.protocol.message_layout import Hole, MessageLayout, Stretch
from kbroker.protocol.primitives import write_uvarint
from kbroker.protocol.request import Piece
from kbroker.protocol.schema import Message

_LONGEST_SIZE = 5  # of a varint with the size of records
_ID_AT = 4  # in a request without its size
_SIZE = Struct(">i")
_read_size = _SIZE.unpack_from


class _Pattern(NamedTuple):
    """A stretch of a request."""

    same: tuple[tuple[int, bytes], ...]  # what is repeated, by its place from the start
    read: Any  # of a Struct whose fields are the numbers that vary
    size: int


class Template:
    """The template of the requests that look like one.

    >>> Template.of(HeartbeatRequest, 4, frame, body).read(buffer, start, end)
    [1017]
    """

    __slots__ = ("_first", "_is_flexible", "_rest", "holes", "weight")

    def __init__(self, layout: MessageLayout) -> None:
        self._first, *self._rest = patterns = [_pattern(stretch) for stretch in layout.stretches]
        self._is_flexible = layout.is_flexible
        self.holes: Sequence[Hole] = layout.holes
        self.weight = sum(pattern.size for pattern in patterns)  # bytes without the records

    @classmethod
    def of(
        cls, request_class: type[Message], version: int, frame: memoryview, body: int
    ) -> Template:
        """The template of a request that was decoded: its frame without the size, and where its
        body begins.
        """
        return cls(MessageLayout.of(request_class, version, frame, _ID_AT, body))

    @property
    def has_records(self) -> bool:
        """Whether what is read holds views of the buffer."""
        return bool(self._rest)

    def read(self, buffer: bytearray, start: int, end: int) -> list[Any] | None:
        """The correlation id and the values of the `holes` of the request in `buffer[start:end]`;
        records are views of it. None if the template does not fit.
        """
        same, read, size = self._first
        at = start + size
        if at > end:
            return None
        for place, repeated in same:
            if not buffer.startswith(repeated, start + place):
                return None
        values: list[Any] = [*read(buffer, start)]
        if self._rest:
            at = self._read_rest(buffer, at, end, values)
        return values if at == end else None

    def _read_rest(self, buffer: bytearray, at: int, end: int, values: list[Any]) -> int:
        """Read from the first records on, into `values`; returns where that ends, -1 if the
        template does not fit.
        """
        view = memoryview(buffer)
        is_flexible = self._is_flexible
        for same, read, size in self._rest:
            if at + _LONGEST_SIZE > end:  # not even records of one byte
                return -1
            if not is_flexible:
                (length,) = _read_size(buffer, at)
                at += 4
            elif (length := buffer[at]) < 0x80:
                length -= 1
                at += 1
            elif (high := buffer[at + 1]) < 0x80:
                length = (length & 0x7F | high << 7) - 1
                at += 2
            else:
                length, at = _long_size(buffer, at)
            if length < 0 or at + length + size > end:
                return -1
            values.append(view[at : at + length])
            at += length
            for place, repeated in same:
                if not buffer.startswith(repeated, at + place):
                    return -1
            values += read(buffer, at)
            at += size
        return at


def _pattern(stretch: Stretch) -> _Pattern:
    same: list[tuple[int, bytes]] = []
    layout, at = ">", 0
    for run in stretch.runs:
        if isinstance(run, bytes):
            same.append((at, run))
            layout += f"{len(run)}x"
            at += len(run)
        else:
            layout += run
            at += calcsize(">" + run)
    same.sort(key=lambda each: -len(each[1]))  # the longest tells most
    read = Struct(layout)  # kept nowhere else: there are as many as clients have names
    return _Pattern(tuple(same), read.unpack_from, read.size)


def _long_size(buffer: bytearray, at: int) -> tuple[int, int]:
    """The size that stands at `at` as a varint of up to five bytes, less one, and where that ends;
    -1 for a varint that has no end.
    """
    size, shift = 0, 0
    for byte in buffer[at : at + _LONGEST_SIZE]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return size - 1, at + shift // 7
    return -1, at


class Form:
    """The answers that differ in the fields declared with `varies` only."""

    __slots__ = ("_is_flexible", "_parts", "_size")

    def __init__(self, answer: Message, version: int, head: bytes) -> None:
        """`head` is a response header; records in the answer are empty."""
        body = codec.encode(answer, version, head)
        layout = MessageLayout.of(type(answer), version, memoryview(body), 0, len(head))
        self._is_flexible = layout.is_flexible
        self._parts = [_FormPart.of(stretch) for stretch in layout.stretches]
        self._size = _SIZE.pack(len(body))

    def frame(self, values: Sequence[int]) -> bytes:
        """The frame, size included, of an answer without records: with this correlation id and
        these values.
        """
        (part,) = self._parts
        return self._size + part.fill(iter(values))

    def pieces(self, values: Sequence[int], records: Sequence[Piece]) -> list[Piece]:
        """The pieces of an answer with this correlation id, these numbers and these records."""
        left = iter(values)
        pieces: list[Piece] = []
        for part, piece in zip(self._parts, records, strict=False):
            size = len(piece)
            filled = part.fill(left)
            pieces.append(
                filled + (write_uvarint(size + 1) if self._is_flexible else _SIZE.pack(size))
            )
            if size:
                pieces.append(piece)
        pieces.append(self._parts[-1].fill(left))
        return pieces


class _FormPart(NamedTuple):
    """A stretch of an answer."""

    values: list[Any]  # what is repeated, and anything else in the places of numbers
    places: list[int]
    pack: Any  # of a Struct

    @classmethod
    def of(cls, stretch: Stretch) -> _FormPart:
        runs = stretch.runs
        letters = (f"{len(run)}s" if isinstance(run, bytes) else run for run in runs)
        places = [at for at, run in enumerate(runs) if isinstance(run, str)]
        return cls(list(runs), places, Struct(">" + "".join(letters)).pack)

    def fill(self, numbers: Iterator[int]) -> bytes:
        """The bytes of the stretch, with its share of the numbers."""
        values = self.values.copy()
        for place in self.places:
            values[place] = next(numbers)
        filled: bytes = self.pack(*values)
        return filled
