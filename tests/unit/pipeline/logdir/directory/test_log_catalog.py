from __future__ import annotations

from pathlib import Path

import pytest

from kbroker.log.disk.file_system import RealFileSystem
from kbroker.model import TopicPartition
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.logdir.directory.log_catalog import (
    LogCatalog,
    ReadableLog,
    Selection,
    absolute,
)
from kbroker.pipeline.logdir.directory.partition_log import Disk, real_disk
from tests.fakes.disks.data_directory import DataDirectory, written
from tests.fakes.disks.failing_file_system import FailingFileSystem


def logs(*paths: Path, committed: bool = False, **selection: object) -> list[ReadableLog]:
    wanted = Selection(**selection)  # type: ignore[arg-type]
    catalog = LogCatalog(real_disk(), [str(path) for path in paths], wanted.wants)
    return catalog.logs(is_committed=committed)


def names(found: list[ReadableLog]) -> list[str]:
    return [str(each.log.topic_partition) for each in found]


def fill(path: Path, *partitions: tuple[str, int]) -> Path:
    with written(path) as directory:
        for topic, partition in partitions:
            directory.fill(1, topic=topic, partition=partition)
    return path


def test_partitions_of_several_directories_come_by_topic_and_number(tmp_path: Path) -> None:
    a = fill(tmp_path / "a", ("orders", 1), ("people", 0))
    b = fill(tmp_path / "b", ("orders", 0), ("orders", 10))

    assert names(logs(a, b)) == ["orders-0", "orders-1", "orders-10", "people-0"]


def test_internal_topics_are_only_read_when_they_are_asked_for(tmp_path: Path) -> None:
    path = fill(tmp_path / "a", ("orders", 0), ("__consumer_offsets", 7), ("__cluster_metadata", 0))

    assert names(logs(path)) == ["orders-0"]
    assert names(logs(path, pattern=".*")) == ["orders-0"]
    assert names(logs(path, topics=frozenset({"__consumer_offsets"}))) == ["__consumer_offsets-7"]
    assert len(logs(path, includes_internal=True)) == 3


def test_a_pattern_is_for_whole_names(tmp_path: Path) -> None:
    path = fill(tmp_path / "a", ("order", 0), ("orders", 0), ("pre-orders", 0))

    assert names(logs(path, pattern="orders?")) == ["order-0", "orders-0"]


def test_partitions_are_chosen_by_number(tmp_path: Path) -> None:
    path = fill(tmp_path / "a", ("t", 0), ("t", 1), ("u", 1))

    assert names(logs(path, partitions=frozenset({1}))) == ["t-1", "u-1"]


def test_one_partition_directory_is_read_with_what_the_directory_around_it_says(
    tmp_path: Path,
) -> None:
    directory = DataDirectory(tmp_path / "a")
    directory.fill(5)
    directory.checkpoint(t_0=3)

    found = logs(tmp_path / "a" / "t-0")
    directory.stop()

    assert [(each.log.is_live, each.end_offset) for each in found] == [(True, 3)]


def test_a_partition_in_two_places_is_refused_unless_rows_can_be_told_apart(
    tmp_path: Path,
) -> None:
    a, b = fill(tmp_path / "a", ("t", 0)), fill(tmp_path / "b", ("t", 0))
    catalog = LogCatalog(real_disk(), [str(a), str(b)], lambda _: True)

    with pytest.raises(PipelineError, match=rf"t-0 lies in {a}/t-0 and in {b}/t-0: .*`directory`"):
        catalog.logs(is_committed=False)
    assert len(catalog.logs(is_committed=False, may_repeat=True)) == 2


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: None, "does not exist"),
        (lambda path: path.write_text("x"), "is not a directory"),
        (lambda path: path.mkdir(), "is empty"),
        (lambda path: (path / "sub").mkdir(parents=True), "is neither a data directory"),
    ],
)
def test_a_path_without_a_log_is_one_sentence(tmp_path: Path, make, reason: str) -> None:  # type: ignore[no-untyped-def]
    make(tmp_path / "a")

    with pytest.raises(PipelineError, match=reason):
        logs(tmp_path / "a")


@pytest.mark.parametrize("is_live", [False, True])
def test_a_log_that_has_not_changed_is_not_read_again(tmp_path: Path, is_live: bool) -> None:
    directory = DataDirectory(tmp_path / "a")
    directory.fill(3)
    directory.checkpoint()
    if not is_live:
        directory.kill()
    disk = FailingFileSystem(RealFileSystem())
    disk.log = []
    catalog = LogCatalog(Disk(disk), [str(tmp_path / "a")], lambda _: True)
    first = catalog.by_partition(is_committed=True)
    before = [each for each in disk.log if each[1].endswith(".log") and each[0] == "read"]

    disk.log = []
    second = catalog.by_partition(is_committed=True)
    again = [each for each in disk.log if each[1].endswith(".log") and each[0] == "read"]
    if is_live:
        directory.kill()

    assert before
    assert again == []
    assert first == second == {TopicPartition("t", 0): first[TopicPartition("t", 0)]}


def test_a_partition_directory_that_goes_meanwhile_is_left_out(tmp_path: Path) -> None:
    path = fill(tmp_path / "a", ("t", 0), ("u", 0))

    class Vanishing(RealFileSystem):
        def list(self, directory: str) -> list[str]:
            if directory.endswith("/t-0") and self.exists(directory):
                self.remove_tree(directory)
            return super().list(directory)

    found = LogCatalog(Disk(Vanishing()), [str(path)], lambda _: True).logs(is_committed=True)

    assert names(found) == ["u-0"]


@pytest.mark.parametrize("path", ["/data/kafka", "file:/data/kafka", "file:///data/kafka/"])
def test_a_path_may_be_written_as_a_uri(path: str) -> None:
    assert absolute(path) == "/data/kafka"
