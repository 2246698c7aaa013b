"""Where an error code goes in a response, and which ones stand in it: worked out from the
declarations of request and response.

Law: a whole-request error never raises here, whatever the request holds, because the client waits
for an answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from kbroker.protocol.declaration import FieldSpec, Struct, field_specs

_CODES = frozenset({"error_code", "partition_error_code"})  # the second in AddPartitionsToTxn alone
_ERROR = _CODES | {"error_message"}
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


def fill_error(request: Struct, response: Struct, version: int, values: Mapping[str, Any]) -> None:
    """Put `values` (error_code, error_message, ...) into `response` wherever `version` has a place
    for them.

    With an own error code that is enough. Without one, the response's array is filled with one
    entry for each entry of the request's array that names the same things (topics and their
    partitions, groups, resources).
    """
    fields = _fields(type(response), version)
    for field in fields:
        name = "error_code" if field.name in _CODES else field.name
        if name in values:
            setattr(response, field.name, values[name])
    if any(field.name in _CODES for field in fields):
        return
    target = next(
        (
            f
            for f in fields
            if f.struct is not None and f.is_array and _has_error(f.struct, version)
        ),
        None,
    )
    source = _source_array(request, version, target)
    if target is None or source is None or target.struct is None:
        return
    entries = getattr(request, source.name) or ()
    setattr(
        response, target.name, [_entry(entry, target.struct, version, values) for entry in entries]
    )


def error_codes(response: Struct) -> Iterator[int]:
    """Every error code in a response: its own, then those of its entries."""
    for field in field_specs(type(response)):
        value = getattr(response, field.name)
        if field.name in _CODES:
            yield value
        elif field.struct is not None and field.is_array:
            for entry in value or ():
                yield from error_codes(entry)


def _entry(entry: Any, struct: type[Struct], version: int, values: Mapping[str, Any]) -> Struct:
    """One entry of the response: named as the request's entry is, then filled with the error."""
    result = struct()
    if isinstance(entry, Struct):
        _copy_identity(entry, result, version)
        fill_error(entry, result, version, values)
        return result
    kind = "string" if isinstance(entry, str) else "int32"
    named = next(
        (field for field in _names_and_numbers(struct, version) if field.type_name == kind), None
    )
    if named is not None:
        setattr(result, named.name, entry)
    fill_error(result, result, version, values)
    return result


def _copy_identity(entry: Struct, result: Struct, version: int) -> None:
    """Names, ids and indexes: those of equal name, else the first field of equal type."""
    sources = _names_and_numbers(type(entry), version)
    targets = _names_and_numbers(type(result), version)
    same = [field for field in targets if field.name in _IDENTITY and field in sources]
    for field in same:
        value = getattr(entry, field.name)
        if value is not None:  # a topic asked for by id has no name, and the answer may need one
            setattr(result, field.name, value)
    if not same and sources and targets and sources[0].type_name == targets[0].type_name:
        setattr(result, targets[0].name, getattr(entry, sources[0].name))


def _names_and_numbers(struct: type[Struct], version: int) -> list[_Named]:
    return [
        _Named(field.name, field.type_name)
        for field in _fields(struct, version)
        if field.struct is None and not field.is_array and field.name not in _ERROR
    ]


def _source_array(request: Struct, version: int, target: FieldSpec | None) -> FieldSpec | None:
    """The request's array that the response's array answers: the first one that the version has."""
    if target is None:
        return None
    return next((f for f in _fields(type(request), version) if f.is_array), None)


def _has_error(struct: type[Struct], version: int) -> bool:
    fields = _fields(struct, version)
    if any(field.name in _CODES for field in fields):
        return True
    return any(
        field.struct is not None and field.is_array and _has_error(field.struct, version)
        for field in fields
    )


def _fields(struct: type[Struct], version: int) -> list[FieldSpec]:
    specs: Iterable[FieldSpec] = field_specs(struct)
    return [spec for spec in specs if version in spec.versions]
