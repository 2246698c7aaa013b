from __future__ import annotations

import logging
import re
from pathlib import Path
from uuid import UUID

import pytest

from kbroker.log.disk.file_system import RealFileSystem
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.logdir.directory.log_catalog import LogCatalog
from kbroker.pipeline.logdir.directory.partition_log import Disk, real_disk
from kbroker.pipeline.logdir.planning.split_reading import SplitReading, read_split
from kbroker.pipeline.logdir.planning.splits import PlannedTask, SplitOptions, plan, stretch_of
from kbroker.pipeline.logdir.segment_task import ReadOptions
from kbroker.pipeline.spark_job.offsets import OffsetRange
from tests.fakes.disks.data_directory import DataDirectory, written
from tests.fakes.logs.log_maker import NOW_MS

DISK = RealFileSystem()


def planned(path: Path, start: int = 0, end: int | None = None) -> list[PlannedTask]:
    (log,) = LogCatalog(real_disk(), [str(path)], lambda _: True).logs(is_committed=False)
    wanted = OffsetRange(start, log.end_offset if end is None else end)
    groups = plan(DISK, [stretch_of(DISK, log, wanted)], SplitOptions())
    return [task for group in groups for task in group]


def reading(column: str = "offset", **options: bool) -> SplitReading:
    settings = {"is_batch_detail": False, "skips_damage": False, "fails_on_data_loss": True}
    return SplitReading(read=ReadOptions(columns=(column,)), **{**settings, **options})


def read(
    tasks: list[PlannedTask], how: SplitReading | None = None, disk: Disk | None = None
) -> list[int]:
    found = read_split(disk or real_disk(), tasks, how or reading())
    return [value for rows in found for value in rows.column(0).to_pylist()]


@pytest.fixture
def directory(tmp_path: Path) -> DataDirectory:
    """Dead after the test or before it: 40 records in segments of a few."""
    with written(tmp_path, segment_bytes=400, file_delete_delay_ms=0) as directory:
        directory.fill(40)
    return directory


def merge_first_segments(path: Path) -> None:
    """Do what the cleaner does: the first two segments become one, under the name of the first."""
    first, second = sorted(path.glob("t-0/*.log"))[:2]
    first.write_bytes(first.read_bytes() + second.read_bytes())
    for suffix in (".index", ".timeindex"):
        first.with_suffix(suffix).unlink()
    for file in path.glob(f"t-0/{second.stem}.*"):
        file.unlink()


def test_segments_that_the_cleaner_replaced_are_looked_for_anew(
    directory: DataDirectory,
) -> None:
    tasks = planned(directory.path, 2, 38)
    merge_first_segments(directory.path)

    assert read(tasks) == list(range(2, 38))


@pytest.mark.parametrize("skips_damage", [False, True])
def test_a_segment_that_is_replaced_while_it_is_looked_at_is_read_right(
    directory: DataDirectory, skips_damage: bool
) -> None:
    tasks = planned(directory.path, 2, 38)
    first = str(min(directory.path.glob("t-0/*.log")))

    class Cleaning(RealFileSystem):
        """Takes the first batch out of the first segment when it is opened for the second time."""

        opened = 0

        def open(self, path: str, **how: bool):  # type: ignore[no-untyped-def, override]
            self.opened += path == first
            if self.opened == 2:
                self.opened += 1
                data = self.read_bytes(path)
                size = 12 + int.from_bytes(data[8:12], "big")
                self.write_bytes(path + ".swap", data[size:])
                self.rename(path + ".swap", path)
            return super().open(path, **how)

    assert read(tasks, reading(skips_damage=skips_damage), Disk(Cleaning())) == list(range(2, 38))


def test_a_segment_that_retention_removed_ends_the_query_or_is_left_out(
    directory: DataDirectory,
) -> None:
    tasks = planned(directory.path)
    first, second = sorted(directory.path.glob("t-0/*.log"))[:2]
    first.unlink()
    start = int(second.stem)

    with pytest.raises(PipelineError, match=rf"t-0 begins with offset {start}, and 0 was to be"):
        read(tasks)
    assert read(tasks, reading(fails_on_data_loss=False)) == list(range(start, 40))


