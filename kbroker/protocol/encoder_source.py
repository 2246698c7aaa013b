"""Writes the encoder of one message version as Python source.

The generated function gathers small byte strings and joins them once; neighbouring fixed-size
fields, lengths of the old formats and empty tag sections are packed by one precompiled
`struct.Struct`. Records stay pieces of their own.
"""

from __future__ import annotations

from typing import Any

from kbroker.protocol import primitives
from kbroker.protocol.codec_source import FIXED_FORMATS, PythonSource, fields_of_version
from kbroker.protocol.declaration import FieldSpec, Struct, field_specs


class EncoderSource:
    """Builds `encode(message, head) -> pieces` for one class and version; `head` goes first."""

    def __init__(self, cls: type[Struct], version: int, flexible: bool) -> None:
        self._cls = cls
        self._version = version
        self._flexible = flexible
        self._source = PythonSource(
            {"uvarint": primitives.write_uvarint, "short": primitives.UVARINT_BYTES}
        )
        self._run: list[
            tuple[str, str]
        ] = []  # fixed-size values not written yet: (format, expression)
        self._write = "w"

    def build(self) -> Any:
        """Write the source of the function, and compile it."""
        source = self._source
        with source.block("def encode(m, head):"):
            source.line("out = [head]; w = out.append; pieces = []")
            self._struct(self._cls, "m")
            self._flush()
            source.line("if out: pieces.append(b''.join(out))")
            source.line("return pieces")
        return source.compile("encode", f"<encoder of {self._cls.__qualname__} v{self._version}>")

    def _struct(self, struct: type[Struct], value: str) -> None:
        untagged, tagged = fields_of_version(struct, self._version)
        for field in untagged:
            self._field(field, f"{value}.{field.name}")
        if self._flexible and tagged:
            self._tagged_fields(value, tagged)
        elif self._flexible:
            self._run.append(("x", ""))

    def _field(self, field: FieldSpec, value: str) -> None:
        if field.is_array:
            self._array(field, value)
        elif field.struct is not None:
            self._struct_field(field, field.struct, value)
        elif field.type_name in FIXED_FORMATS:
            self._run.append((FIXED_FORMATS[field.type_name], value))
        elif field.type_name == "uuid":
            self._run.append(("16s", f"{value}.bytes"))
        else:
            self._bytes_like(field, value)

    def _struct_field(self, field: FieldSpec, struct: type[Struct], value: str) -> None:
        inner = self._source.name("m")
        self._source.line(f"{inner} = {value}")
        if self._version not in field.nullable:
            self._struct(struct, inner)
            return
        self._flush()
        null = b"\xff" if field.tag is None else b"\0"
        self._source.line(f"if {inner} is None: {self._write}({null!r})")
        with self._source.block("else:"):
            self._source.line(f"{self._write}(b'\\x01')")
            self._struct(struct, inner)
            self._flush()

    def _bytes_like(self, field: FieldSpec, value: str) -> None:
        """string, bytes or records: a length, then the bytes."""
        nullable = self._version in field.nullable
        data = self._source.name("b")
        encoded = value if field.type_name != "string" else self._text(field, value)
        if nullable and field.type_name == "string":
            encoded = f"None if {value} is None else {encoded}"
        self._source.line(f"{data} = {encoded}")
        if self._flexible:
            self._flush()
            if nullable:
                self._source.line(f"if {data} is None: {self._write}(b'\\0')")
                with self._source.block("else:"):
                    self._uvarint(f"len({data}) + 1")
                    self._content(field, data)
                return
            self._uvarint(f"len({data}) + 1")
            self._content(field, data)
            return
        length = f"-1 if {data} is None else len({data})" if nullable else f"len({data})"
        self._run.append(("h" if field.type_name == "string" else "i", length))
        self._flush()
        self._content(field, data)

    def _text(self, field: FieldSpec, value: str) -> str:
        if field.name.endswith("error_message"):
            return f"{self._source.constant('text', primitives.write_text)}({value})"
        return f"{value}.encode('utf-8', 'replace')"

    def _content(self, field: FieldSpec, data: str) -> None:
        if field.type_name != "records":
            self._source.line(f"if {data}: {self._write}({data})")
            return
        with self._source.block(f"if {data} is not None and len({data}):"):
            self._source.line(f"pieces.append(b''.join(out)); pieces.append({data}); out.clear()")

    def _array(self, field: FieldSpec, value: str) -> None:
        items = self._source.name("a")
        nullable = self._version in field.nullable
        self._source.line(f"{items} = {value}")
        if self._flexible:
            self._flush()
            self._uvarint(
                f"0 if {items} is None else len({items}) + 1" if nullable else f"len({items}) + 1"
            )
        else:
            self._run.append(
                ("i", f"-1 if {items} is None else len({items})" if nullable else f"len({items})")
            )
            self._flush()
        if field.type_name in FIXED_FORMATS:
            pack = self._source.constant("pack", primitives.pack_many)
            self._source.line(
                f"if {items}: {self._write}({pack}({FIXED_FORMATS[field.type_name]!r}, {items}))"
            )
            return
        element = self._source.name("m")
        with self._source.block(f"for {element} in {items}{' or ()' if nullable else ''}:"):
            if field.struct is not None:
                self._element(field.struct, element)
            else:
                self._field(
                    field._replace(is_array=False, nullable=field.nullable._replace(highest=-1)),
                    element,
                )
            self._flush()
            self._end_element()

    def _end_element(self) -> None:
        """Write what is done after each element of an array."""
        self._source.line("pass")

    def _element(self, struct: type[Struct], element: str) -> None:
        if any(each.is_array for each in field_specs(struct)):
            self._take_encoded(element)
        self._struct(struct, element)

    def _take_encoded(self, element: str) -> None:
        """Skip an element that was written beforehand. Small ones are not worth the look."""
        encoded = self._source.name("e")
        self._source.line(f"{encoded} = {element}.encoded")
        with self._source.block(f"if {encoded} is not None and {self._version} in {encoded}:"):
            self._source.line(f"{self._write}({encoded}[{self._version}]); continue")

    def _tagged_fields(self, value: str, tagged: list[FieldSpec]) -> None:
        """Write the fields that differ from their default, in ascending order of tags."""
        self._flush()
        count, content = self._source.name("k"), self._source.name("t")
        outer = self._write
        self._source.line(f"{count} = 0; {content} = []")
        for field in tagged:
            with self._source.block(f"if {self._differs(field, value)}:"):
                parts = self._source.name("p")
                self._write = f"{parts}w"
                self._source.line(f"{count} += 1; {parts} = []; {parts}w = {parts}.append")
                self._field(field, f"{value}.{field.name}")
                self._flush()
                self._source.line(f"{parts} = b''.join({parts})")
                self._source.line(
                    f"{content} += (uvarint({field.tag}), uvarint(len({parts})), {parts})"
                )
        self._write = outer
        self._source.line(f"{outer}(uvarint({count}))")
        self._source.line(f"if {count}: {outer}(b''.join({content}))")

    def _differs(self, field: FieldSpec, value: str) -> str:
        """The expression that says whether a tagged field has to be written."""
        attribute = f"{value}.{field.name}"
        if field.default is None:
            return f"{attribute} is not None"
        if field.default is ... and field.struct is not None:
            default = self._source.constant("D", field.struct())
            return f"{field.name!r} in {value}.__dict__ and {attribute} != {default}"
        if field.is_array:
            filled = f"{attribute} != []" if self._version in field.nullable else attribute
            return f"{field.name!r} in {value}.__dict__ and {filled}"
        return f"{attribute} != {self._source.constant('D', field.default)}"

    def _uvarint(self, expression: str) -> None:
        size = self._source.name("n")
        self._source.line(f"{size} = {expression}")
        self._source.line(f"{self._write}(short[{size}] if {size} < 512 else uvarint({size}))")

    def _flush(self) -> None:
        """Write the fixed-size values that have gathered."""
        if not self._run:
            return
        layout = "".join(letter for letter, _ in self._run)
        if layout.strip("x"):
            pack = self._source.constant("S", primitives.packer(">" + layout).pack)
            values = ", ".join(value for letter, value in self._run if letter != "x")
            self._source.line(f"{self._write}({pack}({values}))")
        else:
            self._source.line(f"{self._write}({bytes(len(layout))!r})")
        self._run.clear()
