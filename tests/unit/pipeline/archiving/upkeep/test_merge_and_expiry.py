"""Merging and expiry: what is chosen, and what readers have afterwards."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kbroker.model import TopicPartition
from kbroker.pipeline.archiving.manifests.archive_reading import read_archive
from kbroker.pipeline.archiving.manifests.archive_state import ArchiveState
from kbroker.pipeline.archiving.manifests.archive_writer import (
    ArchiveStep,
    ArchiveWriter,
    StagedFile,
)
from kbroker.pipeline.archiving.manifests.file_check import check_file
from kbroker.pipeline.archiving.manifests.manifest import NO_HOUR
from kbroker.pipeline.archiving.tasks.record_files import TaskOptions, write_records
from kbroker.pipeline.archiving.tasks.task_facts import FileFact
from kbroker.pipeline.archiving.upkeep.file_merge import merge_files
from kbroker.pipeline.archiving.upkeep.merge_and_expiry import (
    GRACE_MS,
    expire_files,
    merge_small_files,
)
from kbroker.pipeline.archiving.upkeep.upkeep_plan import expired_files, expiry_holes, merge_groups
from kbroker.pipeline.errors import PipelineError
from tests.fakes.archives.archive_maker import file_entry, hole, offsets
from tests.fakes.archives.arrow_records import BASE_MS, HOUR_MS, arrow_batch, record
from tests.fakes.archives.parquet_archive import as_it_is_now

T0 = TopicPartition("t", 0)
LATER_MS = BASE_MS + 10 * HOUR_MS
MB = 1 << 20


def sized(first: int, last: int, size_mb: int, hour: str = "2026-11-21T13") -> object:
    return file_entry(first, last, size_bytes=size_mb * MB, hour=hour)


def plan(*entries: object, before: str = "2026-11-22T00", target_mb: int = 10) -> list[list[int]]:
    groups = merge_groups(entries, target_mb * MB, before)  # type: ignore[arg-type]
    return [[entry.first_offset for entry in group] for group in groups]


def test_neighbours_of_an_hour_are_merged_up_to_the_target() -> None:
    assert plan(*(sized(at, at, 3) for at in range(7))) == [[0, 1, 2], [3, 4, 5]]


def test_large_files_are_left_and_part_their_neighbours() -> None:
    assert plan(sized(0, 0, 1), sized(1, 1, 8), sized(2, 2, 1), sized(3, 3, 1)) == [[2, 3]]


def test_hours_that_still_grow_are_left() -> None:
    entries = [
        sized(0, 0, 1, "2026-11-21T12"),
        sized(1, 1, 1, "2026-11-21T12"),
        sized(2, 2, 1),
        sized(3, 3, 1),
    ]

    assert plan(*entries, before="2026-11-21T13") == [[0, 1]]


def test_hours_partitions_and_rejected_files_are_not_mixed() -> None:
    entries = [
        file_entry(0, 0), file_entry(1, 1, hour="2026-11-21T14"), file_entry(2, 2, partition=1),
        file_entry(3, 3, kind="rejected"), file_entry(4, 4, hour=NO_HOUR),
    ]  # fmt: skip

    assert plan(*entries) == []
    assert plan(*entries, file_entry(5, 5, hour=NO_HOUR)) == [[4, 5]]


def test_files_expire_by_their_youngest_record_and_not_without_a_time() -> None:
    old, young = file_entry(0, 4, max_timestamp_ms=99), file_entry(5, 9, max_timestamp_ms=100)
    untimed = file_entry(10, 14, hour=NO_HOUR, max_timestamp_ms=-1)

    assert expired_files([old, young, untimed], 100) == [old]
    assert expired_files([old, young], 100, ["u"]) == []
    assert expiry_holes([old, file_entry(0, 4, kind="rejected")]) == (hole(0, 4, "expired"),)


class Archive:
    """A small archive on the disk, of one record for each minute of some hours."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "archive")
        self.now_ms = LATER_MS

    def write(self, batch: int, rows: list[dict[str, object]]) -> None:
        first, last = rows[0]["offset"], rows[-1]["offset"]
        assert isinstance(first, int)
        assert isinstance(last, int)
        with ArchiveWriter(self.path, "job", now_ms=lambda: self.now_ms) as writer:
            staging = writer.staging_directory(batch)
            facts = write_records(iter([arrow_batch(rows)]), TaskOptions(staging=staging), "0-0")
            files = [
                StagedFile(f.staged_path, f.entry) for f, _ in facts if isinstance(f, FileFact)
            ]
            ranges = (offsets(first, last + 1),)
            writer.publish(
                ArchiveStep(kind="batch", batch=batch, ranges=ranges, files=tuple(files))
            )

    def state(self) -> ArchiveState:
        return read_archive(self.path)

    def rows(self) -> list[dict[str, object]]:
        entries = self.state().entries()
        tables = [pq.read_table(f"{self.path}/{entry.path}") for entry in entries]
        return [row for table in tables for row in table.to_pylist()]

    def merge(self) -> tuple[int, int, int]:
        report = merge_small_files(self.path, (), HOUR_MS, MB, lambda: self.now_ms)
        return report.files_before, report.files_after, report.deleted


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    made = Archive(tmp_path)
    for batch in range(4):
        first = batch * 5
        made.write(
            batch,
            [
                record(at, timestamp=BASE_MS + batch % 2 * HOUR_MS + at)
                for at in range(first, first + 5)
            ],
        )
    return made


