"""Runs a mirror for a person: rounds, the target's topics, progress, Ctrl-C, report, exit code."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from kbroker.cli.arguments.refusals import refuse
from kbroker.cli.arguments.setting_changes import changed
from kbroker.cli.pipeline.job_signals import exit_code, leave_by, stopping, wait_until
from kbroker.cli.pipeline.metrics_file import MetricsFile
from kbroker.cli.pipeline.session_options import SessionOptions
from kbroker.cli.pipeline.task_spread import tasks_spread
from kbroker.cli.pipeline.watched_line import WatchedLine
from kbroker.cli.shown.output import counted, duration_text, named, print_rows, say
from kbroker.cli.topic.changes import grown, made_topics, refuse_topics
from kbroker.client.bootstrap import Bootstrap
from kbroker.client.client_error import ClientError
from kbroker.client.cluster_configs import Resource
from kbroker.client.cluster_links import ClusterLinks
from kbroker.config.config_resources import ResourceType
from kbroker.errors import KafkaError
from kbroker.model import TopicPartition
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.mirroring.mirror_checkpoint import MirrorCheckpoint
from kbroker.pipeline.mirroring.mirror_job import MirrorJob
from kbroker.pipeline.mirroring.mirror_lag import MirrorLag
from kbroker.pipeline.mirroring.mirror_task import MirrorResult, MirrorTask, mirror_partition
from kbroker.pipeline.mirroring.mirrored_topics import MirrorWish
from kbroker.pipeline.mirroring.topic_plan import TopicChange
from kbroker.pipeline.spark_job.batch import BatchReport
from kbroker.pipeline.spark_job.checkpoint import Checkpoint, JobIdentity, PlacesElsewhere
from kbroker.pipeline.spark_job.offsets import OffsetRange
from kbroker.pipeline.spark_job.spread import Spread

_LOOKS = 2  # what was just made is looked at, too: others may have made and filled it
_REPORT_COLUMNS = ("topic", "partition", "start_offset", "end_offset", "rows", "lag")


class MirrorRun:
    """One call, from the checks to the report."""

    def __init__(
        self,
        source: Bootstrap,
        target: Bootstrap,
        wish: MirrorWish,
        replication_factor: int,
        every_s: float | None,
    ) -> None:
        """`every_s` None: one round."""
        self._source, self._target, self._wish = source, target, wish
        self._replication_factor, self._every_s = replication_factor, every_s
        self._is_stopped = threading.Event()
        self._stopped_by: list[int] = []
        self._job: MirrorJob | None = None
        self._rounds = self._groups = 0
        self._rows: Counter[TopicPartition] = Counter()
        self._starts: dict[TopicPartition, int] = {}
        self._lag = MirrorLag()
        self._waits_for = ""  # what the last round could not do without
        self._told: set[str] = set()

    def run(
        self, checkpoint: str, session: SessionOptions | None, metrics: Path | None, output: str
    ) -> int:
        """The exit code; without a session the work is done in this process.

        Raises PipelineError, ClientError, KafkaError, OSError and CommandError.
        """
        path = os.path.abspath(checkpoint)
        held = Checkpoint(path)
        file = MetricsFile(metrics, "mirror") if metrics else None
        with (
            closing(ClusterLinks(self._source)) as readers,
            closing(ClusterLinks(self._target)) as writers,
            held.held(),
        ):
            self._job = job = MirrorJob(readers, writers, self._wish, MirrorCheckpoint(path))
            identity = self._identity(job)
            held.read(identity)
            job.topics.changes()  # a run that is refused claims nothing
            record = held.claim(identity, PlacesElsewhere())
            job.board.clear()
            if not job.in_transactions:
                say(
                    "the target has no transactions: after a crash some records may come twice, "
                    "and none is left out"
                )
            begun_s = time.monotonic()
            with (
                tasks_spread(session, "mirror") as (spread, _),
                stopping(self, "transaction") as self._stopped_by,
            ):
                line = WatchedLine(lambda: self._progress(job, time.monotonic() - begun_s))
                try:
                    self._go_round(writers, spread, record.job_id, file)
                finally:
                    line.end()
            self._report(job, output)
            self._say_end(time.monotonic() - begun_s)
        is_at_end = self._every_s is None and not self._is_stopped.is_set()
        return exit_code(self._stopped_by, is_at_end=is_at_end)

    def stop(self) -> None:
        """End after the transactions that are open."""
        self._is_stopped.set()
        if self._job is not None:
            self._job.board.stop()

    def cut(self) -> None:
        """End at once: what is open is aborted by the next run."""
        leave_by(self._stopped_by)

    def _identity(self, job: MirrorJob) -> JobIdentity:
        return JobIdentity(
            kind="mirror",
            name="mirror",
            source=f"cluster {job.source_id} {self._wish.text()}",
            target=f"cluster {job.target_id}",
        )

    def _go_round(
        self, writers: ClusterLinks, spread: Spread, job_id: str, file: MetricsFile | None
    ) -> None:
        """Rounds until it is stopped. Trouble that passes ends a run that has not seen a whole
        round yet, or is to be one; later it is waited for.
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
                self._tell(f"mirror waits: {error}")
                if self._job is not None:
                    self._job.break_off()
            else:
                self._waits_for = ""
                if file is not None:
                    file.write(report)
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
        tasks = job.tasks()  # what is refused here keeps its settings
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
            self._tell(f"{sentence}, or let it go on by itself")
        for sentence in job.unmoved:
            if is_last:
                raise PipelineError(f"{sentence}; run again")
            self._tell(f"{sentence}; the next round tries again")
        self._lag = job.lag(time.time_ns() // 1_000_000)
        self._rounds += 1
        seconds = time.monotonic() - begun_s
        return self._metrics(job, job_id, before, results, seconds)

    def _make(self, writers: ClusterLinks, change: TopicChange) -> None:
        """The topic, or partitions that it lacks. ClientError if the target refuses for now,
        CommandError if it does for good.
        """
        if change.is_new:
            failures = made_topics(
                writers,
                [change.name],
                change.sets,
                partitions=change.partitions,
                replication_factor=self._replication_factor,
                may_exist=True,
            )
        else:
            failures = grown(writers, change.name, change.partitions)
        for failure in failures:
            if failure.may_pass:
                raise ClientError(failure.sentence)
        refuse_topics(failures)

    def _set(self, writers: ClusterLinks, change: TopicChange) -> None:
        """Settings of a topic that was there. CommandError if the target refuses."""
        if not change.is_new and (change.sets or change.removes):
            resource = Resource(ResourceType.TOPIC, change.name)
            refuse(changed(writers, [resource], sets=change.sets, deletes=change.removes))

    def _take(self, tasks: Sequence[MirrorTask], results: Sequence[MirrorResult]) -> None:
        """Count what was done. PipelineError if a partition could not go on, for good or in the
        only round.
        """
        for task, result in zip(tasks, results, strict=True):
            partition = task.options.source.partition
            self._rows[partition] += result.rows
            if self._job is not None:
                self._job.board.note(partition, 0)  # they are counted
            for note in result.notes:
                self._tell(note)
        for result in results:
            if result.refusal is None:
                continue
            if self._every_s is None or not result.may_pass:
                raise PipelineError(result.refusal, result.code, result.trouble)
            self._tell(f"mirror waits: {result.refusal}")
        job = self._job
        if job is not None and job.silent:
            self._tell(f"no leader answers for {named(job.silent)}: the next round tries again")

    def _tell(self, sentence: str) -> None:
        """Say it once."""
        if sentence not in self._told:
            self._told.add(sentence)
            say(sentence)

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
            finished_ms=time.time_ns() // 1_000_000,
            backlog=self._lag.records,
            notes=tuple(note for result in results for note in result.notes),
            lag_s=self._lag.seconds,
        )

    def _progress(self, job: MirrorJob, seconds: float) -> str:
        rows = self._rows.total() + job.board.rows()
        done = f"mirror: {counted(rows, 'row')} in {counted(self._rounds, 'round')}"
        if self._waits_for:
            return f"{done}, waiting: {self._waits_for}"
        lag = f", {self._lag.text()}" if self._rounds else ""  # known at the end of a round
        return f"{done}, {rows / max(seconds, 1e-6):,.0f} rows/s{lag}"

    def _report(self, job: MirrorJob, output: str) -> None:
        rows = [
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "start_offset": self._starts[partition],
                "end_offset": place,
                "rows": self._rows[partition],
                "lag": self._lag.by_partition.get(partition, 0),
            }
            for partition, place in sorted(job.places.items())
        ]
        print_rows(rows, _REPORT_COLUMNS, output)

    def _say_end(self, seconds: float) -> None:
        rows = self._rows.total()
        ending = "stopped" if self._is_stopped.is_set() else "reached the end"
        say(
            f"mirror {ending}: {counted(rows, 'row')} in {counted(self._rounds, 'round')}, "
            f"{duration_text(seconds)}, {rows / max(seconds, 1e-6):,.0f} rows/s, "
            f"{counted(self._groups, 'group')} moved, {self._lag.text()}"
        )
