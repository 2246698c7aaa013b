"""Archives of real Parquet files, written by the parts of the archive job from rows at hand."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec

from kbroker.pipeline.archiving.manifests.archive_reading import read_archive
from kbroker.pipeline.archiving.manifests.archive_writer import (
    ArchiveStep,
    ArchiveWriter,
    StagedFile,
)
from kbroker.pipeline.archiving.manifests.file_check import file_checksum
from kbroker.pipeline.archiving.manifests.manifest import FileEntry, HoleEntry
from kbroker.pipeline.archiving.tasks.record_files import TaskOptions, sync_file, write_records
from kbroker.pipeline.archiving.tasks.task_facts import FileFact
from kbroker.pipeline.archiving.upkeep.merge_and_expiry import merge_small_files
from tests.fakes.archives.archive_maker import hole, offsets
from tests.fakes.archives.arrow_records import BASE_MS, HOUR_MS, arrow_batch

JOB = "job"
LATER_MS = BASE_MS + 1000 * HOUR_MS

Rows = Sequence[dict[str, Any]]


def archive_rows(path: str, *batches: Rows) -> list[FileEntry]:
    """Publish a step for each of these batches of rows of t-0; the files there are now."""
    for rows in batches:
        with ArchiveWriter(path, JOB) as writer:
            number = writer.state.jobs.get(JOB, -1) + 1
            staging = writer.staging_directory(number)
            facts = write_records(iter([arrow_batch(rows)]), TaskOptions(staging=staging), "0-0")
            files = [
                StagedFile(fact.staged_path, fact.entry)
                for fact, _ in facts
                if isinstance(fact, FileFact)
            ]
            writer.publish(
                ArchiveStep(
                    kind="batch",
                    batch=number,
                    ranges=(offsets(rows[0]["offset"], rows[-1]["offset"] + 1),),
                    holes=_holes(rows),
                    files=tuple(files),
                )
            )
    return entries_of(path)


def merge_hours(path: str, target_bytes: int) -> list[FileEntry]:
    """Merge all that can be merged; the files there are now."""
    merge_small_files(path, (), HOUR_MS, target_bytes, lambda: LATER_MS)
    return entries_of(path)


def entries_of(path: str) -> list[FileEntry]:
    return read_archive(path).entries()


def as_it_is_now(path: str, entry: FileEntry, **fields: Any) -> FileEntry:
    """Return the entry of a file that was changed since, with these fields."""
    name = f"{path}/{entry.path}"
    return msgspec.structs.replace(
        entry, size_bytes=sync_file(name), checksum=file_checksum(name), **fields
    )


def _holes(rows: Rows) -> tuple[HoleEntry, ...]:
    ends = [(one["offset"] + 1, other["offset"] - 1) for one, other in pairwise(rows)]
    return tuple(hole(first, last) for first, last in ends if first <= last)
