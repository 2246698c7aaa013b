"""A mirror from the checks to the report: rounds, the target's topics, progress."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from kbroker.client.bootstrap import Bootstrap
from kbroker.client.client_error import ClientError
from kbroker.client.cluster_configs import Resource
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.setting_changes import SettingChanges, changed
from kbroker.client.topic_changes import grown, made_topics
from kbroker.client.wall_clock import unix_now_ms
from kbroker.config.config_resources import ResourceType
from kbroker.errors import KafkaError
from kbroker.model import TopicPartition
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.mirroring.mirror_checkpoint import MirrorCheckpoint
from kbroker.pipeline.mirroring.mirror_job import MirrorJob
from kbroker.pipeline.mirroring.mirror_lag import MirrorLag
from kbroker.pipeline.mirroring.mirror_task import MirrorResult, MirrorTask, mirror_partition
from kbroker.pipeline.mirroring.mirrored_topics import MirrorChoice
from kbroker.pipeline.mirroring.topic_plan import TopicChange
from kbroker.pipeline.spark_job.batch import BatchReport, Ending, JobProgress, JobReport
from kbroker.pipeline.spark_job.checkpoint import Checkpoint, JobIdentity, PlacesElsewhere
from kbroker.pipeline.spark_job.job_events import (
    NOBODY,
    JobEvents,
    StoppableJob,
    polled_progress,
)
from kbroker.pipeline.spark_job.job_session import task_workers
from kbroker.pipeline.spark_job.offsets import OffsetRange
from kbroker.pipeline.spark_job.session import uses_spark
from kbroker.pipeline.spark_job.spread import Spread
from kbroker.pipeline.waiting import wait_until
from kbroker.wording import named

_LOOKS = 2  # new topics are checked, too: others may have made and filled them


class MirrorRun(StoppableJob):
    """A mirror from the checks to the report."""

    def __init__(
        self,
        source: Bootstrap,
        target: Bootstrap,
        choice: MirrorChoice,
        replication_factor: int,
        every_s: float | None,
    ) -> None:
        """Take `every_s` as the time between rounds; None: one round."""
        self._source, self._target, self._wish = source, target, choice
        self._replication_factor, self._every_s = replication_factor, every_s
        self._is_stopped = threading.Event()
        self._events = NOBODY
        self._job: MirrorJob | None = None
        self._rounds = self._groups = 0
        self._rows: Counter[TopicPartition] = Counter()
        self._starts: dict[TopicPartition, int] = {}
        self._lag = MirrorLag()
        self._waits_for = ""  # what the last round could not do without
        self._said: set[str] = set()

    def run(self, checkpoint: str, spark: Any, events: JobEvents) -> JobReport:
        """Mirror over `spark`, a SparkSession or chosen SessionSettings, else in this process.
        Raises PipelineError, ClientError, KafkaError and OSError.
        """
        path = os.path.abspath(checkpoint)
        held = Checkpoint(path)
        self._events = events
        with (
            closing(ClusterLinks(self._source)) as readers,
            closing(ClusterLinks(self._target)) as writers,
            held.held(),
        ):
            self._job = job = MirrorJob(readers, writers, self._wish, MirrorCheckpoint(path))
            identity = self._identity(job)
            held.read(identity)
            job.topics.changes()  # a refused run claims nothing
            record = held.claim(identity, PlacesElsewhere())
            job.board.clear()
            if not job.in_transactions:
                events.note(
                    "the target has no transactions: after a crash some records may come twice, "
                    "and none is left out"
                )
            begun_s = time.monotonic()
            with (
                task_workers(spark, "mirror", events, over_spark=uses_spark(spark, 0)) as workers,
                events.running(self, "transaction"),
                polled_progress(events, lambda: self._progress(job, time.monotonic() - begun_s)),
            ):
                self._go_round(writers, workers.spread, record.job_id)
            return self._report(job, time.monotonic() - begun_s)

    def stop(self) -> None:
        """End after the transactions that are open."""
        self._is_stopped.set()
        if self._job is not None:
            self._job.board.stop()

    def _identity(self, job: MirrorJob) -> JobIdentity:
        return JobIdentity(
            kind="mirror",
            name="mirror",
            source=f"cluster {job.source_id} {self._wish.text()}",
            target=f"cluster {job.target_id}",
        )

    def _go_round(self, writers: ClusterLinks, spread: Spread, job_id: str) -> None:
        """Go rounds until it is stopped. Passing trouble ends a run that has not finished a round
        yet, or has only one; later it is waited for.
        """
        while not self._is_stopped.is_set():
            next_s = time.monotonic() + (self._every_s or 0.0)
            try:
                report = self._round(writers, spread, job_id)
            except (ClientError, KafkaError, OSError) as error:
                passes = not isinstance(error, KafkaError) or error.code.retriable
                if self._every_s is None or not self._rounds or not passes:
                    raise
                self._waits_for = str(error)
                self._say_once(f"mirror waits: {error}")
                if self._job is not None:
                    self._job.break_off()
            else:
                self._waits_for = ""
                self._events.finished(report)
            if self._every_s is None:
                return
            wait_until(next_s, self._is_stopped.wait)

    def _round(self, writers: ClusterLinks, spread: Spread, job_id: str) -> BatchReport:
        job = self._job
        assert job is not None, "it was made before the first round"
        begun_s = time.monotonic()
        for _ in range(_LOOKS):
            changes = job.topics.changes()
            lacking = [change for change in changes if change.is_new or change.partitions]
            for change in lacking:
                self._make(writers, change)
            if not lacking:
                break
        tasks = job.tasks()  # refused partitions keep their settings
        for change in changes:
            self._set(writers, change)
        job.topics.changed()
        for partition, place in job.places.items():
            self._starts.setdefault(partition, place)
        before = dict(job.places)
        results = spread(mirror_partition, tasks)
        self._take(tasks, results)
        is_last = self._every_s is None and not self._is_stopped.is_set()
        self._groups += job.end_round(tasks, results, is_last=is_last)
        for sentence in job.held:
            self._say_once(f"{sentence}, or let it go on by itself")
        for sentence in job.unmoved:
            if is_last:
                raise PipelineError(f"{sentence}; run again")
            self._say_once(f"{sentence}; the next round tries again")
        self._lag = job.lag(unix_now_ms())
        self._rounds += 1
        seconds = time.monotonic() - begun_s
        return self._metrics(job, job_id, before, results, seconds)

    def _make(self, writers: ClusterLinks, change: TopicChange) -> None:
        """Make a topic, or the partitions that it lacks. Raises ClientError if the target refuses
        for now, PipelineError if it does for good.
        """
        if change.is_new:
            failures = made_topics(
                writers,
                [change.name],
                change.sets,
                self._events.note,
                partitions=change.partitions,
                replication_factor=self._replication_factor,
                may_exist=True,
            )
        else:
            failures = grown(writers, change.name, change.partitions, self._events.note)
        for failure in failures:
            raise (ClientError if failure.may_pass else PipelineError)(failure.sentence)

    def _set(self, writers: ClusterLinks, change: TopicChange) -> None:
        """Set settings of an existing topic. Raises PipelineError if the target refuses."""
        if not change.is_new and (change.sets or change.removes):
            resource = Resource(ResourceType.TOPIC, change.name)
            wanted = SettingChanges(change.sets, change.removes)
            for refusal in changed(writers, [resource], wanted, self._events.note):
                raise PipelineError(refusal)

    def _take(self, tasks: Sequence[MirrorTask], results: Sequence[MirrorResult]) -> None:
        """Count what was done. Raises PipelineError if a partition could not go on, for good or in
        the only round.
        """
        for task, result in zip(tasks, results, strict=True):
            partition = task.options.source.partition
            self._rows[partition] += result.rows
            if self._job is not None:
                self._job.board.note(partition, 0)  # its rows are counted
            for note in result.notes:
                self._say_once(note)
        for result in results:
            if result.refusal is None:
                continue
            if self._every_s is None or not result.may_pass:
                raise PipelineError(result.refusal, result.code, result.trouble)
            self._say_once(f"mirror waits: {result.refusal}")
        job = self._job
        if job is not None and job.silent:
            self._say_once(f"no leader answers for {named(job.silent)}: the next round tries again")

    def _say_once(self, sentence: str) -> None:
        if sentence not in self._said:
            self._said.add(sentence)
            self._events.note(sentence)

    def _metrics(
        self,
        job: MirrorJob,
        job_id: str,
        before: Mapping[TopicPartition, int],
        results: Sequence[MirrorResult],
        seconds: float,
    ) -> BatchReport:
        return BatchReport(
            job_id=job_id,
            number=self._rounds - 1,
            rows=sum(result.rows for result in results),
            size_bytes=sum(result.size_bytes for result in results),
            ranges={
                partition: OffsetRange(before[partition], place)
                for partition, place in job.places.items()
                if before.get(partition, place) != place
            },
            seconds=seconds,
            finished_ms=unix_now_ms(),
            backlog=self._lag.records,
            notes=tuple(note for result in results for note in result.notes),
            lag_s=self._lag.seconds,
        )

    def _progress(self, job: MirrorJob, seconds: float) -> JobProgress:
        is_known = self._rounds > 0  # the lag, from the end of a round on
        return JobProgress(
            rows=self._rows.total() + job.board.rows(),
            seconds=seconds,
            batches=self._rounds,
            backlog=self._lag.records if is_known else None,
            lag_s=self._lag.seconds if is_known else None,
            trouble=self._waits_for or None,
        )

    def _report(self, job: MirrorJob, seconds: float) -> JobReport:
        return JobReport(
            name="mirror",
            ending=Ending.STOPPED if self._is_stopped.is_set() else Ending.REACHED,
            rows=self._rows.total(),
            seconds=seconds,
            ranges={
                partition: OffsetRange(self._starts[partition], place)
                for partition, place in job.places.items()
            },
            rows_by_partition={partition: self._rows[partition] for partition in job.places},
            batches=self._rounds,
            backlog=self._lag.records,
            backlog_by_partition=self._lag.by_partition,
            lag_s=self._lag.seconds,
            moved_groups=self._groups,
        )
