"""The error codes of an answer, wherever they stand in it."""

from __future__ import annotations

from collections.abc import Iterator

from kbroker.protocol.declaration import Struct


def codes_in(answer: Struct) -> set[int]:
    """All error codes of an answer."""
    return set(_codes(answer))


def _codes(entity: Struct) -> Iterator[int]:
    for declared in entity.declared_fields:
        value = getattr(entity, declared.name)
        if declared.name.endswith("error_code"):
            yield int(value)
        for each in value if isinstance(value, list) else (value,):
            if isinstance(each, Struct):
                yield from _codes(each)
