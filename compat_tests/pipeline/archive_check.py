"""What must be true of an archive in the end: every planned record in it exactly once, byte for
byte, and nothing beside it.

Reads manifests as JSON and files with pyarrow alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from fastcrc.crc32 import iscsi as crc32c

from compat_tests.pipeline.planned_records import (
    EnvelopeHash,
    PlannedRecord,
    RecordPlan,
    planned_hash,
)
from compat_tests.pipeline.published_archive import Partition, PublishedArchive, read_published

_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")


def check_archive(
    directory: Path, plan: RecordPlan, *, at_its_offsets: bool = True
) -> PublishedArchive:
    """AssertionError with the first fault, unless the archive is the plan: each record where it was
    planned, or at any offset, if only the order is right.
    """
    archive = read_published(directory)
    if at_its_offsets:
        aborted = sum(plan.end_offset(*each) - plan.count(*each) for each in plan.partitions())
        assert archive.missing == aborted, f"{archive.missing} offsets are said to be missing"
    _check_folder(archive)
    assert set(archive.ranges) == set(plan.partitions()), sorted(archive.ranges)
    for partition in plan.partitions():
        if at_its_offsets:
            _check_ranges(archive, partition, plan.end_offset(*partition))
        _check_records(archive, partition, plan, at_its_offsets=at_its_offsets)
    return archive


def _check_folder(archive: PublishedArchive) -> None:
    """Every file a reader could take is in a manifest, and nothing is staged."""
    found = {
        str(path.relative_to(archive.directory))
        for path in archive.directory.rglob("*")
        if path.is_file() and path.suffix == ".parquet"
    }
    lost = archive.files.keys() - found
    assert not lost, f"files of the archive that are not there: {sorted(lost)[:3]}"
    foreign = found - archive.files.keys() - archive.left
    assert not foreign, f"files that no manifest names: {sorted(foreign)[:3]}"
    staging = archive.directory / "staging"
    staged = [path.name for path in staging.iterdir() if path.suffix != ".lock"]
    assert not staged, f"left in staging: {staged[:3]}"


def _check_ranges(archive: PublishedArchive, partition: Partition, end: int) -> None:
    at = 0
    for start, stop in sorted(archive.ranges[partition]):
        assert start == at, f"{partition}: offsets {at} to {start} in no batch, or in two"
        at = stop
    assert at == end, f"{partition}: batches end at {at}, and {end} were written"


def _check_records(
    archive: PublishedArchive, partition: Partition, plan: RecordPlan, *, at_its_offsets: bool
) -> None:
    entries = archive.files_of(partition)
    tables = [_checked_table(archive.directory, entry) for entry in entries]
    rows = pa.concat_tables(tables).sort_by("offset") if tables else None

    def records() -> Iterator[PlannedRecord]:
        if at_its_offsets:
            return _records(rows)
        return (r._replace(offset=plan.offset_of(n)) for n, r in enumerate(_records(rows)))

    found = EnvelopeHash()
    for record in records():
        found.add(record)
    if found.hexdigest() != planned_hash(plan, *partition):
        planned = plan.stretch(*partition, 0, plan.count(*partition))
        raise AssertionError(f"{partition}: {_first_difference(planned, records())}")


def _checked_table(directory: Path, entry: dict[str, Any]) -> pa.Table:
    """The file's records; AssertionError where it is not what the manifest says."""
    data = (directory / entry["path"]).read_bytes()
    assert len(data) == entry["size_bytes"], f"{entry['path']} has another size"
    assert f"crc32c:{crc32c(data):08x}" == entry["checksum"], f"{entry['path']} was changed"
    table = pq.read_table(pa.BufferReader(data)).select(_COLUMNS)
    offsets = table["offset"].to_pylist()
    assert len(offsets) == entry["rows"], f"{entry['path']} has {len(offsets)} rows"
    assert (min(offsets), max(offsets)) == (entry["first_offset"], entry["last_offset"])
    assert set(table["topic"].to_pylist()) == {entry["topic"]}, entry["path"]
    assert set(table["partition"].to_pylist()) == {entry["partition"]}, entry["path"]
    hours = {time_ms // 3_600_000 for time_ms in _times_ms(table)}
    names = {datetime.fromtimestamp(each * 3_600, UTC).strftime("%Y-%m-%dT%H") for each in hours}
    assert names == {entry["hour"]}, f"{entry['path']} has records of {sorted(names)}"
    return table


def _times_ms(table: pa.Table) -> list[int]:
    micros = table["timestamp"].cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_pylist()
    assert all(each % 1000 == 0 for each in micros), "a time that is no whole millisecond"
    return [each // 1000 for each in micros]


def _records(table: pa.Table | None) -> Iterator[PlannedRecord]:
    """Rows as records, in the order of the table."""
    if table is None:
        return
    columns = (table[name].to_pylist() for name in ("timestampType", "key", "value", "headers"))
    for offset, time_ms, kind, key, value, headers in zip(
        table["offset"].to_pylist(), _times_ms(table), *columns, strict=True
    ):
        pairs = None if headers is None else tuple((h["key"], h["value"]) for h in headers)
        yield PlannedRecord(offset, time_ms, kind, key, value, pairs)


def _first_difference(planned: Iterable[PlannedRecord], found: Iterable[PlannedRecord]) -> str:
    rest = iter(found)
    for record in planned:
        other = next(rest, None)
        if other is None:
            return f"lost from offset {record.offset} on"
        if other.offset > record.offset:
            return f"offset {record.offset} is lost"
        if other.offset < record.offset:
            return f"offset {other.offset} is there twice"
        if other != record:
            names = [n for n in record._fields if getattr(record, n) != getattr(other, n)]
            return f"offset {record.offset} differs in {', '.join(names)}"
    return f"offset {next(rest).offset} is more than was written"
