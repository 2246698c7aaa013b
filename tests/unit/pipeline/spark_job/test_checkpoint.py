"""A checkpoint belongs to one job, source and target, and says where each batch begins and ends."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

import pytest

from kbroker.model import TopicPartition
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.spark_job.checkpoint import JOB_FILE, Checkpoint, JobIdentity
from kbroker.pipeline.spark_job.offsets import OffsetRange, Offsets, format_offsets

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
IDENTITY = JobIdentity(kind="archive", name="nightly", source="kafka h:1 topics a", target="/to")


@dataclass
class Look:
    """A source as a checkpoint sees it."""

    starts: Offsets = field(default_factory=lambda: {A0: 0, A1: 0})
    ids: Mapping[str, str] = field(default_factory=dict)

    def earliest(self) -> Offsets:
        return self.starts

    def topic_ids(self) -> Mapping[str, str]:
        return self.ids


def begin_batch(directory: Path, number: int, offsets: Offsets) -> None:
    log = directory / "offsets"
    log.mkdir(exist_ok=True, parents=True)
    (log / str(number)).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{format_offsets(offsets)}')


def finish_batch(directory: Path, number: int) -> None:
    log = directory / "commits"
    log.mkdir(exist_ok=True, parents=True)
    (log / str(number)).write_text("v1\n{}")


def sentence(call: Any) -> str:
    with pytest.raises(PipelineError) as refused:
        call()
    return refused.value.sentence


def test_a_new_directory_gets_the_job_and_where_it_begins(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "new" / "one")

    record = checkpoint.claim(IDENTITY, Look({A0: 3, A1: 4}, {"a": "id-1"}))

    assert checkpoint.read(IDENTITY) == record
    assert record.start == {A0: 3, A1: 4}
    assert record.topic_ids == {"a": "id-1"}


def test_the_same_job_keeps_its_id_and_its_start(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    first = checkpoint.claim(IDENTITY, Look({A0: 3, A1: 4}))
    begin_batch(tmp_path, 0, {A0: 5, A1: 6})

    second = checkpoint.claim(IDENTITY, Look({A0: 5, A1: 6}))

    assert second == first


def test_the_start_is_looked_up_anew_until_a_batch_has_begun(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    first = checkpoint.claim(IDENTITY, Look({A0: 3}))

    second = checkpoint.claim(IDENTITY, Look({A0: 5, A1: 0}))

    assert second.start == {A0: 5, A1: 0}
    assert second.job_id == first.job_id


def test_the_start_stays_once_the_source_has_noted_it_for_itself(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    first = checkpoint.claim(IDENTITY, Look({A0: 3}))
    (tmp_path / "sources" / "0").mkdir(parents=True)
    (tmp_path / "sources" / "0" / ".0.crc").touch()
    before = checkpoint.claim(IDENTITY, Look({A0: 4}))
    (tmp_path / "sources" / "0" / "0").write_text('v1\n{"a":{"0":4}}')

    second = checkpoint.claim(IDENTITY, Look({A0: 5}))

    assert (first.start, before.start, second.start) == ({A0: 3}, {A0: 4}, {A0: 4})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kind": "audit"}, "belongs to another job: it has archive, this is audit"),
        ({"name": "daily"}, "belongs to another name: it has nightly, this is daily"),
        ({"source": "kafka i:2 topics a"}, "it has kafka h:1 topics a, this is kafka i:2 topics a"),
        ({"target": "/other"}, "belongs to another target: it has /to, this is /other"),
    ],
)
def test_the_checkpoint_of_another_is_refused(
    tmp_path: Path, change: dict[str, str], said: str
) -> None:
    Checkpoint(tmp_path).claim(IDENTITY, Look())

    assert said in sentence(lambda: Checkpoint(tmp_path).read(replace(IDENTITY, **change)))


def test_a_directory_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()

    assert "not a checkpoint of kbroker and not empty (it has photos)" in sentence(
        lambda: Checkpoint(tmp_path).read(IDENTITY)
    )


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    assert "Not a directory" in sentence(lambda: Checkpoint(tmp_path / "file").read(IDENTITY))


def job_file(directory: Path, change: dict[str, Any]) -> None:
    Checkpoint(directory).claim(IDENTITY, Look())
    path = directory / JOB_FILE
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))


@pytest.mark.parametrize(
    "change", [{"start": {"a": 1}}, {"name": 3}, {"start": None}, {"topic_ids": []}]
)
def test_a_damaged_job_file_is_told(tmp_path: Path, change: dict[str, Any]) -> None:
    job_file(tmp_path, change)

    assert "is damaged" in sentence(lambda: Checkpoint(tmp_path).read(IDENTITY))


@pytest.mark.parametrize("size", [0, 1, 40, 120])
def test_a_job_file_that_was_cut_is_told(tmp_path: Path, size: int) -> None:
    job_file(tmp_path, {})
    path = tmp_path / JOB_FILE
    path.write_bytes(path.read_bytes()[:size])

    assert "is damaged" in sentence(lambda: Checkpoint(tmp_path).read(IDENTITY))


def test_a_field_that_is_missing_is_named(tmp_path: Path) -> None:
    job_file(tmp_path, {})
    path = tmp_path / JOB_FILE
    content = json.loads(path.read_text())
    del content["target"]
    path.write_text(json.dumps(content))

    assert "'target' is missing" in sentence(lambda: Checkpoint(tmp_path).read(IDENTITY))


def test_a_later_layout_is_left_to_a_later_kbroker(tmp_path: Path) -> None:
    job_file(tmp_path, {"layout_version": 2})

    assert "layout version 2" in sentence(lambda: Checkpoint(tmp_path).read(IDENTITY))


def test_a_batch_reads_what_lies_between_it_and_the_one_before(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    record = checkpoint.claim(IDENTITY, Look({A0: 10}))
    begin_batch(tmp_path, 0, {A0: 15})
    finish_batch(tmp_path, 0)
    begin_batch(tmp_path, 1, {A0: 15, A1: 4})

    assert checkpoint.ranges(0, record) == {A0: OffsetRange(10, 15)}
    assert checkpoint.ranges(1, record) == {A1: OffsetRange(0, 4)}


def test_a_batch_that_was_begun_and_not_finished_is_still_to_be_done(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    record = checkpoint.claim(IDENTITY, Look({A0: 10}))
    before = (checkpoint.position(record), checkpoint.planned(record))
    begin_batch(tmp_path, 0, {A0: 15})
    begun = (checkpoint.position(record), checkpoint.planned(record))
    finish_batch(tmp_path, 0)
    finished = (checkpoint.position(record), checkpoint.planned(record))

    assert before == ({A0: 10}, {A0: 10})
    assert begun == ({A0: 10}, {A0: 15})
    assert finished == ({A0: 15}, {A0: 15})


def test_what_spark_left_half_written_is_told(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    record = checkpoint.claim(IDENTITY, Look())
    begin_batch(tmp_path, 0, {A0: 15})
    (tmp_path / "offsets" / "0").write_text("v1\n")

    assert "offsets/0 is damaged" in sentence(lambda: checkpoint.ranges(0, record))


def test_a_batch_whose_predecessor_is_missing_has_no_ranges(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    record = checkpoint.claim(IDENTITY, Look())
    begin_batch(tmp_path, 8, {A0: 15})

    assert "has no offsets of batch 7" in sentence(lambda: checkpoint.ranges(8, record))


def test_a_topic_that_was_made_anew_is_not_the_one_that_was_read(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    checkpoint.claim(IDENTITY, Look(ids={"a": "id-1"}))
    begin_batch(tmp_path, 0, {A0: 15})

    assert "topic a was deleted and created again: it has the id id-2" in sentence(
        lambda: checkpoint.claim(IDENTITY, Look(ids={"a": "id-2"}))
    )


def test_a_topic_that_came_later_is_remembered(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    checkpoint.claim(IDENTITY, Look(ids={"a": "id-1"}))
    begin_batch(tmp_path, 0, {A0: 15})

    checkpoint.claim(IDENTITY, Look(ids={"a": "id-1", "b": "id-7"}))
    checkpoint.claim(IDENTITY, Look(ids={"b": "id-7"}))

    record = checkpoint.read(IDENTITY)
    assert record is not None
    assert record.topic_ids == {"a": "id-1", "b": "id-7"}


def test_two_runs_at_a_time_are_refused(tmp_path: Path) -> None:
    def run_both() -> None:
        with Checkpoint(tmp_path).held(), Checkpoint(tmp_path).held():
            pass

    assert "another process runs on the checkpoint" in sentence(run_both)
    with Checkpoint(tmp_path).held():
        pass


def test_a_run_that_claims_nothing_leaves_no_directory(tmp_path: Path) -> None:
    new = Checkpoint(tmp_path / "new")
    with pytest.raises(PipelineError), new.held():
        raise PipelineError("refused")
    assert not new.directory.exists()

    with new.held():
        new.claim(IDENTITY, Look())
    with new.held():
        pass
    assert new.read(IDENTITY) is not None


def test_an_empty_directory_that_was_there_stays(tmp_path: Path) -> None:
    with Checkpoint(tmp_path).held():
        pass

    assert tmp_path.is_dir()


def test_a_lock_that_was_removed_is_nobodys(tmp_path: Path) -> None:
    """Between two steps of a run that opens the lock, another one ends and removes it."""
    checkpoint, other = Checkpoint(tmp_path / "new"), Checkpoint(tmp_path / "new")
    opened = checkpoint._lock_file
    calls = []

    def open_late() -> IO[str]:
        calls.append(opened())
        if len(calls) == 1:
            shutil.rmtree(checkpoint.directory)
        return calls[-1]

    checkpoint._lock_file = open_late  # type: ignore[method-assign]
    with checkpoint.held():
        assert len(calls) == 2
        with pytest.raises(PipelineError, match="another process runs"), other.held():
            pass


def test_a_checkpoint_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    checkpoint = Checkpoint(tmp_path / "file" / "checkpoint")

    with pytest.raises(PipelineError, match=r"cannot use .* as checkpoint: Not a directory"):
        checkpoint.claim(IDENTITY, Look())


def test_an_address_is_no_directory() -> None:
    assert "is an address" in sentence(lambda: Checkpoint("hdfs://namenode/checkpoint"))


def test_what_a_first_write_left_that_was_cut_short_is_no_foreign_file(tmp_path: Path) -> None:
    (tmp_path / f"{JOB_FILE}.tmp").write_text('{"layout_ver')

    record = Checkpoint(tmp_path).claim(IDENTITY, Look())

    assert Checkpoint(tmp_path).read(IDENTITY) == record
