"""Cluster and leader epochs as directories have them."""

from __future__ import annotations

from errno import EACCES, EIO, ENOENT
from pathlib import Path

import pytest

from kbroker.log.disk.checkpoint import EpochEntry, write_leader_epochs
from kbroker.log.disk.file_system import RealFileSystem
from kbroker.model import TopicPartition
from kbroker.pipeline.archiving.evidence.log_evidence import LogIdentity
from kbroker.pipeline.logdir.directory.partition_log import Disk
from tests.fakes.disks.data_directory import DataDirectory, written
from tests.fakes.disks.failing_file_system import FailingFileSystem
from tests.golden import golden_logs

T0 = TopicPartition("t", 0)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    with written(tmp_path) as made:
        made.fill(30)
    entries = [EpochEntry(2, 0), EpochEntry(5, 12), EpochEntry(6, 20)]
    write_leader_epochs(RealFileSystem(), f"{tmp_path}/t-0", entries)
    return tmp_path


@pytest.mark.parametrize(("epoch", "end_offset"), [(1, 0), (2, 12), (4, 12), (5, 20)])
def test_an_epoch_ends_where_a_higher_one_begins(
    directory: Path, epoch: int, end_offset: int
) -> None:
    assert LogIdentity([str(directory)]).end_offsets({T0: epoch}) == {T0: end_offset}


def test_the_newest_epoch_is_the_leaders_and_has_no_end(directory: Path) -> None:
    found = LogIdentity([str(directory)])

    newest = found.leader_epochs([T0, TopicPartition("t", 9)])

    assert newest == {T0: 6}
    assert found.end_offsets(newest)[T0] > 10**18


@pytest.mark.parametrize("content", [None, b"", b"0\n1\nx y\n"])
def test_a_file_that_is_missing_or_damaged_says_nothing(
    directory: Path, content: bytes | None
) -> None:
    path = directory / "t-0" / "leader-epoch-checkpoint"
    path.unlink()
    if content is not None:
        path.write_bytes(content)

    found = LogIdentity([str(directory)])

    assert (found.leader_epochs([T0]), found.end_offsets({T0: 2})) == ({}, {})


def test_a_record_has_the_time_that_consumers_see(tmp_path: Path) -> None:
    golden_logs.unpack("3.9.2-clean", tmp_path)
    rows = [row for row in golden_logs.lines("3.9.2-clean", "expected") if row["kind"] == "record"]
    places = {TopicPartition(row["topic"], row["partition"]): row for row in rows}  # the last ones
    identity = LogIdentity([str(tmp_path)])

    found = identity.record_times({each: row["offset"] for each, row in places.items()})

    assert len(places) > 10
    assert found == {each: row["timestamp"] for each, row in places.items()}
    behind = {each: row["offset"] + 1_000_000 for each, row in places.items()}
    assert identity.record_times(behind) == {}


def test_a_cluster_id_is_that_of_the_data_directory(tmp_path: Path) -> None:
    data = golden_logs.unpack("3.9.2-clean", tmp_path)
    properties = (data / "meta.properties").read_text()
    partition = next(path for path in data.iterdir() if path.name.endswith("-0"))

    found = LogIdentity([str(data)]).cluster_id()

    assert found is not None
    assert f"cluster.id={found}\n" in properties
    assert LogIdentity([str(partition)]).cluster_id() == found


def test_a_directory_without_meta_properties_has_no_cluster(tmp_path: Path) -> None:
    assert LogIdentity([str(tmp_path)]).cluster_id() is None


@pytest.mark.parametrize("number", [EACCES, EIO, ENOENT])
def test_files_that_went_or_that_the_disk_refuses_say_nothing(directory: Path, number: int) -> None:
    disk = FailingFileSystem(RealFileSystem())
    identity = LogIdentity([str(directory)], Disk(disk))
    assert identity.cluster_id() == "cluster"
    assert identity.record_times({T0: 3}) != {}

    disk.fail("open", "*/leader-epoch-checkpoint", number=number, times=None)
    disk.fail("open", "*/meta.properties", number=number, times=None)
    assert (identity.leader_epochs([T0]), identity.end_offsets({T0: 2})) == ({}, {})
    assert identity.cluster_id() is None
    disk.fail("open", "*.log", number=number, at=2, times=None)  # the first look finds the end
    assert identity.record_times({T0: 3}) == {}


def test_no_log_is_read_for_its_epochs(tmp_path: Path) -> None:
    killed = DataDirectory(tmp_path)
    killed.fill(3)
    killed.kill()
    disk = FailingFileSystem(RealFileSystem())
    disk.log = []

    LogIdentity([str(tmp_path)], Disk(disk)).leader_epochs([T0])

    assert any(path.endswith("leader-epoch-checkpoint") for _, path in disk.log)
    assert [path for _, path in disk.log if path.endswith(".log")] == []
