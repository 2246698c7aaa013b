from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from kbroker.log.disk.file_system import RealFileSystem
from kbroker.log.disk.format import LOG_SUFFIX, file_name
from kbroker.pipeline.logdir.decode.record_columns import record_batches
from kbroker.pipeline.logdir.directory.log_catalog import LogCatalog
from kbroker.pipeline.logdir.directory.partition_log import real_disk
from kbroker.pipeline.logdir.planning.splits import PlannedTask, SplitOptions, plan, stretch_of
from kbroker.pipeline.logdir.segment_task import ReadOptions
from kbroker.pipeline.spark_job.offsets import OffsetRange
from tests.fakes.disks.data_directory import DataDirectory, written
from tests.fakes.logs.log_maker import NOW_MS, batch
from tests.golden import golden_logs

DISK = RealFileSystem()


def splits(
    path: Path, start: int = 0, end: int | None = None, committed: bool = False, **options: int
) -> list[tuple[PlannedTask, ...]]:
    catalog = LogCatalog(real_disk(), [str(path)], lambda _: True)
    stretches = [
        stretch_of(DISK, log, OffsetRange(start, log.end_offset if end is None else end))
        for log in catalog.logs(is_committed=committed)
    ]
    return plan(DISK, stretches, SplitOptions(**options))


def tasks(found: list[tuple[PlannedTask, ...]]) -> list[PlannedTask]:
    return [task for group in found for task in group]


def offsets(found: list[tuple[PlannedTask, ...]]) -> list[int]:
    """Return the offsets that the tasks give, read one after the other."""
    return [
        row["offset"]
        for planned in tasks(found)
        for rows in record_batches(DISK, planned.task, ReadOptions(columns=("offset",)))
        for row in rows.to_pylist()
    ]


def test_a_large_segment_is_cut_at_batches_of_its_index(tmp_path: Path) -> None:
    with written(tmp_path, index_interval_bytes=100) as directory:
        directory.fill(100)

    found = splits(tmp_path, max_partition_bytes=1000)

    assert len(found) > 5
    assert all(len(group) == 1 for group in found)
    assert offsets(found) == list(range(100))
    ends = [(planned.task.start_position, planned.task.end_position) for planned in tasks(found)]
    assert all(before[1] == after[0] for before, after in pairwise(ends))


