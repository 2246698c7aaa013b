"""Where an error code goes in a response, and which ones stand in it: worked out from the
declarations of request and response.

Law: a whole-request error never raises here, whatever the request holds, because the client waits
for an answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from kbroker.protocol.declaration import FieldSpec, Struct, field_specs

CODE_FIELDS = frozenset(
    {"error_code", "partition_error_code"}
)  # the second in AddPartitionsToTxn alone
_ERROR = CODE_FIELDS | {"error_message"}
_IDENTITY = frozenset(
    {
        "name",
        "topic",
        "topic_id",
        "partition_index",
        "index",
        "group_id",
        "resource_type",
        "resource_name",
    }
)  # what an entry of a request and the entry that answers it have in common


class _Named(NamedTuple):
    name: str
    type_name: str


class _Shape(NamedTuple):
    """A struct in one version."""

    fields: list[FieldSpec]
    names_and_numbers: list[_Named]
    first_array: FieldSpec | None
    has_code: bool  # of its own
    answers: FieldSpec | None  # the array whose entries have a place for an error


def fill_error(request: Struct, response: Struct, version: int, values: Mapping[str, Any]) -> None:
    """Put `values` (error_code, error_message, ...) into `response` wherever `version` has a place
    for them.

    With an own error code that is enough. Without one, the response's array is filled with one
    entry for each entry of the request's array that names the same things (topics and their
    partitions, groups, resources).
    """
    shape = _shape(type(response), version)
    for field in shape.fields:
        name = "error_code" if field.name in CODE_FIELDS else field.name
        if name in values:
            setattr(response, field.name, values[name])
    target, source = shape.answers, _shape(type(request), version).first_array
    if shape.has_code or target is None or source is None or target.struct is None:
        return
    entries = getattr(request, source.name) or ()
    setattr(
        response, target.name, [_entry(entry, target.struct, version, values) for entry in entries]
    )


def error_codes(response: Struct) -> Iterator[int]:
    """Every error code in a response: its own, then those of its entries."""
    for name, is_code in _places_of_codes(type(response)):  # type: ignore[arg-type]
        if is_code:
            yield getattr(response, name)
            continue
        for entry in getattr(response, name) or ():
            yield from error_codes(entry)


@cache
def _places_of_codes(struct: type[Struct]) -> list[tuple[str, bool]]:
    """Return the fields that hold a code (True), or entries that may hold some."""
    return [
        (field.name, field.name in CODE_FIELDS)
        for field in field_specs(struct)
        if field.name in CODE_FIELDS or (field.struct is not None and field.is_array)
    ]


def _entry(entry: Any, struct: type[Struct], version: int, values: Mapping[str, Any]) -> Struct:
    """One entry of the response: named as the request's entry is, then filled with the error."""
    result = struct()
    if isinstance(entry, Struct):
        _copy_identity(entry, result, version)
        fill_error(entry, result, version, values)
        return result
    kind = "string" if isinstance(entry, str) else "int32"
    named = next(
        (field for field in _shape(struct, version).names_and_numbers if field.type_name == kind),
        None,
    )
    if named is not None:
        setattr(result, named.name, entry)
    fill_error(result, result, version, values)
    return result


def _copy_identity(entry: Struct, result: Struct, version: int) -> None:
    """Names, ids and indexes: those of equal name, else the first field of equal type."""
    sources = _shape(type(entry), version).names_and_numbers
    targets = _shape(type(result), version).names_and_numbers
    same = [field for field in targets if field.name in _IDENTITY and field in sources]
    for field in same:
        value = getattr(entry, field.name)
        if value is not None:  # a topic asked for by id has no name, and the answer may need one
            setattr(result, field.name, value)
    if not same and sources and targets and sources[0].type_name == targets[0].type_name:
        setattr(result, targets[0].name, getattr(entry, sources[0].name))


def _shape(struct: type[Struct], version: int) -> _Shape:
    """Return what a struct is in a version; asked for with each entry of a request."""
    return _worked_out(struct, version)  # type: ignore[arg-type]  # a class has a hash


@cache
def _worked_out(struct: type[Struct], version: int) -> _Shape:
    fields = [spec for spec in field_specs(struct) if version in spec.versions]
    return _Shape(
        fields=fields,
        names_and_numbers=[
            _Named(field.name, field.type_name)
            for field in fields
            if field.struct is None and not field.is_array and field.name not in _ERROR
        ],
        first_array=next((field for field in fields if field.is_array), None),
        has_code=any(field.name in CODE_FIELDS for field in fields),
        answers=next((field for field in fields if _has_places(field, version)), None),
    )


def _has_places(field: FieldSpec, version: int) -> bool:
    """Whether this is an array whose entries have a place for an error."""
    if field.struct is None or not field.is_array:
        return False
    shape = _shape(field.struct, version)
    return shape.has_code or shape.answers is not None
