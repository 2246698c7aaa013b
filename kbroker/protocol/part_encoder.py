"""Writes large answers, and puts them together from the answers of parts: what is answered is bytes
at once, so that its objects do not pile up.

An array may hold an `EncodedRun` in place of structs: the bytes written before, with the number of
their elements.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from kbroker.protocol.codec import Encoder
from kbroker.protocol.encoder_source import EncoderSource
from kbroker.protocol.request import Piece
from kbroker.protocol.schema import Message, Struct

_PIECE_BYTES = 64 * 1024
_MOST_APART = 4_096  # small byte strings that are not joined yet: 200 KB
_NAMES = (
    "name", "topic", "topic_name", "topic_id", "group_id", "log_dir", "partition_index",
    "error_code",
)  # fmt: skip

_encoders: dict[tuple[type[Struct], int], Encoder] = {}


class EncodedRun(list[Any]):
    """An array of which `count` elements are written; more may be added to it."""

    def __init__(self, pieces: list[Piece], count: int, version: int) -> None:
        super().__init__([_Written(pieces, version)])
        self.total = count
        self.pieces = pieces

    def __len__(self) -> int:
        return self.total

    def extend(self, elements: Iterable[Any]) -> None:
        """Add elements that are not written yet."""
        added = list(elements)
        self.total += len(added)
        super().extend(added)

    @property
    def added(self) -> list[Any]:
        return list(islice(self, 1, None))


class _Written:
    """Looks to an encoder like a struct that was written beforehand."""

    def __init__(self, pieces: list[Piece], version: int) -> None:
        self.encoded = {version: pieces}


class ArrayInParts:
    """An array of an answer that grows. An entry may continue, in the arrays of `path`."""

    def __init__(self, version: int, path: Sequence[str]) -> None:
        self._version = version
        self._path = path
        self._pieces: list[Piece] = []
        self._small = bytearray()
        self._count = 0
        self._last: Any = None  # may go on
        self._rest: ArrayInParts | None = None  # of the array in it
        self._written_bytes = 0

    @property
    def size_bytes(self) -> int:
        """Of what is written, also in the entry that may go on."""
        rest_bytes = 0 if self._rest is None else self._rest.size_bytes
        return self._written_bytes + rest_bytes

    @property
    def depth(self) -> int:
        """The number of levels on which an entry may continue."""
        return len(self._path)

    def add(self, entries: Sequence[Any], going_on: int = 0) -> None:
        """Add a part's entries; the first continues the last one here on `going_on` levels."""
        if isinstance(entries, EncodedRun):
            self._add_run(entries)
            return
        start = 0
        if going_on and self._path and entries and _is_same(self._last, entries[0]):
            self._rest_of_last().add(getattr(entries[0], self._path[0]), going_on - 1)
            start = 1
        for entry in entries[start:]:
            self._close()
            self._last = entry

    def _add_run(self, run: EncodedRun) -> None:
        self._close()
        self._count += len(run) - len(run.added)
        for piece in run.pieces:
            self._write(piece)
        self.add(run.added)

    def run(self) -> EncodedRun:
        """The array as a run; nothing is added to it afterwards."""
        self._close()
        self._cut()
        return EncodedRun(self._pieces, self._count, self._version)

    def _rest_of_last(self) -> ArrayInParts:
        if self._rest is None:
            self._rest = ArrayInParts(self._version, self._path[1:])
            self._rest.add(getattr(self._last, self._path[0]))
        return self._rest

    def _close(self) -> None:
        entry, self._last = self._last, None
        if entry is None:
            return
        if self._rest is not None:
            setattr(entry, self._path[0], self._rest.run())
            self._rest = None
        self._count += 1
        written = entry.encoded and entry.encoded.get(self._version)
        pieces = [written] if written else _encoder_of(type(entry), self._version)(entry, b"")
        for piece in pieces:
            self._write(piece)

    def _write(self, piece: Piece) -> None:
        self._written_bytes += len(piece)
        if isinstance(piece, bytes) and len(piece) < _PIECE_BYTES:
            self._small += piece
            if len(self._small) < _PIECE_BYTES:
                return
            self._cut()
        else:
            self._cut()
            self._pieces.append(piece)

    def _cut(self) -> None:
        if self._small:
            self._pieces.append(bytes(self._small))
            self._small.clear()


def encode_runs(message: Message, version: int, head: bytes) -> list[Piece]:
    """Encode a large message, or one with runs, in pieces: it takes little more than its bytes."""
    return _encoder_of(type(message), version)(message, head)


def _is_same(one: Any, other: Any) -> bool:
    """Whether two entries are of the same thing, and say the same of it."""
    return one is not None and all(
        getattr(one, name, None) == getattr(other, name, None) for name in _NAMES
    )


def _encoder_of(cls: type[Struct], version: int) -> Encoder:
    encoder = _encoders.get((cls, version))
    if encoder is None:
        flexible = version in cls.message_class.spec.flexible
        encoder = _RunEncoderSource(cls, version, flexible).build()
        _encoders[cls, version] = encoder
    return encoder


class _RunEncoderSource(EncoderSource):
    """Builds encoders that take runs, too, and join what they have written as they go."""

    def _element(self, struct: type[Struct], element: str) -> None:
        encoded = self._source.name("e")
        self._source.line(f"{encoded} = {element}.encoded")
        with self._source.block(f"if {encoded} is not None and {self._version} in {encoded}:"):
            self._source.line(f"{encoded} = {encoded}[{self._version}]")
            self._source.line(f"if type({encoded}) is bytes: {self._write}({encoded}); continue")
            self._source.line("pieces.append(b''.join(out)); out.clear()")
            self._source.line(f"pieces += {encoded}; continue")
        self._struct(struct, element)

    def _end_element(self) -> None:
        if self._write == "w":
            join = "pieces.append(b''.join(out)); out.clear()"
            self._source.line(f"if len(out) > {_MOST_APART}: {join}")
        else:
            super()._end_element()
