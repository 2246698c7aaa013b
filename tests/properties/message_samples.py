"""Messages made from their declarations, with values picked by a seeded generator."""

from __future__ import annotations

from random import Random
from typing import Any
from uuid import UUID

from kbroker.model import ZERO_UUID
from kbroker.protocol.schema import FieldSpec, Message, Struct, field_specs
from tests.golden.wire.declared_messages import all_messages

TEXTS = [
    "",
    "a",
    "orders",
    "payments.v2",
    "größe",
    "主题",
    "\N{ROCKET}",
    "x" * 126,
    "y" * 127,
    "z" * 600,
]
BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


def versions_of(cls: type[Message]) -> range:
    """All versions of a message class."""
    return range(cls.spec.versions.lowest, cls.spec.versions.highest + 1)


def every_version() -> list[tuple[type[Message], int]]:
    """Each declared message class with each of its versions."""
    return [(cls, version) for cls in all_messages() for version in versions_of(cls)]


def random_struct(cls: type[Any], version: int, random: Random) -> Any:
    """An object of a declared class with random values in the fields that the version has."""
    made = cls()
    for field in field_specs(cls):
        if version in field.versions and random.random() < 0.9:
            setattr(made, field.name, _random_field(field, version, random))
    return made


def _random_field(field: FieldSpec, version: int, random: Random) -> Any:
    if version in field.nullable and random.random() < 0.25:
        return None
    if field.is_array:
        count = random.choice((0, 1, 1, 2, 3))
        return [_random_value(field, version, random) for _ in range(count)]
    return _random_value(field, version, random)


def _random_value(field: FieldSpec, version: int, random: Random) -> Any:
    if field.struct is not None:
        return random_struct(field.struct, version, random)
    if field.name == "error_code" or field.name.endswith("_error_code"):
        return random.randrange(-1, 120)  # other programs read codes into an enumeration
    if field.type_name == "int64" and ("timestamp" in field.name or field.name.endswith("_ms")):
        return random.choice((field.default, random.randrange(2**41)))  # and times into dates
    if field.type_name in BITS:
        bits = random.choice((4, 8, BITS[field.type_name]))
        bits = min(bits, BITS[field.type_name])
        return random.randrange(-(2 ** (bits - 1)), 2 ** (bits - 1))
    return _random_other(field.type_name, random)


def _random_other(type_name: str, random: Random) -> Any:
    match type_name:
        case "bool":
            return random.random() < 0.5
        case "uuid":
            return random.choice((ZERO_UUID, UUID(int=random.getrandbits(128))))
        case "string":
            return random.choice(TEXTS)
        case "bytes":
            return random.randbytes(random.choice((0, 1, 20, 200)))
        case "records":
            return memoryview(random.randbytes(random.choice((0, 1, 100, 5000))))
        case "uint16" | "uint32":
            return random.getrandbits(int(type_name[4:]))
        case _:
            return random.random()


__all__ = ["Struct", "every_version", "random_struct"]
