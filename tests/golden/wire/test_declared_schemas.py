"""The declarations say what the schemas of Apache Kafka 3.9 and 4.4 say, version by version."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kbroker.protocol.messages import all_messages
from kbroker.protocol.schema import Message, Struct, Versions, field_specs

SCHEMAS = Path(__file__).with_name("schemas.json.gz")
ZEROS = {
    "bool": False,
    "float64": 0.0,
    "uuid": UUID(int=0),
    "string": "",
    "bytes": b"",
    "records": None,
}


@cache
def schemas() -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = json.loads(gzip.decompress(SCHEMAS.read_bytes()))
    return found


@cache
def declared() -> dict[str, type[Message]]:
    return {cls.__name__: cls for cls in all_messages()}


def cases() -> Iterator[Any]:
    for release, messages in schemas().items():
        for schema in messages:
            versions = Versions.parse(schema["validVersions"])
            for version in range(versions.lowest, versions.highest + 1):
                yield pytest.param(schema, version, id=f"{release}-{schema['name']}-v{version}")


def snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.replace("KRaft", "Kraft")).lower()


def schema_default(field: dict[str, Any], is_nullable: bool) -> Any:
    default = field.get("default", "")
    if default in ("null", None):
        return None
    if field["type"].startswith("[]"):
        return []
    if field["type"][0].isupper():
        return ...
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


@pytest.mark.parametrize(("schema", "version"), list(cases()))
def test_declaration_agrees_with_schema(schema: dict[str, Any], version: int) -> None:
    cls = declared()[schema["name"]]

    assert cls.spec.key == schema["apiKey"]
    assert version in cls.spec.versions
    assert (version in cls.spec.flexible) == (version in Versions.parse(schema["flexibleVersions"]))
    assert fields_of_declaration(cls, version) == fields_of_schema(
        schema["fields"], version, schema["commonStructs"]
    )


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