def test_a_partition_that_went_ends_the_query_or_is_left_out(directory: DataDirectory) -> None:
    tasks = planned(directory.path)
    DISK.remove_tree(str(directory.path / "t-0"))

    with pytest.raises(PipelineError, match="t-0 is gone, and offsets from 0 to"):
        read(tasks)
    assert read(tasks, reading(fails_on_data_loss=False)) == []


def test_a_broker_that_was_started_anew_may_speak_of_less_for_a_while(tmp_path: Path) -> None:
    with written(tmp_path) as directory:
        directory.fill(40)
    tasks = planned(tmp_path)
    directory.start()
    directory.fill(1)
    directory.checkpoint(t_0=25)

    found = read(tasks)
    directory.stop()

    assert found == list(range(40))


def test_a_broker_that_was_started_anew_with_less_ends_the_query_or_is_read_so_far(
    tmp_path: Path,
) -> None:
    with written(tmp_path) as directory:
        directory.fill(40)
    tasks = planned(tmp_path)
    directory.start()
    directory.truncate(30)
    directory.checkpoint()

    with pytest.raises(PipelineError, match=r"t-0 can be read up to offset 30, and 40 was to be"):
        read(tasks)
    assert read(tasks, reading(fails_on_data_loss=False)) == list(range(30))
    directory.stop()


def test_records_of_another_topic_of_that_name_are_not_read_in_their_place(
    tmp_path: Path,
) -> None:
    directory = DataDirectory(tmp_path, segment_bytes=400)
    directory.make_anew(UUID(int=1))
    directory.fill(20)
    directory.checkpoint()
    tasks = planned(tmp_path)
    directory.make_anew(UUID(int=2))
    directory.fill(30, timestamp=NOW_MS + 1)
    directory.checkpoint()

    with pytest.raises(PipelineError, match=rf"t-0 .*{UUID(int=2)}.*{UUID(int=1)}.*created again"):
        read(tasks)
    assert read(tasks, reading(fails_on_data_loss=False)) == []
    directory.stop()


def test_segments_that_never_come_to_rest_are_given_up(directory: DataDirectory) -> None:
    tasks = planned(directory.path)
    log = str(directory.path / "t-0" / "00000000000000000000.log")

    class Restless(RealFileSystem):
        times = 0

        def modified_ms(self, path: str) -> int:
            if path == log:
                self.times += 1
            return self.times

    with pytest.raises(PipelineError, match="keeps changing"):
        read(tasks, disk=Disk(Restless()))


def test_a_broken_batch_ends_the_query_with_what_to_run(directory: DataDirectory) -> None:
    spoil(directory.path)

    reason = (
        r"000\.log: the batch at position \d+, offset 2: .*`kbroker log verify .*/t-0`.*onDamage"
    )
    with pytest.raises(PipelineError, match=reason):
        read(planned(directory.path))


def test_broken_batches_are_left_out_and_told_of(
    directory: DataDirectory, caplog: pytest.LogCaptureFixture
) -> None:
    spoil(directory.path)

    with caplog.at_level(logging.WARNING):
        found = read(planned(directory.path), reading(skips_damage=True))

    assert found == [0, 1, *range(3, 40)]
    assert "offset 2" in caplog.text
    assert re.search(r"Places left out of .*/t-0: 1$", caplog.text, re.MULTILINE)


def spoil(path: Path) -> None:
    """Change one bit in the record at offset 2; batches there have one size."""
    log = min(path.glob("t-0/*.log"))
    data = bytearray(log.read_bytes())
    size = 12 + int.from_bytes(data[8:12], "big")
    data[3 * size - 1] ^= 1
    log.write_bytes(data)


def test_each_batch_is_in_the_range_of_its_last_offset_only(tmp_path: Path) -> None:
    with written(tmp_path) as directory:
        for _ in range(5):
            directory.append(b"a", b"b", b"c", b"d")

    of_batches = reading("lastOffset", is_batch_detail=True)
    found = [read(planned(tmp_path, *ends), of_batches) for ends in ((0, 6), (6, 8), (8, 20))]

    assert found == [[3], [7], [11, 15, 19]]


def test_batches_of_a_range_can_be_read_without_naming_their_last_offset(tmp_path: Path) -> None:
    with written(tmp_path) as directory:
        directory.append(b"a", b"b")

    assert read(planned(tmp_path), reading("recordCount", is_batch_detail=True)) == [2]
