"""What a query says, or reads all the same, where the disk refuses files of a log directory."""

from __future__ import annotations

from collections.abc import Iterator
from errno import EACCES, EIO, EMFILE
from pathlib import Path

import pytest

from kbroker.log.disk.file_system import RealFileSystem
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.logdir.directory.partition_log import Disk
from kbroker.pipeline.logdir.planning.batch_query import BatchQuery
from kbroker.pipeline.logdir.planning.log_stream import LogStream
from kbroker.pipeline.logdir.planning.source_options import parse_options
from kbroker.pipeline.logdir.planning.split_reading import read_split
from tests.fakes.disks.data_directory import DataDirectory
from tests.fakes.disks.failing_file_system import FailingFileSystem

READABLE = [*range(4), *range(6, 40)]  # 4 and 5: a transaction that was aborted


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[DataDirectory]:
    """Of a running broker."""
    directory = DataDirectory(tmp_path, segment_bytes=400, index_interval_bytes=1)
    directory.fill(4)
    directory.begin(7, b"aborted")
    directory.end(7, commits=False)
    directory.fill(34)
    directory.checkpoint()
    yield directory
    directory.kill()


@pytest.fixture
def disk() -> FailingFileSystem:
    return FailingFileSystem(RealFileSystem())


def read(directory: DataDirectory, disk: FailingFileSystem, **options: str) -> list[int]:
    given = {"path": str(directory.path), "columns": "offset", **options}
    query = BatchQuery(parse_options(given))
    plan = query.plan(Disk(disk))
    found = (rows for tasks in plan for rows in read_split(Disk(disk), tasks, query.reading))
    return [offset for rows in found for offset in rows.column(0).to_pylist()]


@pytest.mark.parametrize("is_live", [True, False])
@pytest.mark.parametrize(("operation", "number"), [("open", EACCES), ("read", EIO)])
@pytest.mark.parametrize("suffix", ["index", "timeindex", "txnindex", "snapshot"])
def test_files_that_only_tell_of_the_log_are_done_without(
    directory: DataDirectory,
    disk: FailingFileSystem,
    is_live: bool,
    operation: str,
    number: int,
    suffix: str,
) -> None:
    if not is_live:
        directory.stop()
    disk.fail(operation, f"*.{suffix}", number=number, times=None)

    assert read(directory, disk, startingTimestamp="1") == READABLE


@pytest.mark.parametrize(
    ("operation", "number", "reason"),
    [
        ("open", EACCES, "cannot open .*log: Permission denied; run this as the user of the"),
        ("read", EIO, "cannot read .*log: Input/output error; the disk is failing: save"),
        ("stat", EIO, "cannot stat .*log: Input/output error; the disk is failing"),
        ("open", EMFILE, "cannot open .*log: Too many open files$"),
    ],
)
@pytest.mark.parametrize("on_damage", ["fail", "skip"])
def test_a_segment_that_the_disk_refuses_is_one_sentence(
    directory: DataDirectory,
    disk: FailingFileSystem,
    operation: str,
    number: int,
    reason: str,
    on_damage: str,
) -> None:
    disk.fail(operation, "*.log", number=number, times=None)

    with pytest.raises(PipelineError, match=reason):
        read(directory, disk, onDamage=on_damage)


@pytest.mark.parametrize("file", ["replication-offset-checkpoint", "log-start-offset-checkpoint"])
def test_a_running_brokers_log_is_not_read_without_its_bounds(
    directory: DataDirectory, disk: FailingFileSystem, file: str
) -> None:
    directory.retain(10)
    directory.checkpoint()
    disk.fail("read", f"*/{file}", times=None)

    with pytest.raises(PipelineError, match=rf"/{file} cannot be read: .*a broker runs on .*only"):
        read(directory, disk)


def test_a_directory_that_goes_while_a_stream_runs_is_one_sentence(
    directory: DataDirectory, disk: FailingFileSystem
) -> None:
    stream = LogStream(parse_options({"path": str(directory.path)}), Disk(disk))
    start = stream.latest()
    moved = directory.path.with_name("moved")
    directory.path.rename(moved)

    with pytest.raises(PipelineError, match=f"^{directory.path} does not exist$"):
        stream.latest_from(start, None)
    directory.path.mkdir()
    with pytest.raises(PipelineError, match=f"^{directory.path} is empty: it holds no log$"):
        stream.latest_from(start, None)
    moved.rename(directory.path)
    assert stream.latest_from(start, None) == start


def test_a_topic_that_is_deleted_while_a_stream_runs_is_one_sentence(
    directory: DataDirectory, disk: FailingFileSystem
) -> None:
    stream = LogStream(parse_options({"path": str(directory.path)}), Disk(disk))
    start = stream.latest()
    disk.remove_tree(str(directory.path / "t-0"))

    with pytest.raises(PipelineError, match=r"^no directory holds t-0, which the offsets name"):
        stream.latest_from(start, None)