def test_merged_files_hold_the_same_rows_and_say_so(archive: Archive) -> None:
    before = archive.rows()

    assert archive.merge() == (4, 2, 0)

    assert sorted(archive.rows(), key=lambda row: row["offset"]) == before  # type: ignore[arg-type, return-value]
    entries = archive.state().entries()
    assert [(e.hour, e.first_offset, e.last_offset, e.rows) for e in entries] == [
        ("2026-11-21T13", 0, 14, 10),
        ("2026-11-21T14", 5, 19, 10),
    ]
    assert [check_file(archive.path, entry) for entry in entries] == [None, None]
    assert archive.merge() == (0, 0, 0)


def test_what_was_merged_is_deleted_once_readers_had_time(archive: Archive) -> None:
    archive.merge()
    archive.now_ms += GRACE_MS

    assert archive.merge() == (0, 0, 4)
    assert len(list(Path(archive.path).rglob("*.parquet"))) == 2


def test_a_damaged_file_is_not_merged(archive: Archive) -> None:
    entry = archive.state().entries()[0]
    file = Path(archive.path) / entry.path
    file.write_bytes(file.read_bytes()[:-1] + b"?")

    with pytest.raises(PipelineError, match="has other content than was written"):
        archive.merge()

    assert len(archive.state().files) == 4


def test_files_that_are_not_parquet_are_not_merged(archive: Archive) -> None:
    entries = archive.state().entries()[:2]
    for entry in entries:
        (Path(archive.path) / entry.path).write_bytes(b"something else")
    entries = [as_it_is_now(archive.path, entry) for entry in entries]

    with (
        ArchiveWriter(archive.path, "merge") as writer,
        pytest.raises(PipelineError, match=r"are not Parquet files .* nothing was merged"),
    ):
        merge_files(writer, entries)

    assert len(archive.state().files) == 4


@pytest.mark.parametrize(
    ("order", "what"),
    [
        ([1, 0, 2, 3, 4], "holds offset 0 after 1: rows have to rise"),
        ([0, 1, 1, 3, 4], "holds offset 1 after 1: rows have to rise"),
        ([0, 1, 2, 3, 13], "holds offset 13, and its manifest says 0 to 4"),
    ],
)
def test_rows_that_are_not_in_order_are_not_merged(
    archive: Archive, order: list[int], what: str
) -> None:
    entries = [entry for entry in archive.state().entries() if entry.hour.endswith("13")]
    path = f"{archive.path}/{entries[0].path}"
    table = pq.read_table(path)
    offsets_now = pa.array(order, table.schema.field("offset").type)
    at = table.schema.get_field_index("offset")
    pq.write_table(table.set_column(at, table.schema.field(at), offsets_now), path)
    entries[0] = as_it_is_now(archive.path, entries[0])

    with ArchiveWriter(archive.path, "merge") as writer, pytest.raises(PipelineError) as refused:
        merge_files(writer, entries)

    assert str(refused.value) == f"{path} {what}; `kbroker pipeline audit` shows more"
    assert len(archive.state().files) == 4


def test_files_with_and_without_parsed_values_become_one(archive: Archive) -> None:
    first, second = (each for each in archive.state().entries() if each.hour.endswith("13"))
    path = f"{archive.path}/{second.path}"
    table = pq.read_table(path)
    pq.write_table(table.append_column("json", pa.array([f"j{at}" for at in range(5)])), path)

    with ArchiveWriter(archive.path, "merge") as writer:
        merged = merge_files(writer, [first, as_it_is_now(archive.path, second)])

    found = pq.read_table(f"{archive.path}/{merged.path}")
    assert found["json"].to_pylist() == [None] * 5 + [f"j{at}" for at in range(5)]


def test_expired_files_leave_and_their_offsets_stay_known(archive: Archive) -> None:
    keep_ms = LATER_MS - (BASE_MS + HOUR_MS)

    dry = expire_files(archive.path, keep_ms, (), is_dry_run=True, now_ms=lambda: LATER_MS)
    assert len(archive.state().files) == 4
    gone = expire_files(archive.path, keep_ms, (), now_ms=lambda: LATER_MS)

    assert dry == gone
    assert [entry.first_offset for entry in gone] == [0, 10]
    state = archive.state()
    assert state.ranges == {T0: ((0, 20),)}
    assert [(each.first_offset, each.missing, each.reason) for each in state.holes[T0]] == [
        (0, 5, "expired"),
        (10, 5, "expired"),
    ]


def test_upkeep_makes_no_archive_of_a_directory_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="is not an archive"):
        merge_small_files(str(tmp_path), (), HOUR_MS, MB)
    with pytest.raises(PipelineError, match="is not an archive"):
        expire_files(str(tmp_path), HOUR_MS, ())
    assert list(tmp_path.iterdir()) == []
