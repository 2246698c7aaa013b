"""The files of an archive for any reader of Parquet: those that its manifests name, and no others."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow.parquet
import pytest

from kbroker.pipeline import ArchiveSelection, archive_files
from kbroker.pipeline.errors import PipelineError
from tests.fakes.archives.arrow_records import HOUR_MS, record
from tests.fakes.archives.parquet_archive import archive_rows


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Three records of one hour and one of the next, and a copy of a file that no manifest names."""
    rows = [record(offset) for offset in range(3)]
    later = record(3)
    entries = archive_rows(
        str(tmp_path), rows, [{**later, "timestamp": later["timestamp"] + HOUR_MS}]
    )
    first = tmp_path / entries[0].path
    shutil.copy(first, first.with_name("left-by-a-batch-that-broke-off.parquet"))
    return tmp_path


def offsets(files: list[str]) -> list[int]:
    tables = [pyarrow.parquet.read_table(file, columns=["offset"]) for file in files]
    return sorted(offset for table in tables for offset in table["offset"].to_pylist())


def test_files_that_no_manifest_names_are_left_out(archive: Path) -> None:
    assert len(offsets([str(path) for path in archive.rglob("*.parquet")])) == 7
    assert offsets(archive_files(str(archive))) == [0, 1, 2, 3]


def test_a_selection_chooses_files_by_what_they_hold(archive: Path) -> None:
    assert offsets(archive_files(str(archive), ArchiveSelection(start_offset=3))) == [3]
    assert offsets(archive_files(str(archive), ArchiveSelection(end_offset=2))) == [0, 1, 2]
    assert archive_files(str(archive), ArchiveSelection(partitions=(1,))) == []
    assert archive_files(str(archive), rejected=True) == []


def test_a_topic_that_is_not_in_the_archive_is_refused(archive: Path) -> None:
    with pytest.raises(PipelineError, match="has no topic tt: it has t"):
        archive_files(str(archive), ArchiveSelection(topics=("tt",)))
