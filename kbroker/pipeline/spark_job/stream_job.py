"""Runs a job's work batch by batch, at least once, with the same ranges for the same batch number.

Spark writes down where a batch ends before it begins, and that it is done after the work has
returned. A batch that was begun and not finished is run again, with the same number and ranges:
work has to be idempotent per job id and batch number.

The work runs in a thread of Spark's. The thread that called `run` watches, reports to the listener,
and ends the query: at the end, or when it is asked to stop, after the batch that runs.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from kbroker.client.wall_clock import unix_now_ms
from kbroker.model import TopicPartition
from kbroker.pipeline.cluster_errors import while_reachable
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.spark_job.batch import (
    DEFAULT_BATCH_RECORDS,
    Batch,
    BatchReport,
    BatchResult,
    Ending,
    JobProgress,
    JobReport,
    Work,
)
from kbroker.pipeline.spark_job.checkpoint import Checkpoint, JobIdentity, JobRecord
from kbroker.pipeline.spark_job.continuity import check_continuity
from kbroker.pipeline.spark_job.job_events import NOBODY, JobEvents, StoppableJob
from kbroker.pipeline.spark_job.offsets import OffsetRange, Offsets, Ranges
from kbroker.pipeline.spark_job.source import Source
from kbroker.pipeline.spark_job.stream_failure import (
    STARTS,
    is_of_spark,
    is_slow_start,
    sentence_of_failure,
    trying_again,
)

_WATCH_S = 0.2
_NOTES_KEPT = 1_000
_LOOK_UP_S = 5.0  # how often the end of the source is looked up for the backlog


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSettings:
    """How a job runs. `every_s` None is `--once`: up to what is there now."""

    kind: str  # archive, ...
    target: str = ""  # what it writes to, as the checkpoint stores it
    every_s: float | None = None
    batch_records: int = DEFAULT_BATCH_RECORDS  # offsets per batch, all partitions together
    # Compares the checkpoint with the target: where its first batch began, where the next begins.
    check: Callable[[Offsets, Offsets], None] | None = None


class StreamJob(StoppableJob):
    """One query. Owned by the thread that calls `run`; `stop` may be called by any."""

    def __init__(
        self, name: str, source: Source, checkpoint: Checkpoint, settings: JobSettings, work: Work
    ) -> None:
        self.name = name
        self.source = source
        self.checkpoint = checkpoint
        self.settings = settings
        self._work = work
        self._stopping = threading.Event()
        self._cutting = threading.Event()

    @property
    def identity(self) -> JobIdentity:
        return JobIdentity(
            kind=self.settings.kind,
            name=self.name,
            source=self.source.describe(),
            target=self.settings.target,
        )

    def stop(self) -> None:
        """End the run after the batch that runs now."""
        self._stopping.set()

    def cut(self) -> bool:
        """End the run now. The query is left as it is: Spark would wait for the work that runs, so
        the process has to end.
        """
        self._stopping.set()
        self._cutting.set()
        return True

    def prepare(self) -> None:
        """Claim the checkpoint, and see that the source still has what comes next; without Spark.

        Raises PipelineError, also if another process runs the job.
        """
        with self._held():
            self._prepare()

    @contextmanager
    def _held(self) -> Iterator[None]:
        self.checkpoint.read(self.identity)  # refuses another's directory before it is changed
        with self.checkpoint.held():
            yield

    def _prepare(self) -> JobRecord:
        record = self.checkpoint.claim(self.identity, self.source)
        position = self.checkpoint.position(record)
        if self.settings.check is not None:
            self.settings.check(record.start, position)
        check_continuity(
            position,
            self.source.earliest(),
            self.source.log_ends(),
            fails_on_data_loss=self.source.fails_on_data_loss,
        )
        return record

    def run(self, spark: Any, events: JobEvents = NOBODY) -> JobReport:
        """Run to the end, or until stopped. Raises PipelineError, or what the work raised."""
        with self._held():
            record = self._prepare()
            run = _Run(self, record, events)
            ending = None
            while ending is None:
                ending = self._query(spark, record, run)
            return run.report(ending)

    def _query(self, spark: Any, record: JobRecord, run: _Run) -> Ending | None:
        """Run a query; return how it ended, None if it is to be started again."""
        query = self._start(spark, record, run)
        try:
            return self._watch(query, run)
        finally:
            if not self._cutting.is_set():
                query.stop()

    def _start(self, spark: Any, record: JobRecord, run: _Run) -> Any:
        start = self.checkpoint.planned(record)
        try:
            frame = self.source.stream(spark, start, self.settings.batch_records)
            writer = frame.writeStream.queryName(self.name).foreachBatch(run.on_batch)
            # With the scheme: a cluster may take paths without one for its own file system.
            directory = f"file://{self.checkpoint.directory.resolve()}"
            writer = writer.option("checkpointLocation", directory)
            return writer.trigger(**self._trigger()).start()
        except PipelineError:
            raise
        except Exception as error:  # whatever Spark says, a person gets one sentence
            raise sentence_of_failure(error) from error

    def _trigger(self) -> dict[str, Any]:
        if self.settings.every_s is not None:
            return {"processingTime": f"{self.settings.every_s} seconds"}
        if self.source.bounds_itself:
            return {"availableNow": True}
        return {"processingTime": "0 seconds"}

    def _watch(self, query: Any, run: _Run) -> Ending | None:
        """Watch until the query ends, the end is reached, or it is to stop; None if it
        never began.
        """
        while query.isActive:
            if self._cutting.is_set():
                return Ending.CUT
            run.tell()
            if run.ends():
                break
            run.wait(_WATCH_S)
        if run.failure is not None:
            if is_of_spark(run.failure):
                raise sentence_of_failure(run.failure) from run.failure
            raise run.failure
        if not run.is_over:
            error = query.exception()
            if error is not None and run.starts_again(error):
                return None if not self.is_stopping else Ending.STOPPED
            if error is not None:
                raise sentence_of_failure(error) from error
        return Ending.STOPPED if self._stopping.is_set() else Ending.REACHED

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    def work(self, batch: Batch) -> BatchResult:
        return self._work(batch)


class _Run:
    """The state of one run, shared by the thread of the batches and the one that watches."""

    def __init__(self, job: StreamJob, record: JobRecord, events: JobEvents) -> None:
        self._job = job
        self._record = record
        self._events = events
        self._begun_s = time.monotonic()
        self._changed = threading.Condition()
        self._begin = job.checkpoint.position(record)
        self._position: dict[TopicPartition, int] = dict(self._begin)
        self._latest = job.source.latest()
        self._end = self._latest  # fixed: what `--once` goes up to
        self._next_look_s = self._begun_s + _LOOK_UP_S
        self._trouble: str | None = None  # why the last look-up failed
        self._working: int | None = None
        self._last: int | None = None  # batch whose work is done
        self._totals = _Totals()
        self._failed_starts = 0  # in a row
        self.failure: Exception | None = None
        self.is_over = False  # no batch begins any more

    def starts_again(self, error: Exception) -> bool:
        """Return whether a query that ended with this is started again; reports it if so."""
        if not is_slow_start(error) or self._failed_starts == STARTS - 1:
            return False
        self._failed_starts += 1
        self._events.tries_again(trying_again(self._failed_starts))
        return True

    def on_batch(self, frame: Any, number: int) -> None:
        """Do a batch: Spark calls this in a thread of its own."""
        with self._changed:
            if self._job.is_stopping or self.is_over:
                self.is_over = True
                raise _StoppedError
            self._working = number
            self._failed_starts = 0
        try:
            self._run_batch(frame, number)
        except Exception as error:
            self.failure = error
            raise
        finally:
            with self._changed:
                self._working = None
                self._changed.notify_all()

    def _run_batch(self, frame: Any, number: int) -> None:
        ranges = self._job.checkpoint.ranges(number, self._record)
        self._look_at_topics()
        self._events.began(number, ranges)
        begun_s = time.monotonic()
        result = self._job.work(
            Batch(
                number=number,
                job_id=self._record.job_id,
                frame=frame,
                ranges=ranges,
                topic_ids=self._record.topic_ids,
                check_topics=self._look_at_topics,
            )
        )
        with self._changed:
            self._position |= {partition: each.end for partition, each in ranges.items()}
            self._totals.add(result)
            self._last = number
            report = BatchReport(
                job_id=self._record.job_id,
                number=number,
                rows=result.rows,
                size_bytes=result.size_bytes,
                ranges=ranges,
                seconds=time.monotonic() - begun_s,
                finished_ms=unix_now_ms(),
                backlog=self._backlog(),
                notes=result.notes,
            )
        self._events.finished(report)

    def _look_at_topics(self) -> None:
        """Check topics by their ids: Spark knows them by name alone, and would read on in one that
        was created again and has grown beyond the job's position. Raises PipelineError.
        """
        topic_ids = while_reachable(self._job.source.topic_ids, None)
        if topic_ids is None:
            return
        self._record = self._job.checkpoint.remember_topics(self._record, topic_ids)

    def _is_idle(self) -> bool:
        """Return whether no batch runs, and the last one is written down as done."""
        if self._working is not None:
            return False
        if self._last is None:
            return True
        committed = self._job.checkpoint.last_commit()
        return committed is not None and committed >= self._last

    def ends(self) -> bool:
        """Return whether the run ends here, between two batches; if so no other begins."""
        with self._changed:
            if self._is_idle() and (self._job.is_stopping or self._reached_end()):
                self.is_over = True
            return self.is_over

    def _reached_end(self) -> bool:
        """Return whether all that was there at the beginning is done, unless Spark sees to it."""
        if self._job.settings.every_s is not None or self._job.source.bounds_itself:
            return False
        return all(self._position.get(each, 0) >= end for each, end in self._end.items())

    def wait(self, seconds: float) -> None:
        """Wait until a batch ends, at most so long."""
        with self._changed:
            self._changed.wait(seconds)

    def tell(self) -> None:
        """Report how far the run is."""
        now_s = time.monotonic()
        if self._job.settings.every_s is not None and now_s >= self._next_look_s:
            self._next_look_s = now_s + _LOOK_UP_S
            try:
                self._latest, self._trouble = self._job.source.latest(), None
            except PipelineError as error:  # a broker restarts: Spark decides how long to wait
                self._trouble = str(error)
        with self._changed:
            progress = JobProgress(
                batches=self._totals.batches,
                rows=self._totals.rows,
                seconds=now_s - self._begun_s,
                backlog=self._backlog(),
                is_working=self._working is not None,
                trouble=self._trouble,
            )
        self._events.progress(progress)

    def _backlog(self) -> int:
        return sum(max(end - self._position.get(each, 0), 0) for each, end in self._latest.items())

    def report(self, ending: Ending) -> JobReport:
        with self._changed:
            return JobReport(
                name=self._job.name,
                job_id=self._record.job_id,
                ending=ending,
                batches=self._totals.batches,
                rows=self._totals.rows,
                size_bytes=self._totals.size_bytes,
                seconds=time.monotonic() - self._begun_s,
                ranges=_spanned(self._begin, self._position),
                rows_by_partition=self._totals.rows_by_partition,
                backlog=self._backlog(),
                notes=tuple(self._totals.notes),
            )


class _Totals:
    """Sums over the batches of a run. A run of weeks must not grow: only the last notes stay."""

    def __init__(self) -> None:
        self.batches = 0
        self.rows = 0
        self.size_bytes = 0
        self.rows_by_partition: dict[TopicPartition, int] = {}
        self.notes: deque[str] = deque(maxlen=_NOTES_KEPT)

    def add(self, result: BatchResult) -> None:
        """Add one batch; of its notes only the newest stay."""
        self.batches += 1
        self.rows += result.rows
        self.size_bytes += result.size_bytes
        self.notes.extend(result.notes)
        for partition, rows in result.rows_by_partition.items():
            self.rows_by_partition[partition] = self.rows_by_partition.get(partition, 0) + rows


class _StoppedError(Exception):
    """Ends the query where a batch would begin although the run is to stop."""


def _spanned(begin: Offsets, end: Offsets) -> Ranges:
    return {
        partition: OffsetRange(begin.get(partition, 0), offset)
        for partition, offset in sorted(end.items())
    }
