"""Rows of a partition in order: which files are read together, how much is held, what is refused."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kbroker.pipeline.archiving.manifests.manifest import FileEntry
from kbroker.pipeline.archiving.ordered import file_rows, ordered_reading
from kbroker.pipeline.archiving.ordered.file_rows import ROW_COLUMNS
from kbroker.pipeline.archiving.ordered.ordered_reading import (
    LANES_AT_ONCE,
    lanes,
    ordered_rows,
    overlapping_runs,
)
from kbroker.pipeline.archiving.reader import ArchiveSelection
from kbroker.pipeline.archiving.tasks.record_files import open_parquet
from kbroker.pipeline.errors import PipelineError
from tests.fakes.archives.archive_maker import file_entry
from tests.fakes.archives.arrow_records import BASE_MS, HOUR_MS, arrow_batch, record
from tests.fakes.archives.parquet_archive import archive_rows, as_it_is_now, merge_hours
from tests.fakes.disks.descriptors import open_files_below


def in_hours(start: int, end: int, hours: int) -> list[dict[str, Any]]:
    """Records that go round through so many hours."""
    return [record(at, timestamp=BASE_MS + at % hours * HOUR_MS) for at in range(start, end)]


def offsets_in(batches: Iterator[pa.RecordBatch]) -> list[int]:
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


def refused(path: Path, *entries: FileEntry) -> str:
    with pytest.raises(PipelineError) as refusal:
        list(ordered_rows(str(path), entries))
    return str(refusal.value).removeprefix(f"{path}/data/t/2026-11-21/13/")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "archive"


def firsts(groups: Iterator[list[FileEntry]] | list[list[FileEntry]]) -> list[list[int]]:
    return [[entry.first_offset for entry in group] for group in groups]


def test_files_that_do_not_overlap_are_read_one_after_the_other() -> None:
    entries = [file_entry(20, 29), file_entry(0, 9), file_entry(10, 19)]

    assert firsts(overlapping_runs(entries)) == [[0], [10], [20]]


def test_a_chain_of_files_that_overlap_is_one_run_in_as_many_lanes_as_overlap() -> None:
    entries = [file_entry(0, 12), file_entry(10, 22), file_entry(20, 32), file_entry(31, 40)]

    assert firsts(overlapping_runs([*entries, file_entry(41, 50)])) == [[0, 10, 20, 31], [41]]
    assert firsts(lanes(entries)) == [[0, 20], [10, 31]]


@pytest.mark.parametrize("hours", [1, 3, LANES_AT_ONCE])
def test_late_records_come_in_their_place(path: Path, hours: int) -> None:
    entries = archive_rows(str(path), in_hours(0, 100, hours), in_hours(100, 200, hours))

    assert offsets_in(ordered_rows(str(path), entries)) == list(range(200))


def test_more_files_may_overlap_than_are_open_at_once(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ordered_reading, "LANES_AT_ONCE", 3)
    hours = 3 * 3 + 2
    archive_rows(str(path), in_hours(0, hours, hours), in_hours(hours, 2 * hours, hours))
    entries = merge_hours(str(path), 1 << 30)
    assert len(entries) == len(lanes(entries)) == hours
    open_files: list[int] = []

    def counted(*args: Any) -> Iterator[pa.RecordBatch]:
        for rows in file_rows.file_rows(*args):
            open_files.append(open_files_below(path))
            yield rows

    monkeypatch.setattr(ordered_reading, "file_rows", counted)

    assert offsets_in(ordered_rows(str(path), entries)) == list(range(2 * hours))
    assert max(open_files) == 3
    assert open_files_below(path) == 0


def test_a_full_disk_for_temporary_files_is_said(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = archive_rows(str(path), in_hours(0, 40, 40), in_hours(40, 120, 80))
    full = [file_entry_at(entry) for entry in entries] * 2
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda: open("/dev/full", "w+b"))  # noqa: SIM115

    with pytest.raises(PipelineError, match="TMPDIR"):
        list(ordered_rows(str(path), full))


def file_entry_at(entry: FileEntry) -> FileEntry:
    """The same, as if it overlapped with all others."""
    return msgspec.structs.replace(entry, first_offset=0, last_offset=10_000)


def test_a_piece_of_a_row_group_is_in_memory_at_a_time(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_rows, "PIECE_BYTES", 10_000)
    monkeypatch.setattr(ordered_reading, "PIECE_BYTES", 10_000)
    entries = archive_rows(str(path), [record(at, value=b"v" * 999) for at in range(100)])

    batches = list(ordered_rows(str(path), entries))

    assert len(batches) >= 10
    assert max(batch.num_rows for batch in batches) <= 10
    assert offsets_in(iter(batches)) == list(range(100))


def test_row_groups_without_a_wanted_offset_are_not_read(path: Path) -> None:
    (entry,) = archive_rows(str(path), in_hours(0, 30, 1))
    name = f"{path}/{entry.path}"
    rows = pq.read_table(name)
    with open_parquet(name, rows.schema) as file:
        for start in (0, 10, 20):
            file.write_table(rows.slice(start, 10))
    spoil_page_of_last_group(name)
    entry = as_it_is_now(str(path), entry)

    wanted = ArchiveSelection(start_offset=12, end_offset=18)

    assert offsets_in(ordered_rows(str(path), [entry], wanted)) == list(range(12, 18))
    assert "is not a Parquet file with the rows of records" in refused(path, entry)


def spoil_page_of_last_group(name: str) -> None:
    column = pq.ParquetFile(name).metadata.row_group(2).column(0)
    start = column.dictionary_page_offset or column.data_page_offset
    data = bytearray(Path(name).read_bytes())
    data[start : start + 20] = bytes(20)
    Path(name).write_bytes(data)


def test_only_wanted_rows_come(path: Path) -> None:
    rows = [record(at, timestamp=BASE_MS + at * 1_000) for at in range(40)]
    rows[7]["timestamp"] = -1_000
    entries = archive_rows(str(path), rows)
    wanted = ArchiveSelection(
        start_offset=5, end_offset=30, start_ms=BASE_MS + 6_000, end_ms=BASE_MS + 10_000
    )

    assert offsets_in(ordered_rows(str(path), entries, wanted)) == [6, 8, 9]
    assert not offsets_in(ordered_rows(str(path), entries, ArchiveSelection(start_offset=40)))


def test_rows_have_all_columns_but_their_place(path: Path) -> None:
    entries = archive_rows(str(path), in_hours(0, 2, 2))

    (batch,) = ordered_rows(str(path), entries)

    assert tuple(batch.schema.names) == ROW_COLUMNS
    assert "topic" not in ROW_COLUMNS


def test_a_file_that_was_changed_is_refused(path: Path) -> None:
    (entry,) = archive_rows(str(path), in_hours(0, 5, 1))
    file = path / entry.path
    content = file.read_bytes()

    file.write_bytes(content[:-1] + b"x")
    assert refused(path, entry).startswith("t-0-0-4.parquet has other content than was written")
    file.write_bytes(content[:-1])
    assert refused(path, entry).startswith("t-0-0-4.parquet has ")
    file.unlink()
    assert refused(path, entry).startswith("t-0-0-4.parquet is not there")


@pytest.mark.parametrize(
    ("offsets", "fields", "sentence"),
    [
        ([0, 1, 2], {"rows": 4}, "has 3 rows, not 4"),
        ([0, 1, 1, 3], {}, "holds offset 1 after 1: rows have to rise"),
        ([0, 2, 1, 3], {}, "holds offset 1 after 2: rows have to rise"),
        ([0, 1, 2, 9], {}, "holds offset 9, and its manifest says 0 to 3"),
        ([0, 1, 2, 3], {"first_offset": 1}, "holds offset 0, and its manifest says 1 to 3"),
    ],
)
def test_rows_that_are_not_as_the_manifest_says_are_refused(
    path: Path, offsets: list[int], fields: dict[str, Any], sentence: str
) -> None:
    (entry,) = archive_rows(str(path), in_hours(0, 4, 1))
    replace_rows(f"{path}/{entry.path}", [record(at) for at in offsets])
    changed = as_it_is_now(str(path), entry, **{"rows": len(offsets)} | fields)

    assert refused(path, changed) == (
        f"t-0-0-3.parquet {sentence}; `kbroker pipeline audit` shows more"
    )


def replace_rows(name: str, rows: list[dict[str, Any]]) -> None:
    batch = arrow_batch(rows)
    with open_parquet(name, batch.schema) as file:
        file.write_batch(batch)


def test_an_offset_that_two_files_have_is_refused(path: Path) -> None:
    one, other = archive_rows(str(path), in_hours(0, 6, 2))
    replace_rows(f"{path}/{other.path}", [record(at) for at in (1, 2, 5)])
    other = as_it_is_now(str(path), other)

    assert refused(path, one, other) == (
        f"offset 2 is in {path}/{one.path} and in {path}/{other.path}; "
        "`kbroker pipeline audit` shows more"
    )


@pytest.mark.parametrize(
    ("column", "values", "sentence"),
    [
        ("offset", pa.array(["0", "1", "2", "3"]), "has offsets that are no numbers"),
        ("headers", [[("key", None), ("value", b"v")]], "holds a header without a key"),
    ],
)
def test_columns_that_no_record_has_are_refused(
    path: Path, column: str, values: Any, sentence: str
) -> None:
    (entry,) = archive_rows(str(path), in_hours(0, 4, 1))
    rows = pq.read_table(path / entry.path)
    at = rows.column_names.index(column)
    if column == "headers":
        values = pa.array([[dict(pairs) for pairs in values]] * 4, rows.schema.field(at).type)
    pq.write_table(rows.set_column(at, column, values), path / entry.path)
    entry = as_it_is_now(str(path), entry)

    for wanted in (ArchiveSelection(), ArchiveSelection(start_offset=1)):
        with pytest.raises(PipelineError, match=sentence):
            list(ordered_rows(str(path), [entry], wanted))


def test_a_file_that_is_not_parquet_is_refused(path: Path) -> None:
    (entry,) = archive_rows(str(path), in_hours(0, 4, 1))
    (path / entry.path).write_bytes(b"something else")

    assert "is not a Parquet file" in refused(path, as_it_is_now(str(path), entry))
