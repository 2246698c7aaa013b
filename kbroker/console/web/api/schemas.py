"""JSON Schemas of types, as OpenAPI 3.1 has them: dataclasses and named tuples are components, with
what their docstrings say. Pure.
"""

from __future__ import annotations

import dataclasses
import inspect
import types
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from typing import Any, Final, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from kbroker.console.web.api.bodies import has_default

_SIMPLE: Final[Mapping[Any, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    bytes: {"type": "string", "contentEncoding": "base64"},
    UUID: {"type": "string", "format": "uuid"},
    type(None): {"type": "null"},
    Any: {},
}


class Schemas:
    """The components of one document, which grow as types are met. Of what is sent (`of_bodies`)
    fields with a default may be missing, of what is answered none is.
    """

    def __init__(
        self, components: dict[str, Any] | None = None, *, of_bodies: bool = False
    ) -> None:
        self.components = {} if components is None else components
        self._of_bodies = of_bodies

    def of(self, kind: Any) -> dict[str, Any]:
        """Return the schema of a type."""
        if kind in _SIMPLE:
            return dict(_SIMPLE[kind])
        arguments = get_args(kind)
        origin = get_origin(kind)
        if origin in (Union, types.UnionType):
            return {"anyOf": [self.of(each) for each in arguments]}
        if inspect.isclass(origin) and _has_fields(origin):
            return self._component(origin, dict(zip(_parameters(origin), arguments, strict=True)))
        if inspect.isclass(origin) and issubclass(origin, Mapping):
            return {"type": "object", "additionalProperties": self.of(arguments[1])}
        if inspect.isclass(origin) and issubclass(origin, Sequence | AbstractSet):
            return self._list(arguments)
        if issubclass(kind, Enum):
            return {"enum": [each.value for each in kind]}
        return self._component(kind, {})

    def _list(self, arguments: tuple[Any, ...]) -> dict[str, Any]:
        items = [each for each in arguments if each is not Ellipsis]
        if Ellipsis in arguments or len(items) == 1:
            return {"type": "array", "items": self.of(items[0])}
        return {
            "type": "array",
            "prefixItems": [self.of(each) for each in items],
            "minItems": len(items),
            "maxItems": len(items),
        }

    def _component(self, made: type, bound: Mapping[Any, Any]) -> dict[str, Any]:
        name = "".join([made.__name__, *(each.__name__ for each in bound.values())])
        if name not in self.components:
            self.components[name] = {}  # one that holds itself finds its name
            hints = get_type_hints(made)
            self.components[name] = {
                "type": "object",
                "description": " ".join((inspect.getdoc(made) or "").split()),
                "properties": {each: self.of(_bound(hints[each], bound)) for each in _names(made)},
                "required": _needed(made) if self._of_bodies else list(_names(made)),
            }
        return {"$ref": f"#/components/schemas/{name}"}


def _has_fields(kind: type) -> bool:
    return dataclasses.is_dataclass(kind) or hasattr(kind, "_fields")


def _names(kind: Any) -> tuple[str, ...]:
    if dataclasses.is_dataclass(kind):
        return tuple(each.name for each in dataclasses.fields(kind))
    return tuple(kind._fields)


def _needed(kind: Any) -> list[str]:
    return [each.name for each in dataclasses.fields(kind) if not has_default(each)]


def _parameters(kind: Any) -> tuple[Any, ...]:
    return tuple(kind.__parameters__)


def _bound(hint: Any, bound: Mapping[Any, Any]) -> Any:
    """Return a type with its variables replaced."""
    if hint in bound:
        return bound[hint]
    parameters = getattr(hint, "__parameters__", ())
    return hint[tuple(bound[each] for each in parameters)] if parameters else hint
