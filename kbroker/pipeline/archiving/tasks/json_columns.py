"""Parses values as JSON into a struct column, for topics that have a schema.

A value that does not parse is null in the column `json`, with the reason in `rejected`; the record
itself stays whole. Empty and missing values (tombstones) are null and not rejected. A topic keeps
the schema it was first archived with: if files of one topic differed in their columns they would be
misread later, and nobody would notice.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kbroker.pipeline.errors import ExitCode, PipelineError
from kbroker.pipeline.spark_job import functions as f

_CORRUPT: Final = "_kbroker_corrupt_record"
_NOT_JSON = "is not JSON that fits the schema"


@dataclass(frozen=True, slots=True)
class JsonSchemas:
    """Schemas as Spark writes them in JSON: by topic, and one for all others (None: no column)."""

    by_topic: Mapping[str, str] = field(default_factory=dict)
    default: str | None = None

    def of(self, topic: str) -> str | None:
        return self.by_topic.get(topic, self.default)

    def checked(self, topics: Iterable[str], known: Mapping[str, str]) -> dict[str, str]:
        """Return the schemas of these topics; PipelineError if the archive has another one."""
        found = {topic: schema for topic in topics if (schema := self.of(topic)) is not None}
        for topic in topics:
            if topic in known and known[topic] != found.get(topic):
                raise PipelineError(
                    f"topic {topic} is archived with the JSON schema {known[topic]}, and now it "
                    f"is {found.get(topic, 'none')}: keep the schema, or use another archive",
                    ExitCode.USAGE,
                )
        return found


def parse_schemas(texts: Mapping[str | None, str]) -> JsonSchemas:
    """Parse a person's texts by topic, None for all others. Raises PipelineError."""
    parsed = {topic: parse_schema(text) for topic, text in texts.items()}
    by_topic = {topic: schema for topic, schema in parsed.items() if topic is not None}
    return JsonSchemas(by_topic, parsed.get(None))


def parse_schema(text: str) -> str:
    """Return in Spark's JSON a schema that a person gave as DDL (`id BIGINT, name STRING`) or as
    the JSON of a StructType. Needs a running session for DDL. Raises PipelineError.
    """
    from pyspark.sql.types import StructType

    try:
        schema: Any
        if text.lstrip().startswith("{"):
            schema = StructType.fromJson(json.loads(text))
        else:
            schema = StructType.fromDDL(text)
    except Exception as error:  # Spark's parsers raise half a dozen kinds
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise PipelineError(
            f"'{text}' is not a schema: {first} (give DDL such as 'id BIGINT, name STRING', or the "
            "JSON of a Spark StructType)",
            ExitCode.USAGE,
        ) from error
    return str(schema.json())


def with_json(frame: Any, schemas: Mapping[str, str]) -> tuple[Any, dict[str, str]]:
    """Return the frame with one column for each schema, and which column is for which topic."""
    if not schemas:
        return frame, {}
    names: dict[str, str] = {}
    rejected = f.lit(None).cast("string")
    parsed: list[Any] = []
    for number, schema in enumerate(sorted(set(schemas.values()))):
        topics = sorted(topic for topic, theirs in schemas.items() if theirs == schema)
        names |= dict.fromkeys(topics, f"json_{number}")
        is_ours = f.col("topic").isin(topics)
        value, is_corrupt = _parsed(schema)
        parsed.append(f.when(is_ours & ~is_corrupt, value).alias(f"json_{number}"))
        rejected = f.when(is_ours & is_corrupt, f.lit(_NOT_JSON)).otherwise(rejected)
    return frame.select("*", *parsed, rejected.alias("rejected")), names


def _parsed(schema: str) -> tuple[Any, Any]:
    """Return the struct of a value, and whether there was a value that does not parse."""
    from pyspark.sql.types import StringType, StructType

    wanted = StructType.fromJson(json.loads(schema))
    watched = StructType([*wanted.fields]).add(_CORRUPT, StringType())
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    has_value = f.coalesce(f.length("value") > 0, f.lit(False))
    found = f.from_json(f.col("value").cast("string"), watched, options)
    is_corrupt = has_value & (found.isNull() | found.getField(_CORRUPT).isNotNull())
    value = f.when(
        has_value, f.struct(*[found.getField(name).alias(name) for name in wanted.names])
    )
    return value, is_corrupt
