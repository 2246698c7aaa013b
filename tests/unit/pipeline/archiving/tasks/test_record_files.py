"""Tasks: which files they write, and what they say of them."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from kbroker.pipeline.archiving.manifests.file_check import file_checksum
from kbroker.pipeline.archiving.tasks import record_files
from kbroker.pipeline.archiving.tasks.record_files import TaskOptions, write_records
from kbroker.pipeline.archiving.tasks.spark_tasks import facts_batch
from kbroker.pipeline.archiving.tasks.task_facts import FileFact, PartFact, TroubleFact, decode_fact
from tests.fakes.archives.arrow_records import BASE_MS, HOUR_MS, arrow_batch, record


def written(
    tmp_path: Path, *batches: Sequence[dict[str, Any]], **options: Any
) -> tuple[dict[str, FileFact], list[tuple[PartFact, list[list[int]]]]]:
    """Files by path, and parts with their gaps."""
    facts = write_records(
        iter([arrow_batch(rows) for rows in batches]),
        TaskOptions(staging=str(tmp_path), **options),
        "0-7",
    )
    files = {fact.entry.path: fact for fact, _ in facts if isinstance(fact, FileFact)}
    parts = [
        (fact, np.frombuffer(gaps, np.int64).reshape(-1, 2).tolist())
        for fact, gaps in facts
        if isinstance(fact, PartFact)
    ]
    return files, parts


def offsets_in(fact: FileFact) -> list[int]:
    return pq.read_table(fact.staged_path)["offset"].to_pylist()


def test_a_record_comes_back_whole(tmp_path: Path) -> None:
    rows = [
        record(0, key=None, value=None),
        record(1, key=b"", value=b"", headers=[]),
        record(2, headers=[{"key": "a", "value": b"1"}, {"key": "a", "value": None}]),
        record(3, timestampType=1, value=bytes(range(256)) * 10),
    ]

    files, _ = written(tmp_path, rows)

    (fact,) = files.values()
    found = pq.read_table(fact.staged_path).to_pylist()
    nothing = {"timestampMs": None, "headerNames": None}
    assert found == [row | nothing for row in arrow_batch(rows).to_pylist()]


def test_each_partition_and_hour_has_its_file_and_late_records_join_their_hour(
    tmp_path: Path,
) -> None:
    late = {"timestamp": BASE_MS - HOUR_MS}
    rows = [record(0), record(1, **late), record(2), record(5, partition=1), record(6, partition=1)]

    files, parts = written(tmp_path, rows, [record(3), record(4, **late)])

    assert {path: offsets_in(fact) for path, fact in files.items()} == {
        "data/t/2026-11-21/13/t-0-0-3.parquet": [0, 2, 3],
        "data/t/2026-11-21/12/t-0-1-4.parquet": [1, 4],
        "data/t/2026-11-21/13/t-1-5-6.parquet": [5, 6],
    }
    assert parts == [(PartFact("t", 0, 0, 4, 5), []), (PartFact("t", 1, 5, 6, 2), [])]


@pytest.mark.parametrize("timestamp", [-1, -5, 10**15])
def test_records_without_a_time_of_the_calendar_have_a_folder_of_their_own(
    tmp_path: Path, timestamp: int
) -> None:
    files, _ = written(tmp_path, [record(0, timestamp=timestamp)])

    (entry,) = (fact.entry for fact in files.values())
    assert entry.path == "data/t/no-time/t-0-0-0.parquet"
    assert (entry.hour, entry.min_timestamp_ms, entry.max_timestamp_ms) == ("no-time", -1, -1)


def test_an_entry_says_what_is_in_the_file(tmp_path: Path) -> None:
    files, _ = written(tmp_path, [record(4), record(5, timestamp=BASE_MS + 59), record(9)])

    (fact,) = files.values()
    entry = fact.entry
    assert (entry.first_offset, entry.last_offset, entry.rows) == (4, 9, 3)
    assert (entry.min_timestamp_ms, entry.max_timestamp_ms) == (BASE_MS + 4, BASE_MS + 59)
    assert entry.size_bytes == Path(fact.staged_path).stat().st_size
    assert entry.checksum == file_checksum(fact.staged_path)


def test_gaps_are_found_within_and_between_batches(tmp_path: Path) -> None:
    _, parts = written(tmp_path, [record(3), record(6)], [record(7), record(10)], [record(20)])

    assert parts == [(PartFact("t", 0, 3, 20, 5), [[4, 6], [8, 10], [11, 20]])]


def test_records_out_of_order_end_the_task_with_a_sentence(tmp_path: Path) -> None:
    batches = [arrow_batch([record(3), record(4)]), arrow_batch([record(4)])]

    ((fact, _),) = write_records(iter(batches), TaskOptions(staging=str(tmp_path)), "0-0")

    assert isinstance(fact, TroubleFact)
    assert "gave offset 4 of t-0 after 4" in fact.sentence


def test_a_directory_that_has_gone_is_a_sentence(tmp_path: Path) -> None:
    options = TaskOptions(staging=str(tmp_path / "gone"))

    ((fact, _),) = write_records(iter([arrow_batch([record(0)])]), options, "0-0")

    assert isinstance(fact, TroubleFact)
    assert "gone: No such file or directory; this step added nothing to it" in fact.sentence


def test_a_full_disk_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: str) -> int:
        raise OSError(errno.ENOSPC, "whatever", path)

    monkeypatch.setattr(record_files, "sync_file", full)
    staging = tmp_path / "staging" / "job-0"
    staging.mkdir(parents=True)

    ((fact, _),) = write_records(
        iter([arrow_batch([record(0)])]), TaskOptions(staging=str(staging)), "0-0"
    )

    assert isinstance(fact, TroubleFact)
    assert fact.sentence == (
        f"the archive {tmp_path} cannot be written: write {staging}: No space left on device; "
        "this step added nothing to it: make room, and run again"
    )


def test_a_task_without_records_says_nothing(tmp_path: Path) -> None:
    assert written(tmp_path) == ({}, [])


def test_attempts_do_not_meet(tmp_path: Path) -> None:
    options = TaskOptions(staging=str(tmp_path))
    paths = {
        fact.staged_path
        for attempt in ("0-1", "0-2")
        for fact, _ in write_records(iter([arrow_batch([record(0)])]), options, attempt)
        if isinstance(fact, FileFact)
    }

    assert len(paths) == 2


def test_more_hours_than_files_may_be_open_make_more_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_files, "OPEN_FILES", 2)
    rows = [record(at, timestamp=BASE_MS + at % 3 * HOUR_MS) for at in range(6)]

    files, _ = written(tmp_path, rows[:3], rows[3:])

    assert sorted(offset for fact in files.values() for offset in offsets_in(fact)) == list(
        range(6)
    )
    assert len({fact.staged_path for fact in files.values()}) == len(files) == 6


def test_row_groups_are_cut_by_size_and_hold_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_files, "ROW_GROUP_BYTES", 2_000)
    batches = [[record(at, value=bytes(1_000))] for at in range(6)]

    files, _ = written(tmp_path, *batches)

    (fact,) = files.values()
    assert pq.ParquetFile(fact.staged_path).num_row_groups == 3
    assert offsets_in(fact) == list(range(6))


def test_parsed_values_are_a_column_and_those_that_did_not_parse_a_file_of_their_own(
    tmp_path: Path,
) -> None:
    rows = [
        record(0, json_0="parsed", rejected=None),
        record(1, json_0=None, rejected="is not JSON"),
        record(2, topic="u", json_0=None, rejected=None),
    ]

    files, _ = written(tmp_path, rows, json_columns={"t": "json_0"})

    tables = {path: pq.read_table(fact.staged_path) for path, fact in files.items()}
    assert tables["data/t/2026-11-21/13/t-0-0-1.parquet"]["json"].to_pylist() == ["parsed", None]
    assert "json" not in tables["data/u/2026-11-21/13/u-0-2-2.parquet"].column_names
    rejected = tables["rejected/t/2026-11-21/13/t-0-1-1.parquet"]
    assert rejected.select(["offset", "reason"]).to_pylist() == [
        {"offset": 1, "reason": "is not JSON"}
    ]
    assert len(files) == 3


def test_facts_are_rows_for_the_driver(tmp_path: Path) -> None:
    facts = write_records(
        iter([arrow_batch([record(0), record(2)])]), TaskOptions(staging=str(tmp_path)), "0-0"
    )

    rows = facts_batch(facts).to_pylist()

    assert [(decode_fact(row["fact"]), row["gaps"]) for row in rows] == facts
