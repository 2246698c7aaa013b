"""What the job looks at before it writes anything: is it done, does it follow what is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from kbroker.model import TopicPartition
from kbroker.pipeline.archiving.archive_job import ArchiveJob, ArchiveOptions, ClusterAnswers
from kbroker.pipeline.archiving.evidence.hole_reasons import HoleContext
from kbroker.pipeline.archiving.manifests.archive_reading import read_archive, read_manifest
from kbroker.pipeline.archiving.manifests.archive_writer import ArchiveStep
from kbroker.pipeline.archiving.manifests.covered_ranges import Stretch
from kbroker.pipeline.archiving.tasks import batch_tasks
from kbroker.pipeline.archiving.topic_settings import ToldTopics, TopicSettings
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.spark_job.batch import Batch
from kbroker.pipeline.spark_job.offsets import OffsetRange
from tests.fakes.archives.archive_maker import JOB, PATH, files_below, two_batches, writer
from tests.fakes.clusters.source_identity import KnownIdentity
from tests.fakes.disks.archive_disk import RecordingArchiveDisk

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class NoWitness:
    """Nobody is asked."""

    def surroundings(self, partition: TopicPartition, holes: Sequence[Stretch]) -> HoleContext:
        raise AssertionError(partition)


class AllCompacted:
    """No record is left in any hole."""

    def surroundings(self, partition: TopicPartition, holes: Sequence[Stretch]) -> HoleContext:
        return HoleContext(covers=[], log_start_offset=0, compacted_end_offset=1_000)


@pytest.fixture
def disk() -> RecordingArchiveDisk:
    made = RecordingArchiveDisk()
    two_batches(made)
    return made


def job_on(disk: RecordingArchiveDisk, cluster: str | None = None) -> ArchiveJob:
    identity = KnownIdentity(cluster=cluster)
    return ArchiveJob(lambda job: writer(disk, job), NoWitness(), identity, ArchiveOptions())


def batch(number: int, start: int, end: int, job_id: str = JOB) -> Batch:
    return Batch(number=number, job_id=job_id, frame=None, ranges={T0: OffsetRange(start, end)})


def test_a_batch_whose_manifest_is_there_is_not_read_again(disk: RecordingArchiveDisk) -> None:
    job = job_on(disk)

    result = job.work(batch(1, 10, 25))

    job.close()
    assert (result.rows, result.notes) == (0, ("batch 1 was archived before",))
    assert read_archive(PATH, disk).number == 1


def test_a_batch_that_leaves_offsets_out_is_refused(disk: RecordingArchiveDisk) -> None:
    job = job_on(disk)

    with pytest.raises(
        PipelineError, match="ends at offset 25 of t-0, and this batch begins at 30"
    ):
        job.work(batch(2, 30, 40))
    job.close()


def test_a_checkpoint_that_belongs_to_another_archive_is_refused(
    disk: RecordingArchiveDisk,
) -> None:
    job = job_on(disk)

    with pytest.raises(PipelineError, match="is at batch 7, and the archive /archive has 0 batch"):
        job.work(batch(7, 25, 40, "stranger"))
    job.close()


def test_an_archive_that_is_a_copy_from_before_the_checkpoint_is_refused(
    disk: RecordingArchiveDisk,
) -> None:
    job = job_on(disk)
    new = Batch(
        number=4, job_id=JOB, frame=None, ranges={TopicPartition("t", 2): OffsetRange(9, 12)}
    )

    with pytest.raises(PipelineError, match="is at batch 4, and the archive /archive has 2 batch"):
        job.work(new)  # offsets 0 to 8 of the partition were in batch 3
    job.close()


def test_a_topic_that_was_made_anew_is_not_archived_behind_the_old_one(
    disk: RecordingArchiveDisk,
) -> None:
    with writer(disk) as hand:
        hand.publish(ArchiveStep(kind="batch", batch=2, topic_ids={"t": "id-1", "u": "id-8"}))
    job = job_on(disk)
    follows = replace(batch(3, 25, 40), topic_ids={"t": "id-2", "u": "id-9"})

    with pytest.raises(
        PipelineError, match=r"topic t has the id id-2, .* the one with the id id-1"
    ):
        job.work(follows)
    job.close()


def test_records_of_a_topic_that_was_made_anew_while_they_were_read_are_not_archived(
    disk: RecordingArchiveDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_tasks, "run_on_frame", lambda *_: [])
    job = ArchiveJob(
        lambda job: writer(disk, job), AllCompacted(), KnownIdentity(), ArchiveOptions()
    )

    def made_anew() -> None:
        raise PipelineError("topic t was deleted and created again")

    with pytest.raises(PipelineError, match="topic t was deleted and created again"):
        job.work(replace(batch(2, 25, 40), check_topics=made_anew))

    job.close()
    assert read_archive(PATH, disk).number == 1
    assert [name for name in files_below(disk, "staging") if not name.endswith(".lock")] == []


def test_a_topic_of_another_cluster_is_not_archived_behind_one_without_an_id(
    disk: RecordingArchiveDisk,
) -> None:
    with writer(disk) as hand:
        hand.publish(ArchiveStep(kind="batch", batch=2, cluster_ids={"t": "one"}))
    job = job_on(disk, "other")

    with pytest.raises(
        PipelineError, match=r"topic t belongs to cluster other, .* holds that of cluster one"
    ):
        job.work(batch(3, 25, 40))
    job.close()


def test_offsets_that_another_job_archived_are_refused(disk: RecordingArchiveDisk) -> None:
    job = job_on(disk)

    with pytest.raises(PipelineError, match="offsets 20 to 24 of t-0 are in the archive"):
        job.work(batch(0, 20, 40, "stranger"))
    job.close()


def test_what_a_batch_that_failed_has_written_is_removed(disk: RecordingArchiveDisk) -> None:
    job = job_on(disk)

    class FullDisk:
        """A frame whose tasks write half of a file."""

        @property
        def sparkSession(self) -> Any:  # noqa: N802
            (folder,) = disk.list(f"{PATH}/staging/{JOB}-2")
            disk.write_bytes(f"{PATH}/staging/{JOB}-2/{folder}/half.parquet", b"PAR1", sync=False)
            raise PipelineError("the disk is full")

    with pytest.raises(PipelineError, match="the disk is full"):
        job.work(replace(batch(2, 25, 40), frame=FullDisk()))

    job.close()
    assert [name for name in files_below(disk, "staging") if not name.endswith(".lock")] == []


def test_a_closed_job_lets_the_next_run_in(disk: RecordingArchiveDisk) -> None:
    first = job_on(disk)
    first.work(batch(1, 10, 25))

    with pytest.raises(PipelineError, match="job job-a already runs"):
        job_on(disk).work(batch(1, 10, 25))
    first.close()
    job_on(disk).work(batch(1, 10, 25))


def test_a_manifest_says_settings_once_and_again_when_they_have_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = RecordingArchiveDisk()
    monkeypatch.setattr(batch_tasks, "run_on_frame", lambda *_: [])
    now_s = iter((0.0, 20.0, 70.0, 140.0))
    answers = iter(
        (
            ToldTopics(settings={"t": {"retention.ms": "5"}}, partition_counts={"t": 2}),
            ToldTopics(refusals={"t": "TOPIC_AUTHORIZATION_FAILED"}),
            ToldTopics(settings={"t": {}}, partition_counts={"t": 2}),
        )
    )
    settings = TopicSettings(lambda _: next(answers), lambda: next(now_s))
    job = ArchiveJob(
        lambda job: writer(disk, job), AllCompacted(), KnownIdentity(), ArchiveOptions(),
        cluster=ClusterAnswers(settings=settings),
    )  # fmt: skip

    results = [job.work(batch(number, 10 * number, 10 * number + 10, "b")) for number in range(4)]

    job.close()
    said = [read_manifest(PATH, number, disk) for number in range(4)]
    assert [(each.topic_settings, each.partition_counts) for each in said] == [
        ({"t": {"retention.ms": "5"}}, {"t": 2}),
        ({}, {}),
        ({}, {}),
        ({"t": {}}, {}),
    ]
    note = "the archive goes on without the settings of t: TOPIC_AUTHORIZATION_FAILED"
    assert [result.notes for result in results] == [(), (), (note,), ()]
    assert read_archive(PATH, disk).topic_settings == {"t": {}}


def test_a_source_that_knows_no_settings_leaves_them_unknown(
    disk: RecordingArchiveDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_tasks, "run_on_frame", lambda *_: [])
    job = ArchiveJob(
        lambda job: writer(disk, job), AllCompacted(), KnownIdentity(), ArchiveOptions()
    )

    result = job.work(batch(2, 25, 40))

    job.close()
    state = read_archive(PATH, disk)
    assert (state.number, state.topic_settings, state.partition_counts) == (2, {}, {})
    assert result.notes == ()
