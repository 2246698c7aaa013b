"""The declarations say what the schemas of Apache Kafka 3.9 and 4.4 say, version by version."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any
from uuid import UUID

import pytest

from kbroker.protocol.codec import decode, encode
from kbroker.protocol.schema import Message, Struct, Versions, field_specs
from tests.golden.wire.declared_messages import all_messages
from tests.golden.wire.schemas import every_version, schemas, snake_case, write
from tests.properties.message_samples import random_struct

ZEROS = {"bool": False, "float64": 0.0, "uuid": UUID(int=0), "string": "", "bytes": b""}
every_message = pytest.mark.parametrize("name", sorted({s["name"] for _, s, _ in every_version()}))


def versions_of(name: str) -> list[tuple[dict[str, Any], int]]:
    """The schema of a message in each release, with each of its versions."""
    return [(schema, version) for _, schema, version in every_version() if schema["name"] == name]


@cache
def declared() -> dict[str, type[Message]]:
    return {cls.__name__: cls for cls in all_messages()}


def schema_default(field: dict[str, Any], is_nullable: bool) -> Any:
    default = field.get("default", "")
    if default in ("null", None):
        return None
    if field["type"].startswith("[]"):
        return []
    if field["type"][0].isupper():
        return ...
    if field["type"] == "records":
        return None if is_nullable else b""
    if default == "":
        return ZEROS.get(field["type"], 0)
    if field["type"] == "bool":
        return str(default).lower() == "true"
    return default if field["type"] == "string" else int(str(default), 0)


def fields_of_schema(
    fields: list[dict[str, Any]], version: int, common: dict[str, list[dict[str, Any]]]
) -> list[Any]:
    rows = []
    for field in fields:
        versions = field.get("versions") or field["taggedVersions"]
        if version not in Versions.parse(versions):
            continue
        is_nullable = version in Versions.parse(field.get("nullableVersions", "none"))
        is_tagged = version in Versions.parse(field.get("taggedVersions", "none"))
        inner = field.get("fields") or common.get(field["type"].removeprefix("[]"), [])
        rows.append(
            (
                snake_case(field["name"]),
                field["type"],
                is_nullable,
                field["tag"] if is_tagged else None,
                schema_default(field, is_nullable),
                fields_of_schema(inner, version, common),
            )
        )
    return rows


def fields_of_declaration(struct: type[Struct], version: int) -> list[Any]:
    return [
        (
            field.name,
            "[]" * field.is_array + field.type_name,
            version in field.nullable,
            field.tag,
            field.default,
            fields_of_declaration(field.struct, version) if field.struct else [],
        )
        for field in field_specs(struct)
        if version in field.versions
    ]


@every_message
def test_declaration_agrees_with_schema(name: str) -> None:
    cls = declared()[name]

    for schema, version in versions_of(name):
        assert cls.spec.key == schema["apiKey"]
        assert version in cls.spec.versions
        is_flexible = version in Versions.parse(schema["flexibleVersions"])
        assert (version in cls.spec.flexible) == is_flexible, version
        assert fields_of_declaration(cls, version) == fields_of_schema(
            schema["fields"], version, schema["commonStructs"]
        ), version


@every_message
def test_bytes_are_those_that_the_schema_asks_for(name: str) -> None:
    cls = declared()[name]

    for schema, version in versions_of(name):
        messages = [random_struct(cls, version, Random(seed)) for seed in range(8)]

        bodies = [write(schema, version, message) for message in messages]

        assert [encode(message, version) for message in messages] == bodies, version
        assert [decode(cls, version, body)[0] for body in bodies] == messages, version


def test_declared_versions_are_the_union_of_both_releases() -> None:
    ranges: dict[str, set[int]] = {}
    for messages in schemas().values():
        for schema in messages:
            versions = Versions.parse(schema["validVersions"])
            ranges.setdefault(schema["name"], set()).update(
                range(versions.lowest, versions.highest + 1)
            )

    union = {name: Versions(min(found), max(found)) for name, found in ranges.items()}

    assert {name: cls.spec.versions for name, cls in declared().items()} == union
