"""A right request with one field changed: each number at its edges, each text unknown, empty, too long
or null, each list empty, null or with an element twice, whatever the schema of a version has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING as NO_DEFAULT
from dataclasses import fields
from typing import Any
from uuid import UUID

from compat_tests.answers.parts import INT8, INT16, INT32, INT64, MISSING, UNKNOWN_ID, Path, Values
from compat_tests.clients.raw_connection import array_element, default_of, is_nullable

STRANGE, LONG = "a b", "long" * 65  # one is no name of a topic, the other has more than 249 letters
TEXTS = {"unknown": MISSING, "empty": "", "with a space": STRANGE, "too long": LONG}
_TOPS = {"int8": INT8, "int16": INT16, "int32": INT32, "int64": INT64}
_TOPS |= {"timedelta_i32": INT32, "timedelta_i64": 10**15}  # Python knows no longer time

Variation = tuple[Path, str, Values]


def fitted(schema: Any, values: Values) -> Values:
    """Of values for all versions of a request, those that a version has."""
    found: Values = {}
    for each in fields(schema):
        if each.name not in values:
            continue
        value, element = values[each.name], array_element(schema, each.name)
        if element is not None and value is not None:
            value = [fitted(element, one) if isinstance(one, dict) else one for one in value]
        found[each.name] = value
    return found


def variations(schema: Any, values: Values) -> Iterator[Variation]:
    """(path of the field, what it is, whole request) for each field of a request."""
    for each in fields(schema):
        present = values.get(each.name)
        if each.name not in values:
            present = default_of(schema, each) if each.default is NO_DEFAULT else each.default
        for path, shown, value in _of_field(schema, each, present):
            yield (each.name, *path), shown, {**values, each.name: value}


def _of_field(schema: Any, each: Any, present: Any) -> Iterator[tuple[Path, str, Any]]:
    if is_nullable(schema, each.name) and present is not None:
        yield (), "null", None
    kind = str(each.metadata.get("kafka_type"))
    if array_element(schema, each.name) is not None:
        yield from _of_array(array_element(schema, each.name), kind, list(present or ()))
    else:
        yield from (((), shown, value) for shown, value in _of_kind(kind, present))


def _of_array(element: Any, kind: str, present: list[Any]) -> Iterator[tuple[Path, str, Any]]:
    if not present:
        return
    yield (), "nothing", []
    yield (), "one twice", [present[0], present[0], *present[1:]]
    if isinstance(present[0], dict):
        for path, shown, value in variations(element, present[0]):
            yield path, shown, [value, *present[1:]]
    else:
        for shown, value in _of_kind(kind, present[0]):
            yield (), f"[{shown}]", [value, *present[1:]]


def _of_kind(kind: str, present: Any) -> Iterator[tuple[str, Any]]:
    if kind in _TOPS:
        for number in (-_TOPS[kind] - 1, -2, -1, 0, 1, 2, _TOPS[kind]):
            if number != present:
                yield str(number), number
    elif kind == "string":
        yield from ((shown, text) for shown, text in TEXTS.items() if text != present)
    elif kind == "bool":
        yield str(not present), not present
    elif kind == "bytes":
        yield from (("no bytes", b""), ("two bytes", b"\0\1"))
    elif kind == "uuid":
        yield from (("zero", UUID(int=0)), ("unknown", UNKNOWN_ID))
