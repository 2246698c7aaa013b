"""The records of groups as Apache Kafka 4.3.1 writes them, and its hashes of topics, made anew for the
tests of kbroker's:

    python -m compat_tests.answers.group_records

Kafka's own classes make the bytes of generated values, in a JVM; what the values may be is read from the
schemas in its jar. The file holds a line of JSON for each.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from compat_tests.clients.java_clients import java_command, kept_classes
from compat_tests.running.apache_kafka import NEWEST, jars

GOLDEN = Path(__file__).parents[2] / "tests" / "golden" / "groups" / f"records-{NEWEST}.jsonl.gz"
_SCHEMAS = "common/message/"
_OF_COORDINATORS = range(3, 24)  # kinds; those below are older, and have their own tests
_VALUES, _EMBEDDED, _TOPICS, _GROUPS = 10, 4, 160, 40
_LETTERS = "abcXYZ019._-"
_ANY_TEXT = (*_LETTERS, "é", "\uffee", "\U0001f600", " ", ",")
_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}

Json = dict[str, Any]


def questions(schemas: list[Json]) -> Iterator[Json]:
    """The lines that Kafka answers: records, then hashes."""
    for schema in (each for each in schemas if each["type"] == "coordinator-value"):
        kind = schema["apiKey"]
        (key,) = (s for s in schemas if s.get("apiKey") == kind and s["type"] == "coordinator-key")
        for number in range(_VALUES):
            draw = Draw(Random(f"{kind} {number}"), is_empty=number == 0)
            yield {
                "kind": kind,
                "name": schema["name"].removesuffix("Value"),
                "key": draw.struct(key, key["fields"]),
                "value": draw.struct(schema, schema["fields"]),
            }
    for schema in (each for each in schemas if each["type"] == "data"):
        for version in range(4):
            for number in range(_EMBEDDED):
                draw = Draw(Random(f"{version} {number}"), is_empty=number == 0, version=version)
                value = draw.struct(schema, schema["fields"])
                yield {"embedded": schema["name"], "version": version, "value": value}
    for number in range(_TOPICS):
        yield topic(Random(number), number)
    for number in range(_GROUPS):
        random = Random(number)
        names = {word(random, _LETTERS) for _ in range(number)}
        yield {"topics": {name: random.choice((0, integer(random, 64))) for name in sorted(names)}}


class Draw:
    """Values of fields, by their schema; empty ones are the defaults."""

    def __init__(self, random: Random, *, is_empty: bool, version: int = 0) -> None:
        self._random = random
        self._is_empty = is_empty
        self._version = version
        self._count = 0 if is_empty else random.randrange(1, 4)  # of each array

    def struct(self, schema: Json, fields: list[Json]) -> Json:
        """Fields by name; of those with tags, some."""
        found = {}
        for field in fields:
            is_tagged = "tag" in field
            if int(field.get("versions", "0").partition("+")[0]) > self._version:
                continue
            if is_tagged and (self._is_empty or self._random.random() < 0.3):
                continue
            name = field["name"]
            found[name[0].lower() + name[1:]] = self._value(schema, field, field["type"])
        return found

    def _value(self, schema: Json, field: Json, kind: str) -> Any:
        random = self._random
        if "nullableVersions" in field and random.random() < 0.4:
            return None
        if kind.startswith("[]"):
            plain = {key: value for key, value in field.items() if key != "nullableVersions"}
            found: dict[str, Any] = {}
            while len(found) < self._count:
                value = self._value(schema, plain, kind[2:])
                found[json.dumps(value)] = value
            return sorted(found.values(), key=place)
        if kind in _BITS:
            return 0 if self._is_empty else integer(random, _BITS[kind])
        if kind == "uint16":
            return 0 if self._is_empty else random.randrange(1 << 16)
        if kind == "uuid":
            return uuid_text(random.randbytes(16))
        if kind == "bytes":
            return base64.b64encode(random.randbytes(random.randrange(9))).decode()
        if kind == "string":
            return "" if self._is_empty else word(random, _ANY_TEXT)
        inner = field.get("fields")
        if inner is None:
            (inner,) = (s["fields"] for s in schema["commonStructs"] if s["name"] == kind)
        return self.struct(schema, inner)


def place(value: Any) -> Any:
    """The key of a sort: ids as bytes, texts as Java sorts them, numbers, or nothing."""
    if isinstance(value, dict):
        return base64.urlsafe_b64decode(value["topicId"] + "==") if "topicId" in value else b""
    return value.encode("utf-16-be") if isinstance(value, str) else value


def topic(random: Random, number: int) -> Json:
    """A topic as a cluster may have it: with no racks at all, with one for each broker, with some."""
    partitions = random.choice((0, 1, 2, 3, 7, 16, 60, 300)) if number else 0
    known = [word(random, _ANY_TEXT) for _ in range(random.randrange(1, 5))]
    replicas = random.randrange(1, 4)
    racks = [
        [random.choice(known) for _ in range(replicas) if number % 4 > 1 or random.random() < 0.5]
        for _ in range(partitions)
    ]
    return {
        "topic": word(random, _LETTERS),
        "id": uuid_text(random.randbytes(16)),
        "partitions": partitions,
        "racks": racks if number % 4 else [],
    }


def word(random: Random, letters: str | tuple[str, ...]) -> str:
    """Some letters; the shorter, the more often."""
    return "".join(random.choice(letters) for _ in range(random.choice((1, 2, 5, 11, 40))))


def integer(random: Random, bits: int) -> int:
    """A number with a sign, at the limits too."""
    limit = 1 << (bits - 1)
    return random.choice((0, -1, 1, -limit, limit - 1, random.randrange(-limit, limit)))


def uuid_text(value: bytes) -> str:
    """An id as Kafka writes it."""
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


def jar_schemas() -> list[Json]:
    """The schemas of the coordinator's records, in the order of their kinds, and of what members of classic
    consumer groups send and get.
    """
    records = [s for s in schemas_in("kafka-group-coordinator") if s["apiKey"] in _OF_COORDINATORS]
    embedded = [s for s in schemas_in("kafka-clients") if s["name"].startswith("ConsumerProtocol")]
    return sorted(records + embedded, key=lambda each: (each.get("apiKey", 99), each["name"]))


def schemas_in(part: str) -> Iterator[Json]:
    """All schemas in a jar of Kafka."""
    with zipfile.ZipFile(jars() / f"{part}-{NEWEST}.jar") as jar:
        for name in jar.namelist():
            if name.startswith(_SCHEMAS) and name.endswith(".json"):
                lines = jar.read(name).decode().splitlines()
                yield json.loads("\n".join(re.sub(r"^\s*//.*", "", each) for each in lines))


def answers(asked: list[Json]) -> list[Json]:
    """The same lines, with what Kafka makes of them."""
    command = java_command(kept_classes("GroupRecords", NEWEST), NEWEST, "GroupRecords")
    lines = "".join(json.dumps(each) + "\n" for each in asked)
    done = subprocess.run(command, input=lines.encode(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()[-3_000:]
    answered = [json.loads(line) for line in done.stdout.decode().splitlines()]
    assert len(answered) == len(asked)
    return answered


def main() -> None:
    """Write the file."""
    rows = answers(list(questions(jar_schemas())))
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    GOLDEN.write_bytes(gzip.compress(text.encode(), mtime=0))
    print(f"{len(rows)} lines")


if __name__ == "__main__":
    main()
