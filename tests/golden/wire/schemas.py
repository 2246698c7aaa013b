"""The message schemas of Apache Kafka, and a writer that knows nothing but them.

The writer follows the rules of the schemas field by field, and shares nothing with the codecs it is
held against.
"""

from __future__ import annotations

import gzip
import json
import re
import struct
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from kbroker.protocol.schema import Versions

SCHEMAS = Path(__file__).with_name("schemas.json.gz")
RENAMED = {
    "ListClientMetricsResourcesRequest": "ListConfigResourcesRequest",
    "ListClientMetricsResourcesResponse": "ListConfigResourcesResponse",
}  # messages of Kafka 3.9 that have another name in 4.4, which the declarations follow
RENAMED_FIELDS = {
    ("ListConfigResourcesResponse", "ClientMetricsResources"): "ConfigResources",
    ("ListConfigResourcesResponse", "Name"): "ResourceName",
    ("TxnOffsetCommitRequest", "GenerationId"): "GenerationIdOrMemberEpoch",
    ("VoteRequest", "CandidateEpoch"): "ReplicaEpoch",
    ("VoteRequest", "CandidateId"): "ReplicaId",
    ("VoteRequest", "CandidateDirectoryId"): "ReplicaDirectoryId",
}
RENAMED_TYPES = {"[]ClientMetricsResource": "[]ConfigResource"}
FIXED: dict[str, str] = {
    "bool": ">?",
    "int8": ">b",
    "int16": ">h",
    "uint16": ">H",
    "int32": ">i",
    "uint32": ">I",
    "int64": ">q",
    "float64": ">d",
}

Field = dict[str, Any]
Schema = dict[str, Any]


@cache
def schemas() -> dict[str, list[Schema]]:
    """The schemas of the declared messages, by release, with the names of 4.4."""
    found: dict[str, list[Schema]] = json.loads(gzip.decompress(SCHEMAS.read_bytes()))
    for schema in (schema for messages in found.values() for schema in messages):
        schema["name"] = RENAMED.get(schema["name"], schema["name"])
        for field in _every_field(schema["fields"]):
            field["name"] = RENAMED_FIELDS.get((schema["name"], field["name"]), field["name"])
            field["type"] = RENAMED_TYPES.get(field["type"], field["type"])
    return found


def every_version() -> Iterator[tuple[str, Schema, int]]:
    """(release, schema, version) of all that a release knows."""
    for release, messages in schemas().items():
        for schema in messages:
            versions = Versions.parse(schema["validVersions"])
            for version in range(versions.lowest, versions.highest + 1):
                yield release, schema, version


def snake_case(name: str) -> str:
    """A schema's name as the declarations write it."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.replace("KRaft", "Kraft")).lower()


def write(schema: Schema, version: int, message: Any) -> bytes:
    """The bytes of a message whose attributes are the schema's fields in snake case."""
    return _Writer(schema, version).struct(schema["fields"], message)


class _Writer:
    def __init__(self, schema: Schema, version: int) -> None:
        self._version = version
        self._is_flexible = self._is_in(schema["flexibleVersions"])
        self._common = schema["commonStructs"]

    def struct(self, fields: list[Field], value: Any) -> bytes:
        present = [f for f in fields if self._is_in(f.get("versions") or f["taggedVersions"])]
        tagged = [f for f in present if self._is_in(f.get("taggedVersions", "none"))]
        body = b"".join(self._field(f, value) for f in present if f not in tagged)
        if not self._is_flexible:
            return body
        sections = [
            (f["tag"], self._field(f, value))
            for f in sorted(tagged, key=lambda field: field["tag"])
            if getattr(value, snake_case(f["name"]))
            != getattr(type(value)(), snake_case(f["name"]))
        ]
        head = uvarint(len(sections))
        return body + head + b"".join(uvarint(t) + uvarint(len(b)) + b for t, b in sections)

    def _is_in(self, versions: str) -> bool:
        return self._version in Versions.parse(versions)

    def _field(self, field: Field, owner: Any) -> bytes:
        value = getattr(owner, snake_case(field["name"]))
        kind = field["type"]
        if not kind.startswith("[]"):
            return self._value(field, kind, value)
        if value is None:
            return self._count(None, ">i")
        elements = (self._value({**field, "nullableVersions": "none"}, kind[2:], e) for e in value)
        return self._count(len(value), ">i") + b"".join(elements)

    def _value(self, field: Field, kind: str, value: Any) -> bytes:
        if kind in FIXED:
            return struct.pack(FIXED[kind], value)
        if kind == "uuid":
            return bytes(value.bytes)
        if kind == "string":
            return self._counted(None if value is None else value.encode(), ">h")
        if kind in ("bytes", "records"):
            return self._counted(None if value is None else bytes(value), ">i")
        if value is None:
            return b"\xff"
        mark = b"\x01" if self._is_in(field.get("nullableVersions", "none")) else b""
        return mark + self.struct(field.get("fields") or self._common[kind], value)

    def _counted(self, data: bytes | None, layout: str) -> bytes:
        return self._count(None if data is None else len(data), layout) + (data or b"")

    def _count(self, count: int | None, layout: str) -> bytes:
        number = -1 if count is None else count
        return uvarint(number + 1) if self._is_flexible else struct.pack(layout, number)


def uvarint(number: int) -> bytes:
    """Seven bits a byte, the lowest first."""
    more, low = divmod(number, 128)
    return bytes((low | 128,)) + uvarint(more) if more else bytes((low,))


def _every_field(fields: list[Field]) -> Iterator[Field]:
    for field in fields:
        yield field
        yield from _every_field(field.get("fields", []))
