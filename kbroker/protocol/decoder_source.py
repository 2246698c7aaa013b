"""Writes the decoder of one message version as Python source.

The generated function is straight-line code with one loop per array. Neighbouring fixed-size
fields, and the length that follows them, are read with one precompiled `struct.Struct`. Bounds: a
slice beyond the end comes out short and moves `pos` past `limit`, which is checked once at the end;
what reads beyond it raises, which is caught once; counts are checked against the bytes that remain.
"""

from __future__ import annotations

import struct
from functools import partial
from struct import calcsize, unpack_from
from typing import Any

from kbroker.protocol import primitives
from kbroker.protocol.codec_source import (
    FIXED_FORMATS,
    FIXED_SIZES,
    PythonSource,
    fields_of_version,
    smallest_element,
)
from kbroker.protocol.declaration import FieldSpec, Struct
from kbroker.protocol.schema import Message


class DecoderSource:
    """Builds `decode(buf, pos) -> (message, pos)` for one class and version; `buf` is a memoryview,
    and anything that is not such a message raises ProtocolError.
    """

    def __init__(self, cls: type[Message], version: int, flexible: bool, max_elements: int) -> None:
        self._cls = cls
        self._max_elements = max_elements
        self._version = version
        self._flexible = flexible
        name = f"{cls.__name__} v{version}"
        self._source = PythonSource(
            {
                "out_of_bytes": (IndexError, struct.error),
                "ends_early": partial(primitives.ends_early, name),
                "lacks_bytes": partial(primitives.lacks_bytes, name),
                "new": object.__new__,
                "unpack_from": unpack_from,
                "uvarint": primitives.read_uvarint,
                "string_size": primitives.read_string_size,
                "uuid": primitives.uuid_from_bytes,
                "skip_tags": primitives.skip_tags,
                "read_tag": primitives.read_tag,
                "bad_count": partial(primitives.bad_count, max_elements),
                "bad_null": primitives.bad_null,
                "bad_length": primitives.bad_length,
                "bad_tag": primitives.bad_tag,
                "too_many_tags": primitives.too_many_tags,
            }
        )
        self._run: list[tuple[str, str]] = []  # fixed-size reads not written yet: (format, target)
        self._after_run: list[str] = []

    def build(self) -> Any:
        """Write the source of the function, and compile it."""
        source = self._source
        with source.block("def decode(buf, pos):"):
            source.line("limit = len(buf); start = pos")
            message = self._body()
            source.line(f"return {message}, pos")
        return source.compile("decode", f"<decoder of {self._cls.__qualname__} v{self._version}>")

    def _body(self) -> str:
        """Read the message into a new variable; returns its name."""
        source = self._source
        source.line(f"left = {self._max_elements}; tags = {primitives.MAX_UNKNOWN_TAGS}")
        with source.block("try:"):
            message = self._struct(self._cls)
            self._flush()
        with source.block("except out_of_bytes:"):
            source.line("ends_early(limit - start)")
        source.line("if pos > limit: lacks_bytes(pos - limit)")
        return message

    def _struct(self, struct: type[Struct]) -> str:
        """Read a struct into a new variable; returns its name."""
        target = self._source.name("m")
        self._source.line(f"{target} = new({self._source.constant('C', struct)})")
        untagged, tagged = fields_of_version(struct, self._version)
        for field in untagged:
            self._field(field, f"{target}.{field.name}")
        if self._flexible:
            self._tagged_fields(target, tagged)
        return target

    def _field(self, field: FieldSpec, target: str) -> None:
        if field.is_array:
            self._array(field, target)
        elif field.struct is not None:
            self._struct_field(field, field.struct, target)
        elif field.type_name in FIXED_FORMATS:
            self._run.append((FIXED_FORMATS[field.type_name], target))
        elif field.type_name == "uuid":
            raw = self._source.name("u")
            self._run.append(("16s", raw))
            self._after_run.append(f"{target} = uuid({raw})")
        else:
            self._bytes_like(field, target, self._version in field.nullable)

    def _struct_field(self, field: FieldSpec, struct: type[Struct], target: str) -> None:
        if self._version not in field.nullable:
            self._source.line(f"{target} = {self._struct(struct)}")
            return
        self._run.append(("b", "n"))
        self._flush()
        self._source.line(f"{target} = None")
        with self._source.block("if n >= 0:" if field.tag is None else "if n > 0:"):
            value = self._struct(struct)
            self._flush()
            self._source.line(f"{target} = {value}")

    def _bytes_like(self, field: FieldSpec, target: str, nullable: bool) -> None:
        """string, bytes or records: a length, then that many bytes."""
        value = {
            "string": "str(buf[pos:end], 'utf-8', 'replace')",
            "bytes": "bytes(buf[pos:end])",
            "records": "buf[pos:end]",
        }[field.type_name]
        if self._flexible:
            self._uvarint("n", "string_size" if field.type_name == "string" else "uvarint")
            null, refuse, length = "not n", f"bad_null({field.name!r})", "n - 1"
        else:
            self._run.append(("h" if field.type_name == "string" else "i", "n"))
            self._flush()
            null, refuse, length = "n < 0", f"bad_length({field.name!r}, n)", "n"
        read = f"end = pos + {length}; {target} = {value}; pos = end"
        if not nullable:
            self._source.line(f"if {null}: {refuse}")
            self._source.line(read)
            return
        with self._source.block(f"if {null}:"):
            if not self._flexible:
                self._source.line(f"if n != -1: {refuse}")
            self._source.line(f"{target} = None")
        with self._source.block("else:"):
            self._source.line(read)

    def _array(self, field: FieldSpec, target: str) -> None:
        if self._flexible:
            self._uvarint("n")
            null, count = "not n", "n -= 1"
        else:
            self._run.append(("i", "n"))
            self._flush()
            null, count = "n < 0", ""  # any negative count is a null, as in Kafka
        if self._version not in field.nullable:
            self._source.line(f"if {null}: bad_null({field.name!r})")
            self._elements(field, target, count)
            return
        self._source.line(f"if {null}: {target} = None")
        with self._source.block("else:"):
            self._elements(field, target, count)

    def _elements(self, field: FieldSpec, target: str, count: str) -> None:
        if count:
            self._source.line(count)
        size = smallest_element(field, self._version, self._flexible)
        needed = f"n * {size}" if size > 1 else "n" if size else "0"
        self._source.line("left -= n")
        self._source.line(
            f"if {needed} > limit - pos or left < 0: "
            f"bad_count({field.name!r}, n, limit - pos, {needed} <= limit - pos)"
        )
        if field.type_name in FIXED_SIZES:
            letter = FIXED_FORMATS[field.type_name]
            self._source.line(
                f"{target} = list(unpack_from(f'>{{n}}{letter}', buf, pos)); pos += n * {size}"
            )
            return
        add = self._source.name("a")
        self._source.line(f"{target} = {add} = []; {add} = {add}.append")
        with self._source.block("for _ in range(n):"):
            if field.struct is not None:
                element = self._struct(field.struct)
                self._flush()
            else:
                element = self._source.name("e")
                self._field(
                    field._replace(is_array=False, nullable=field.nullable._replace(highest=-1)),
                    element,
                )
                self._flush()
            self._source.line(f"{add}({element})")
            self._end_element()

    def _end_element(self) -> None:
        """Write what is done after each element of an array."""

    def _tagged_fields(self, target: str, tagged: list[FieldSpec]) -> None:
        self._run.append(("B", "t"))
        self._flush()
        with self._source.block("if t:"):
            self._source.line("if t > 127: t, pos = uvarint(buf, pos - 1)")
            if not tagged:
                self._source.line("pos, tags = skip_tags(buf, pos, limit, t, tags)")
                return
            last, stop = self._source.name("g"), self._source.name("z")
            self._source.line(f"{last} = -1")
            with self._source.block("for _ in range(t):"):
                self._source.line(f"{last}, pos, {stop} = read_tag(buf, pos, limit, {last})")
                self._tag_choices(target, tagged, last, stop)

    def _tag_choices(self, target: str, tagged: list[FieldSpec], last: str, stop: str) -> None:
        keyword = "if"
        for field in tagged:
            with self._source.block(f"{keyword} {last} == {field.tag}:"):
                self._field(field, f"{target}.{field.name}")
                self._flush()
                self._source.line(f"if pos != {stop}: bad_tag({field.name!r})")
            keyword = "elif"
        with self._source.block("else:"):
            self._source.line(f"pos = {stop}; tags -= 1")
            self._source.line("if tags < 0: too_many_tags()")

    def _uvarint(self, target: str, reader: str = "uvarint") -> None:
        """Read an unsigned varint: its first byte with the fields before it, more if there is."""
        self._run.append(("B", target))
        self._flush()
        self._source.line(f"if {target} > 127: {target}, pos = {reader}(buf, pos - 1)")

    def _flush(self) -> None:
        """Write the fixed-size reads that have gathered."""
        if self._run:
            layout = ">" + "".join(letter for letter, _ in self._run)
            targets = ", ".join(target for _, target in self._run)
            if layout == ">B":
                self._source.line(f"{targets} = buf[pos]; pos += 1")
            else:
                read = self._source.constant("S", primitives.packer(layout).unpack_from)
                comma = "," if len(self._run) == 1 else ""
                self._source.line(f"{targets}{comma} = {read}(buf, pos); pos += {calcsize(layout)}")
        for line in self._after_run:
            self._source.line(line)
        self._run.clear()
        self._after_run.clear()
