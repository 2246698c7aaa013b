"""Merges small files of one partition and hour into one, with the same records in the same order.

pyarrow reads and writes in this process, a row group at a time: merging needs neither Spark nor
memory for a whole file. Law: a file is checked against its manifest before it is merged, so that a
flipped bit never gets a new checksum; and its rows rise, or no reader would take the merged file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from kbroker.pipeline.archiving.manifests.archive_writer import (
    ArchiveStep,
    ArchiveWriter,
    StagedFile,
)
from kbroker.pipeline.archiving.manifests.file_check import check_file, file_checksum
from kbroker.pipeline.archiving.manifests.manifest import FileEntry, file_name, file_path
from kbroker.pipeline.archiving.ordered.file_rows import checked_end
from kbroker.pipeline.archiving.tasks.record_files import ROW_GROUP_BYTES, open_parquet, sync_file
from kbroker.pipeline.errors import PipelineError


def merge_files(writer: ArchiveWriter, group: Sequence[FileEntry]) -> FileEntry:
    """Publish one file for all of a group. Readers see the old ones or the new one."""
    for entry in group:
        finding = check_file(writer.path, entry)
        if finding is not None:
            raise PipelineError(f"{finding.path} {finding.what}: nothing was merged with it")
    batch = writer.next_batch()
    staged_path = f"{writer.staging_directory(batch)}/merged.parquet"
    try:
        rows = _write_merged(writer.path, group, staged_path)
        merged = _merged_entry(group, staged_path)
    except (pa.ArrowException, ValueError) as error:
        reason = " ".join(str(error).split())
        raise PipelineError(
            f"{group[0].path} and its neighbours are not Parquet files with the rows of records: "
            f"{reason}; nothing was merged; `kbroker pipeline audit` shows more"
        ) from error
    except OSError as error:
        raise PipelineError(
            f"the archive {writer.path} cannot be written: {error.strerror or error}; nothing was "
            "merged: fix that, and run again"
        ) from error
    if rows != merged.rows:
        raise PipelineError(
            f"{group[0].path} and its neighbours hold {rows} records, and their manifests say "
            f"{merged.rows}: nothing was merged; `kbroker pipeline audit` shows more"
        )
    writer.publish(
        ArchiveStep(
            kind="merge",
            batch=batch,
            files=(StagedFile(staged_path, merged),),
            removed=tuple(entry.path for entry in group),
        )
    )
    return merged


def _write_merged(archive: str, group: Sequence[FileEntry], target: str) -> int:
    # A topic may have got its column `json` later: earlier records have none.
    schema = pa.unify_schemas([pq.read_schema(f"{archive}/{entry.path}") for entry in group])
    rows = 0
    with open_parquet(target, schema) as file:
        for table in _row_groups(archive, group, schema):
            file.write_table(table, row_group_size=table.num_rows)
            rows += table.num_rows
    return rows


def _row_groups(archive: str, group: Iterable[FileEntry], schema: pa.Schema) -> Iterator[pa.Table]:
    kept: list[pa.Table] = []
    size_bytes = 0
    last_offset = -1
    for entry in group:
        name = f"{archive}/{entry.path}"
        with pq.ParquetFile(name) as file:
            for number in range(file.num_row_groups):
                table = file.read_row_group(number)
                if table.num_rows:
                    offsets = table.column("offset").to_numpy()
                    last_offset = checked_end(name, entry, last_offset, offsets)
                kept.append(_with_all_columns(table, schema))
                size_bytes += table.nbytes
                if size_bytes >= ROW_GROUP_BYTES:
                    yield pa.concat_tables(kept)
                    kept, size_bytes = [], 0
    if kept:
        yield pa.concat_tables(kept)


def _with_all_columns(table: pa.Table, schema: pa.Schema) -> pa.Table:
    columns = [
        table.column(field.name)
        if field.name in table.column_names
        else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _merged_entry(group: Sequence[FileEntry], staged_path: str) -> FileEntry:
    first = group[0]
    last_offset = group[-1].last_offset
    name = file_name(first.topic, first.partition, first.first_offset, last_offset)
    return msgspec.structs.replace(
        first,
        path=file_path(first.kind, first.topic, first.hour, name),
        last_offset=last_offset,
        rows=sum(entry.rows for entry in group),
        size_bytes=sync_file(staged_path),
        min_timestamp_ms=min(entry.min_timestamp_ms for entry in group),
        max_timestamp_ms=max(entry.max_timestamp_ms for entry in group),
        checksum=file_checksum(staged_path),
    )
