"""Records of groups, and hashes of topics, that Apache Kafka 4.3.1 made of generated values;
`python -m compat_tests.answers.group_records` makes the file anew.
"""

from __future__ import annotations

import base64
import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from kbroker.coordinator.runtime.effects import KeyValue
from kbroker.protocol.declaration import FieldSpec, Struct, field_specs

_FILE = Path(__file__).with_name("groups") / "records-4.3.1.jsonl.gz"

Json = dict[str, Any]


class GoldenRecord(NamedTuple):
    kind: int
    name: str  # Kafka's, without Key or Value
    key: Json
    value: Json
    record: KeyValue


@cache
def lines() -> list[Json]:
    return [json.loads(line) for line in gzip.decompress(_FILE.read_bytes()).splitlines()]


def records() -> list[GoldenRecord]:
    return [
        GoldenRecord(
            line["kind"],
            line["name"],
            line["key"],
            line["value"],
            KeyValue(*(base64.b64decode(line[each]) for each in ("key_bytes", "value_bytes"))),
        )
        for line in lines()
        if "kind" in line
    ]


def embedded(name: str) -> list[tuple[int, Json, bytes]]:
    """Version, value and bytes of a message that members of classic consumer groups send or get."""
    return [
        (line["version"], line["value"], base64.b64decode(line["bytes"]))
        for line in lines()
        if line.get("embedded") == name
    ]


def uuid_of(text: str) -> UUID:
    """An id that Kafka has written."""
    return UUID(bytes=base64.urlsafe_b64decode(text + "=="))


def from_json(cls: type[Struct], fields: Json) -> Struct:
    """The struct that Kafka's JSON of a record means; a name that is not declared is an error."""
    left = dict(fields)
    values = {}
    for field in field_specs(cls):
        name = _camel_case(field.name)
        if name in left:
            values[field.name] = _value(field, left.pop(name))
    assert not left, (cls, left)
    return cls(**values)


def _value(field: FieldSpec, value: Any) -> Any:
    if isinstance(value, list):
        return [_value(field, each) for each in value]
    if value is None:
        return None
    if field.struct is not None:
        return from_json(field.struct, value)
    if field.type_name == "uuid":
        return uuid_of(value)
    return base64.b64decode(value) if field.type_name == "bytes" else value


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(each.title() for each in others)
