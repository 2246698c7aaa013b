"""The bytes of a message, divided into fields that vary (declared with `varies`) and what stands
between them.

Law: pure. The bytes are those of a message that was decoded or encoded here, so nothing is checked.
"""

from __future__ import annotations

from functools import lru_cache
from struct import calcsize
from typing import NamedTuple

from kbroker.protocol.codec_source import FIXED_FORMATS, FIXED_SIZES, fields_of_version
from kbroker.protocol.declaration import FieldSpec, Struct
from kbroker.protocol.primitives import packer, read_uvarint
from kbroker.protocol.schema import Message

CORRELATION_ID = "i"

Path = tuple[tuple[str, int], ...]
"""The way to a struct in a message: names of arrays, and the index in each."""


class Hole(NamedTuple):
    """A field that varies, and the struct that has it."""

    path: Path
    name: str
    is_records: bool


class Stretch(NamedTuple):
    """Bytes of a fixed size, as runs of what is repeated (bytes) and numbers that vary (their
    letters in the struct module). After each stretch but the last come records.
    """

    runs: tuple[bytes | str, ...]


@lru_cache(maxsize=128)  # each connection learns the same few requests
def _untagged_fields(struct: type[Struct], version: int) -> tuple[FieldSpec, ...]:
    return tuple(fields_of_version(struct, version)[0])


class MessageLayout:
    """Walks over the bytes of one message, header included. `holes` has the fields that vary, in
    their order; the correlation id is none of them.
    """

    def __init__(self, data: memoryview, version: int, is_flexible: bool) -> None:
        self.holes: list[Hole] = []
        self.stretches: list[Stretch] = []
        self.is_flexible = is_flexible
        self._data = data
        self._version = version
        self._at = self._run_at = 0
        self._runs: list[bytes | str] = []

    @classmethod
    def of(
        cls, message_class: type[Message], version: int, data: memoryview, id_at: int, body: int
    ) -> MessageLayout:
        """The layout of `data`: the correlation id is at `id_at`, the message begins at `body`."""
        layout = cls(data, version, version in message_class.spec.flexible)
        layout._skip(id_at)
        layout._add(CORRELATION_ID)
        layout._skip(body - layout._at)
        layout._add_struct(message_class, ())
        layout._end_stretch()
        return layout

    def _skip(self, size: int) -> None:
        """Pass bytes that are repeated."""
        self._at += size

    def _add(self, letter: str) -> None:
        """Pass a number that varies."""
        self._end_run()
        self._runs.append(letter)
        self._at += calcsize(">" + letter)
        self._run_at = self._at

    def _end_run(self) -> None:
        """Note the repeated bytes that end here."""
        if self._at > self._run_at:
            self._runs.append(bytes(self._data[self._run_at : self._at]))
        self._run_at = self._at

    def _end_stretch(self) -> None:
        self._end_run()
        self.stretches.append(Stretch(tuple(self._runs)))
        self._runs = []

    def _add_struct(self, struct: type[Struct], path: Path) -> None:
        """Pass the fields of a struct."""
        # A class has a hash, which mypy does not know.
        for field in _untagged_fields(struct, self._version):  # type: ignore[arg-type]
            self._add_field(field, path)
        if self.is_flexible:
            for _ in range(self._uvarint()):
                self._uvarint()  # the tag
                self._skip(self._uvarint())

    def _add_field(self, field: FieldSpec, path: Path) -> None:
        if field.is_array:
            for index in range(self._length("i")):
                self._add_value(field, (*path, (field.name, index)))
        elif not field.varies:
            self._add_value(field, path)
        else:
            is_records = field.type_name == "records"
            self.holes.append(Hole(path, field.name, is_records))
            if not is_records:
                self._add(FIXED_FORMATS[field.type_name])
                return
            self._end_stretch()
            self._skip(self._length("i"))
            self._run_at = self._at

    def _add_value(self, field: FieldSpec, path: Path) -> None:
        """Pass one value that is repeated, or may have fields that vary."""
        if field.struct is not None:
            is_there = True
            if self._version in field.nullable and not field.is_array:
                is_there = self._data[self._at] < 0x80
                self._skip(1)
            if is_there:
                self._add_struct(field.struct, path)
        elif field.type_name == "uuid":
            self._skip(16)
        elif field.type_name in FIXED_SIZES:
            self._skip(FIXED_SIZES[field.type_name])
        else:
            self._skip(self._length("h" if field.type_name == "string" else "i"))

    def _length(self, letter: str) -> int:
        """The length that stands here; 0 for null."""
        if self.is_flexible:
            return max(self._uvarint() - 1, 0)
        length: int
        read = packer(">" + letter)
        (length,) = read.unpack_from(self._data, self._at)
        self._skip(read.size)
        return max(length, 0)

    def _uvarint(self) -> int:
        value, self._at = read_uvarint(self._data, self._at)
        return value
