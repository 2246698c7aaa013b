"""The newest archived record of a partition, and the one at the source in its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kbroker.model import TopicPartition
from kbroker.pipeline.archiving.evidence.same_source import (
    ArchivedRecord,
    newest_records,
    other_records,
)
from kbroker.pipeline.archiving.manifests.archive_state import ArchiveState
from kbroker.pipeline.archiving.tasks.record_files import open_parquet
from tests.fakes.archives.archive_maker import HOUR_START_MS, file_entry
from tests.fakes.clusters.source_identity import KnownIdentity

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def archive(path: Path, *stretches: tuple[int, int], **fields: Any) -> ArchiveState:
    """Files of offsets from first to last; the record at offset N has N ms."""
    state = ArchiveState(path=str(path), archive_id="a")
    for first, last in stretches:
        entry = file_entry(first, last, **fields)
        state.files[entry.path] = entry
        (path / entry.path).parent.mkdir(parents=True, exist_ok=True)
        offsets = range(first, last + 1)
        times = [1_000 * (HOUR_START_MS + at) for at in offsets]
        columns = [pa.array(offsets, pa.int64()), pa.array(times, pa.timestamp("us", "UTC"))]
        batch = pa.record_batch(columns, names=["offset", "timestamp"])
        with open_parquet(f"{path}/{entry.path}", batch.schema) as file:
            file.write_batch(batch, row_group_size=3)
    return state


def test_the_newest_record_is_the_last_of_the_file_that_goes_furthest(tmp_path: Path) -> None:
    state = archive(tmp_path, (0, 9), (20, 27), (10, 19))

    assert newest_records(state, [T0, T1]) == {T0: ArchivedRecord(27, HOUR_START_MS + 27)}
    assert newest_records(state, [T1]) == {}


@pytest.mark.parametrize("content", [None, b"PAR1 and no more"])
def test_a_file_that_cannot_be_read_says_nothing(tmp_path: Path, content: bytes | None) -> None:
    state = archive(tmp_path, (0, 9))
    (file,) = tmp_path.rglob("*.parquet")
    file.unlink()
    if content is not None:
        file.write_bytes(content)

    assert newest_records(state, [T0]) == {}


def test_a_record_without_an_exact_time_says_nothing(tmp_path: Path) -> None:
    assert newest_records(archive(tmp_path, (0, 9), hour="no-time"), [T0]) == {}


def test_a_record_of_another_time_is_another_record() -> None:
    archived = {T0: ArchivedRecord(9, 900), T1: ArchivedRecord(4, 400)}
    source = KnownIdentity()

    source.times = {T0: {9: 900}}  # compaction took the other
    assert other_records(archived, source) == {}
    source.times = {T0: {9: 901}, T1: {4: 400}}
    assert other_records(archived, source) == {T0: 901}
    source.is_reachable = False
    assert other_records({}, source) == {}
