from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from kbroker.log.disk.checkpoint import write_partition_metadata
from kbroker.log.disk.file_system import RealFileSystem
from kbroker.model import TopicPartition
from kbroker.pipeline.errors import ExitCode, PipelineError
from kbroker.pipeline.sources.log_directory_source import LogDirectorySource
from kbroker.pipeline.spark_job.source import Source
from tests.fakes.disks.data_directory import DataDirectory, written
from tests.golden import golden_logs


@pytest.mark.parametrize("image", golden_logs.IMAGES)
@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_starts_and_ends_are_what_a_java_client_was_told(
    image: str, isolation: str, tmp_path: Path
) -> None:
    wanted: dict[TopicPartition, tuple[int, int]] = {
        TopicPartition(row["topic"], row["partition"]): (row["start"], row["end"])
        for row in golden_logs.lines(image, "expected")
        if row["kind"] == "offsets" and row["isolation"] == isolation
    }
    golden_logs.unpack(image, tmp_path)
    options = {"isolation.level": isolation, "includeInternal": "true"}

    source = LogDirectorySource([str(tmp_path)], options=options)
    starts, ends = source.earliest(), source.latest()

    found = {each: (starts[each], ends[each]) for each in starts}
    found.pop(TopicPartition("__cluster_metadata", 0), None)  # KRaft's own: no client reads it
    assert found == wanted


def test_what_is_looked_up_follows_a_live_directory(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path)
    directory.fill(5)
    directory.checkpoint(t_0=3)
    source: Source = LogDirectorySource([str(tmp_path)])
    before = source.latest()
    directory.checkpoint()
    after = source.latest()
    directory.stop()

    assert (before, after) == ({TopicPartition("t", 0): 3}, {TopicPartition("t", 0): 5})


def test_a_broker_that_was_started_anew_holds_more_than_it_lets_be_read(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path)
    directory.fill(5)
    directory.checkpoint(t_0=3)
    ends = LogDirectorySource([str(tmp_path)]).log_ends()
    directory.stop()

    assert ends == {TopicPartition("t", 0): 5}


def test_a_topic_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with written(tmp_path) as directory:
        directory.fill(1)

    with pytest.raises(PipelineError, match=r"no such topic in .*: orders"):
        LogDirectorySource([str(tmp_path)], ["orders"]).earliest()
    with pytest.raises(PipelineError, match=r"no such topic in .*: q; tt, did you mean t\?$"):
        LogDirectorySource([str(tmp_path)], ["tt", "q"]).earliest()
    with pytest.raises(PipelineError, match=r"no topic in .* matches o\.\*"):
        LogDirectorySource([str(tmp_path)], pattern="o.*").latest()


def test_a_path_without_logs_is_wrong_use(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="missing does not exist") as refused:
        LogDirectorySource([str(tmp_path / "missing")]).earliest()

    assert refused.value.code == ExitCode.USAGE


@pytest.mark.parametrize(
    ("chosen", "text"),
    [
        ({}, "log directories /a /b topics all"),
        ({"topics": ["y", "x"]}, "log directories /a /b topics x,y"),
        ({"pattern": "x.*"}, "log directories /a /b pattern x.*"),
    ],
)
def test_the_same_source_has_the_same_identity(chosen: dict[str, Any], text: str) -> None:
    assert LogDirectorySource(["/a", "/b/", "/a"], **chosen).describe() == text


def test_partitions_of_two_topics_of_one_name_are_refused(tmp_path: Path) -> None:
    ids = []
    for name in ("t-0", "t-1"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{0:020d}.log").touch()
        ids.append(uuid4())
        write_partition_metadata(RealFileSystem(), str(tmp_path / name), ids[-1])
    sound = LogDirectorySource([str(tmp_path / "t-0")])
    mixed = LogDirectorySource([str(tmp_path)])

    assert sound.topic_ids() == {"t": str(ids[0])}
    with pytest.raises(PipelineError, match=f"has the id {ids[1]}, not {ids[0]}; leave out"):
        mixed.topic_ids()
