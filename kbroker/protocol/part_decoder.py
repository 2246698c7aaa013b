"""Reads a request of many entries in parts, so that its objects never exist all at once, and no
step takes long.

    for part in parts_of(MetadataRequest, 12, ("topics",), frame, offset, 256):
        if part is not None: ...

The generated function is the decoder of the version as a generator: at every array of the path it
hands over what it has read when that is enough. A struct that goes on in the next part is begun
there again, with the fields before its array. Fields after the arrays are in the last part. An
array that is not of the path is whole in its part; in the middle of many elements the generator
pauses with None, and a part with many of them has fewer entries.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from kbroker.protocol.codec_source import FIXED_FORMATS, FIXED_SIZES, smallest_element
from kbroker.protocol.declaration import FieldSpec
from kbroker.protocol.decoder_source import DecoderSource
from kbroker.protocol.schema import Message

MOST_BESIDE = 32_768  # elements of one array that is not read in parts
MOST_BESIDE_IN_ALL = 262_144  # of those in one entry: all partitions of a large transaction
_BESIDE_EACH = 8  # in a part, for each entry that it may have

Path = tuple[str, ...]
"""The arrays that are read in parts: of the message, of the structs in it, and so on."""


class MessagePart(NamedTuple):
    """Some entries of a message. The first one may continue the last entry of the part before:
    `going_on` says on how many levels of the path.
    """

    message: Any
    going_on: int
    end: int  # offset of the byte after it


_decoders: dict[tuple[type[Message], int, Path], Callable[..., Iterator[MessagePart | None]]] = {}


def parts_of(
    cls: type[Message], version: int, path: Path, frame: memoryview, offset: int, most: int
) -> Iterator[MessagePart | None]:
    """Yield the message in parts of `most` entries, counted on all levels; None after as many
    elements that do not make a part yet.

    The message is one object, whose array is a new list in each part. Raises ProtocolError for
    bytes that are not this message, perhaps after some parts.
    """
    key = (cls, version, path)
    decoder = _decoders.get(key)
    if decoder is None:
        decoder = _decoders[key] = _PartDecoderSource(cls, version, path).build()
    return decoder(frame, offset, most)


class _Level(NamedTuple):
    """An array of the path while code inside it is written: names of variables."""

    holder: str  # of the struct that the array belongs to
    field: str
    array: str


class _PartDecoderSource(DecoderSource):
    """Builds `decode(buf, pos, most)`, which yields parts."""

    def __init__(self, cls: type[Message], version: int, path: Path) -> None:
        super().__init__(cls, version, version in cls.spec.flexible, cls.max_elements)
        self._path = path
        self._levels: list[_Level] = []
        self._beside = 0  # arrays that are not of the path around the place being written
        self._source.namespace |= {"copied": copy.copy, "Part": MessagePart}

    def build(self) -> Any:
        """Write the source of the function, and compile it."""
        source = self._source
        with source.block("def decode(buf, pos, most):"):
            source.line("limit = len(buf); start = pos; c = k = b = w = 0; pause = most")
            message = self._body()
            source.line(f"yield Part({message}, k, pos)")
        return source.compile("decode", f"<parts of {self._cls.__qualname__} v{self._version}>")

    def _elements(self, field: FieldSpec, target: str, count: str) -> None:
        depth = len(self._levels)
        holder, _, name = target.rpartition(".")
        if self._beside or depth >= len(self._path) or name != self._path[depth]:
            if count:
                self._source.line(count)
            if depth:
                self._source.line("b += n")
                self._source.line(
                    f"if n > {MOST_BESIDE} or b > {MOST_BESIDE_IN_ALL}: "
                    f"bad_count({name!r}, n, limit - pos, False)"
                )
            if field.type_name in FIXED_SIZES:
                self._source.line("w += n")
            self._beside += 1
            super()._elements(field, target, "")
            self._beside -= 1
            return
        if count:
            self._source.line(count)
        size = smallest_element(field, self._version, self._flexible)
        self._source.line("left -= n")
        self._source.line(
            f"if n * {size} > limit - pos or left < 0: bad_count({name!r}, n, limit - pos, False)"
        )
        array = self._source.name("a")
        self._source.line(f"{target} = {array} = []")
        self._levels.append(_Level(holder, name, array))
        if field.type_name in FIXED_SIZES:
            self._numbers(field, array)
        else:
            self._structs_or_strings(field, array)
        self._levels.pop()

    def _end_element(self) -> None:
        self._source.line("w += 1")
        with self._source.block("if w >= pause:"):
            self._source.line("yield None")
            self._source.line("pause = w + most")

    def _numbers(self, field: FieldSpec, array: str) -> None:
        letter, size = FIXED_FORMATS[field.type_name], FIXED_SIZES[field.type_name]
        with self._source.block("while n > 0:"):
            self._source.line("t = min(n, most - c)")
            self._source.line(f"{array} += unpack_from(f'>{{t}}{letter}', buf, pos)")
            self._source.line(f"pos += t * {size}; n -= t; c += t")
            self._hand_over()

    def _structs_or_strings(self, field: FieldSpec, array: str) -> None:
        with self._source.block("for _ in range(n):"):
            if field.struct is not None:
                element = self._struct(field.struct)
            else:
                element = self._source.name("e")
                plain = field._replace(is_array=False, nullable=field.nullable._replace(highest=-1))
                self._field(plain, element)
            self._flush()
            self._source.line(f"{array}.append({element}); c += 1; b = 0")
            self._hand_over()

    def _hand_over(self) -> None:
        """Yield what was read, and begin the structs around this place again."""
        source, levels = self._source, self._levels
        with source.block(f"if c >= most or w >= most * {_BESIDE_EACH}:"):
            for outer, inner in reversed(list(pairwise(levels))):
                source.line(f"{outer.array}.append({inner.holder})")
            source.line(f"yield Part({levels[0].holder}, k, pos)")
            source.line(f"c = w = 0; k = {len(levels) - 1}; pause = most")
            for number, level in enumerate(levels):
                if number:
                    source.line(f"{level.holder} = copied({level.holder})")
                source.line(f"{level.holder}.{level.field} = {level.array} = []")
