"""Offsets of a target are found by those of the source, also after a run that was killed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.model import TopicPartition
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.restoring.topics.offset_map import OffsetMap
from kbroker.pipeline.restoring.topics.offset_runs import (
    OffsetRun,
    joined_runs,
    runs_of,
    translated,
)

PLACE = TopicPartition("t", 0)
SETS = st.sets(st.integers(0, 60), max_size=30).map(sorted)


@given(SETS, st.integers(0, 1_000), st.integers(1, 5))
def test_runs_say_where_each_record_is(offsets: list[int], base: int, size: int) -> None:
    """Batches of `size` records, with a marker behind each."""
    runs: list[OffsetRun] = []
    places: dict[int, int] = {}
    for at in range(0, len(offsets), size):
        batch = offsets[at : at + size]
        runs += runs_of(batch, base)
        places |= {offset: base + n for n, offset in enumerate(batch)}
        base += len(batch) + 1

    for some in (runs, joined_runs(runs)):
        assert {
            run.source_offset + n: run.target_offset + n for run in some for n in range(run.records)
        } == places
        for offset in range(62):
            later = [each for each in offsets if each >= offset]
            expected = places[later[0]] if later else base - 1 if places else None
            assert translated(some, offset) == expected


def test_a_line_counts_once_its_transaction_does(tmp_path: Path) -> None:
    written = OffsetMap(tmp_path / "offsets", PLACE)
    written.go_on_after(0)
    written.add(1, 10, [OffsetRun(0, 0, 10)])
    written.add(2, 20, [OffsetRun(10, 11, 10)])

    again = OffsetMap(tmp_path / "offsets", PLACE)
    again.go_on_after(1)
    again.add(2, 15, [OffsetRun(10, 30, 5)])

    assert again.runs() == [OffsetRun(0, 0, 10), OffsetRun(10, 30, 5)]
    assert again.runs(1) == [OffsetRun(0, 0, 10)]
    assert [line.next_offset for line in again.lines()] == [10, 15]


def test_a_power_loss_does_not_take_a_new_map(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[int] = set()
    sync = os.fsync

    def noted(descriptor: int) -> None:
        synced.add(os.fstat(descriptor).st_ino)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    written = OffsetMap(tmp_path / "offsets", PLACE)
    written.go_on_after(0)

    paths = (written.path, written.path.parent, tmp_path)
    assert synced >= {path.stat().st_ino for path in paths}


def test_a_line_that_was_cut_short_is_dropped(tmp_path: Path) -> None:
    written = OffsetMap(tmp_path, PLACE)
    written.add(1, 10, [OffsetRun(0, 0, 10)])
    whole = written.path.read_bytes()
    written.add(2, 20, [OffsetRun(10, 11, 10)])
    written.path.write_bytes(written.path.read_bytes()[:-5])

    assert [line.number for line in written.lines()] == [1]
    written.go_on_after(1)
    assert written.path.read_bytes() == whole


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"what\n", "is damaged"),
        (b'{"number":2,"next_offset":1,"records":0,"runs":[]}\n', "line 1 is of transaction 2"),
        (b"", "has 0 of the 1 transactions"),
    ],
)
def test_a_map_that_lacks_what_is_committed_is_refused(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    written = OffsetMap(tmp_path, PLACE)
    written.path.write_bytes(content)

    with pytest.raises(PipelineError, match=reason):
        written.go_on_after(1)
