"""An archive's files and its records as a Spark frame: exactly the files its manifests name, by
Spark's own Parquet reader.

Files are left out by their entries (topic, partition, offsets, time), and the rest is a filter that
Spark pushes into the files.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kbroker.pipeline.archiving.manifests.archive_reading import read_archive
from kbroker.pipeline.archiving.manifests.archive_state import ArchiveState
from kbroker.pipeline.archiving.manifests.manifest import NO_HOUR, FileEntry
from kbroker.pipeline.envelope import ARCHIVE_SCHEMA
from kbroker.pipeline.errors import ExitCode, PipelineError
from kbroker.pipeline.spark_job import functions as f


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveSelection:
    """The wanted records; everything by default. Ends are exclusive, times Unix ms."""

    topics: tuple[str, ...] = ()
    partitions: tuple[int, ...] = ()
    start_offset: int | None = None
    end_offset: int | None = None
    start_ms: int | None = None
    end_ms: int | None = None

    def wants(self, entry: FileEntry) -> bool:
        """Return whether a file may hold a wanted record."""
        if self.topics and entry.topic not in self.topics:
            return False
        if self.partitions and entry.partition not in self.partitions:
            return False
        if self.start_offset is not None and entry.last_offset < self.start_offset:
            return False
        if self.end_offset is not None and entry.first_offset >= self.end_offset:
            return False
        if entry.hour == NO_HOUR:
            return True  # their times are missing, or no calendar's
        if self.start_ms is not None and entry.max_timestamp_ms < self.start_ms:
            return False
        return self.end_ms is None or entry.min_timestamp_ms < self.end_ms


def archive_files(
    path: str, selection: ArchiveSelection | None = None, *, rejected: bool = False
) -> list[str]:
    """Return absolute paths of the Parquet files that may hold wanted records: those that the
    manifests name as of this call, for any reader of Parquet. With `rejected` those of records
    whose values did not parse. Needs no Spark. Raises PipelineError.

    A file has records of one partition and one hour: a reader has to filter rows by offset or time
    itself.
    """
    wanted = selection or ArchiveSelection()
    return _files(_archive_with(path, wanted.topics), wanted, rejected=rejected)


def read_archive_frame(
    spark: Any, path: str, selection: ArchiveSelection | None = None, *, rejected: bool = False
) -> Any:
    """Return a DataFrame of an archive's records, with the columns of `envelope.ARCHIVE_COLUMNS`.

    If the one selected topic has been archived with a JSON schema there is one more, `json`. With
    `rejected` the records whose values did not parse, and a column `reason`. The frame shows the
    archive as of this call. Raises PipelineError.
    """
    wanted = selection or ArchiveSelection()
    state = _archive_with(path, wanted.topics)
    paths = _files(state, wanted, rejected=rejected)
    schema = _schema(state, wanted.topics, rejected=rejected)
    if not paths:
        return spark.createDataFrame([], schema)
    return _filtered(spark.read.schema(schema).parquet(*paths), wanted)


def check_topics(state: ArchiveState, topics: Iterable[str]) -> None:
    """Raise PipelineError for topics that the archive does not have."""
    known = state.topics()
    missing = [topic for topic in topics if topic not in known]
    if missing:
        raise PipelineError(
            f"the archive {state.path} has no topic {', '.join(missing)}: it has "
            f"{', '.join(known) or 'none yet'}",
            ExitCode.USAGE,
        )


def _archive_with(path: str, topics: Iterable[str]) -> ArchiveState:
    state = read_archive(os.path.abspath(path))
    check_topics(state, topics)
    return state


def _files(state: ArchiveState, wanted: ArchiveSelection, *, rejected: bool) -> list[str]:
    entries = state.entries(kind="rejected" if rejected else "data")
    return [f"{state.path}/{entry.path}" for entry in entries if wanted.wants(entry)]


def _schema(state: ArchiveState, topics: tuple[str, ...], *, rejected: bool) -> Any:
    from pyspark.sql.types import StructType

    schema: Any = StructType.fromDDL(ARCHIVE_SCHEMA)
    if rejected:
        return schema.add("reason", "string")
    if len(topics) == 1 and topics[0] in state.json_schemas:
        parsed = StructType.fromJson(json.loads(state.json_schemas[topics[0]]))
        schema = schema.add("json", parsed)
    return schema


def _filtered(frame: Any, wanted: ArchiveSelection) -> Any:
    if wanted.start_offset is not None:
        frame = frame.where(f.col("offset") >= wanted.start_offset)
    if wanted.end_offset is not None:
        frame = frame.where(f.col("offset") < wanted.end_offset)
    if wanted.start_ms is not None:
        is_wanted = f.col("timestamp") >= f.timestamp_millis(f.lit(wanted.start_ms))
        frame = frame.where(is_wanted | (f.col("timestampMs") >= wanted.start_ms))
    if wanted.end_ms is not None:
        is_wanted = f.col("timestamp") < f.timestamp_millis(f.lit(wanted.end_ms))
        frame = frame.where(is_wanted | (f.col("timestampMs") < wanted.end_ms))
    return frame