def test_a_thousand_small_segments_make_few_tasks(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    for offset in range(1000):
        segment = tmp_path / "t-0" / file_name(offset, LOG_SUFFIX)
        segment.write_bytes(batch(b"v", base_offset=offset))

    found = splits(tmp_path, min_partitions=4)

    assert len(tasks(found)) == 1000
    assert 4 <= len(found) <= 8
    assert sorted(offsets(found)) == list(range(1000))


def test_partitions_of_a_topic_share_a_task_in_their_order(tmp_path: Path) -> None:
    with written(tmp_path) as directory:
        directory.fill(3, partition=1)
        directory.fill(3, partition=0)

    (group,) = splits(tmp_path)

    assert [planned.task.partition for planned in group] == [0, 1]


@pytest.mark.parametrize("start", [0, 1, 7, 30, 39])
@pytest.mark.parametrize("end", [0, 1, 8, 31, 40])
def test_a_range_gives_its_offsets_however_it_is_cut(tmp_path: Path, start: int, end: int) -> None:
    with written(tmp_path, segment_bytes=900, index_interval_bytes=50) as directory:
        for first in range(0, 40, 4):
            directory.append(*(b"v%d" % each for each in range(first, first + 4)))

    whole = splits(tmp_path, start, end)
    pieces = splits(tmp_path, start, end, max_partition_bytes=1)

    assert offsets(whole) == offsets(pieces) == list(range(start, end))


def test_segments_outside_the_range_are_left_out(tmp_path: Path) -> None:
    with written(tmp_path, segment_bytes=400) as directory:
        directory.fill(50)
    bases = sorted(int(file.stem) for file in tmp_path.glob("t-0/*.log"))

    found = tasks(splits(tmp_path, bases[2], bases[4]))

    assert [planned.task.segment_base_offset for planned in found] == bases[2:4]


def test_closed_segments_that_are_older_than_what_is_wanted_are_left_out(tmp_path: Path) -> None:
    with written(tmp_path, segment_bytes=400) as directory:
        directory.fill(20, timestamp=NOW_MS)
        directory.fill(20, timestamp=NOW_MS + 5_000)
    everything = tasks(splits(tmp_path))

    found = splits(tmp_path, min_timestamp_ms=NOW_MS + 1)

    assert len(tasks(found)) < len(everything)
    assert set(offsets(found)) >= set(range(20, 40))
    assert min(offsets(found)) > 10


def test_a_time_index_that_its_batch_contradicts_is_not_believed(tmp_path: Path) -> None:
    with written(tmp_path, segment_bytes=400) as directory:
        directory.fill(20, timestamp=NOW_MS)
        directory.fill(20, timestamp=NOW_MS + 5_000)
    for file in tmp_path.glob("t-0/*.timeindex"):
        data = bytearray(file.read_bytes())
        data[0:8] = bytes(8)
        data[-12:-4] = bytes(8)
        file.write_bytes(data)

    assert offsets(splits(tmp_path, min_timestamp_ms=NOW_MS + 1)) == list(range(40))


def test_a_time_index_that_nobody_brought_to_the_disk_is_not_believed(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path, segment_bytes=400, index_interval_bytes=1)
    for step in range(20):
        directory.fill(1, timestamp=NOW_MS + 1_000 * step)
    directory.kill()
    first = tmp_path / "t-0" / f"{0:020d}.timeindex"
    first.write_bytes(first.read_bytes()[:12])  # all that a power failure left

    found = offsets(splits(tmp_path, min_timestamp_ms=NOW_MS + 1_500))

    assert set(found) >= set(range(2, 20))


@pytest.mark.parametrize(
    "spoil", [lambda _: b"", lambda data: b"\xff" * len(data), lambda data: data[8:] + data[:8]]
)
def test_spoiled_offset_indexes_cost_time_but_no_record(tmp_path: Path, spoil) -> None:  # type: ignore[no-untyped-def]
    with written(tmp_path, segment_bytes=2000, index_interval_bytes=50) as directory:
        directory.fill(60)
    for file in tmp_path.glob("t-0/*.index"):
        file.write_bytes(spoil(file.read_bytes()))

    assert offsets(splits(tmp_path, 5, 57, max_partition_bytes=200)) == list(range(5, 57))


def test_aborted_transactions_go_to_the_tasks_that_they_touch(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path, segment_bytes=300)
    directory.begin(1, b"a")
    directory.fill(5)
    directory.begin(1, b"b")
    directory.end(1, commits=False)
    directory.fill(20)
    directory.stop()

    found = tasks(splits(tmp_path, committed=True))

    touched = [planned.task.start_offset <= 7 for planned in found]
    assert [bool(planned.task.aborted) for planned in found] == touched
    assert {True, False} == set(touched)
    assert offsets(splits(tmp_path, committed=True)) == [*range(1, 6), *range(8, 28)]


def test_a_task_is_current_until_its_segment_is_replaced(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path, segment_bytes=500)
    directory.fill(20)
    directory.checkpoint()
    found = tasks(splits(tmp_path))
    directory.fill(3)
    assert all(planned.is_current(DISK) for planned in found)

    closed = found[0]
    path = tmp_path / "t-0" / "00000000000000000000.log"
    path.write_bytes(path.read_bytes() + b"x")
    directory.kill()

    assert closed.is_closed
    assert not closed.is_current(DISK)


def test_an_active_segment_that_became_another_is_not_current(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path)
    directory.fill(10)
    directory.checkpoint()
    (planned,) = tasks(splits(tmp_path))
    path = tmp_path / "t-0" / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[20] ^= 1  # CRC of the first batch
    path.write_bytes(data)
    directory.kill()

    assert not planned.is_closed
    assert not planned.is_current(DISK)


@pytest.mark.parametrize("image", golden_logs.IMAGES)
def test_real_directories_give_the_same_records_whole_and_in_pieces(
    image: str, tmp_path: Path
) -> None:
    golden_logs.unpack(image, tmp_path)

    whole = splits(tmp_path, committed=True, min_partitions=1)
    pieces = splits(tmp_path, committed=True, max_partition_bytes=1)

    assert offsets(pieces) == offsets(whole)
    assert len(tasks(pieces)) > len(tasks(whole))
