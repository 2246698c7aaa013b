"""Bodies of the API: JSON to a value of a declared type.

Law: what does not fit is refused with the place where it does not, and a field that the type lacks
is never ignored. Pure.
"""

from __future__ import annotations

import dataclasses
import json
import types
from collections.abc import Mapping, Sequence
from typing import Any, Union, get_args, get_origin, get_type_hints

_NAMES = {str: "a text", int: "a whole number", bool: "true or false"}


def body_of(kind: type, body: bytes) -> Any:
    """Return a body as a dataclass of texts, whole numbers and booleans, of lists and objects of
    these, and of other dataclasses. Raises ValueError with a sentence.
    """
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the body is not JSON: {error}") from error
    return _made(kind, value, "the body")


def _made(kind: Any, value: Any, place: str) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        if value is None:
            return None
        (kind,) = (each for each in arguments if each is not type(None))
        return _made(kind, value, place)
    if dataclasses.is_dataclass(kind):
        return _object(kind, _checked(value, dict, place, "an object"), place)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        _checked(value, dict, place, "an object")
        return {key: _made(arguments[1], each, f"{place}.{key}") for key, each in value.items()}
    if isinstance(origin, type) and issubclass(origin, Sequence):
        _checked(value, list, place, "a list")
        return tuple(_made(arguments[0], each, f"{place}[{n}]") for n, each in enumerate(value))
    return _checked(value, kind, place, _NAMES[kind])


def _object(kind: Any, value: dict[str, Any], place: str) -> Any:
    hints = get_type_hints(kind)
    unknown = [name for name in value if name not in hints]
    if unknown:
        there = ", ".join(hints)
        raise ValueError(f"{place} has no field {unknown[0][:100]!a}; there are {there}")
    needed = [each.name for each in dataclasses.fields(kind) if not has_default(each)]
    missing = [name for name in needed if name not in value]
    if missing:
        raise ValueError(f"{place} lacks the field {missing[0]}")
    return kind(**{name: _made(hints[name], each, name) for name, each in value.items()})


def has_default(field: dataclasses.Field[Any]) -> bool:
    """Whether a body may lack this field."""
    return not (
        field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    )


def _checked(value: Any, kind: type, place: str, name: str) -> Any:
    if type(value) is not kind:  # a boolean is a number of Python's
        raise ValueError(f"{place} is {name}, and not {json.dumps(value)[:100]}")
    return value
