"""Python source under construction: lines, indentation, constants.

Shared by the decoder's and the encoder's generator.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kbroker.protocol.declaration import FieldSpec, Struct, field_specs

FIXED_FORMATS = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
}  # struct format characters; uuid ("16s") is fixed too but needs a conversion
FIXED_SIZES = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "uint16": 2,
    "int32": 4,
    "uint32": 4,
    "int64": 8,
    "float64": 8,
}


class PythonSource:
    """Lines of one function, and the values it refers to by name."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self.namespace = namespace
        self._lines: list[str] = []
        self._indent = 0
        self._names = 0

    def name(self, prefix: str) -> str:
        """A name that is not taken yet."""
        self._names += 1
        return f"{prefix}{self._names}"

    def constant(self, prefix: str, value: Any) -> str:
        """Make a value reachable from the generated code; returns its name."""
        for name, known in self.namespace.items():
            if known is value:
                return name
        name = self.name(prefix)
        self.namespace[name] = value
        return name

    def line(self, text: str) -> None:
        self._lines.append(" " * self._indent + text)

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        """Indent what is added inside."""
        self.line(header)
        self._indent += 1
        yield
        self._indent -= 1

    def compile(self, function: str, filename: str) -> Any:
        """Run the source; returns the function of that name."""
        exec(compile("\n".join(self._lines), filename, "exec"), self.namespace)  # noqa: S102 - made from declarations
        return self.namespace[function]


def fields_of_version(
    struct: type[Struct], version: int
) -> tuple[list[FieldSpec], list[FieldSpec]]:
    """The fields that a version has: (untagged in wire order, tagged by ascending tag)."""
    present = [field for field in field_specs(struct) if version in field.versions]
    tagged = [field for field in present if field.tag is not None]
    return [field for field in present if field.tag is None], sorted(
        tagged, key=lambda field: field.tag or 0
    )


def smallest_size(struct: type[Struct], version: int, flexible: bool) -> int:
    """Bytes that the shortest encoding of a struct takes."""
    untagged, _ = fields_of_version(struct, version)
    return sum(_smallest_field(field, version, flexible) for field in untagged) + flexible


def _smallest_field(field: FieldSpec, version: int, flexible: bool) -> int:
    if field.is_array:
        return 1 if flexible else 4
    return smallest_element(field, version, flexible)


def smallest_element(field: FieldSpec, version: int, flexible: bool) -> int:
    """Bytes that the shortest element of an array, or shortest value of a plain field, takes."""
    if field.struct is not None:
        return (
            1
            if version in field.nullable and not field.is_array
            else smallest_size(field.struct, version, flexible)
        )
    if field.type_name == "uuid":
        return 16
    if field.type_name in FIXED_SIZES:
        return FIXED_SIZES[field.type_name]
    if flexible:
        return 1
    return 2 if field.type_name == "string" else 4
