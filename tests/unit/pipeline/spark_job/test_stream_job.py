"""How a run ends: at the end, after a batch, within one, or with what the work raised.

Spark is played by a thread that writes the logs of a checkpoint as Spark does.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from kbroker.model import TopicPartition
from kbroker.pipeline.errors import ExitCode, PipelineError
from kbroker.pipeline.spark_job.batch import Batch, BatchReport, BatchResult, Ending, Work
from kbroker.pipeline.spark_job.checkpoint import Checkpoint
from kbroker.pipeline.spark_job.job_events import JobEvents
from kbroker.pipeline.spark_job.offsets import OffsetRange, Offsets, Ranges, format_offsets
from kbroker.pipeline.spark_job.stream_job import JobSettings, StreamJob

A0 = TopicPartition("a", 0)


class Query(threading.Thread):
    """Batches of ten offsets, up to `latest`; then it goes on waiting unless it ends by itself."""

    def __init__(self, source: Source, directory: Path, start: int) -> None:
        super().__init__(daemon=True)
        self._source = source
        self._directory = directory
        self._position = start
        self._stopped = threading.Event()
        self._error: Exception | None = None
        self.was_stopped = False
        self.on_batch: Callable[[Any, int], None] = lambda frame, number: None

    @property
    def isActive(self) -> bool:  # noqa: N802
        return self.is_alive()

    def exception(self) -> Exception | None:
        return self._error

    def stop(self) -> None:
        self.was_stopped = True
        self._stopped.set()
        self.join()

    def run(self) -> None:
        number = len(list(self._directory.glob("commits/*")))
        try:
            self._source.start_planner()
            while self._position < self._source.end and not self._stopped.is_set():
                self._position = min(self._position + 10, self._source.end)
                self._write("offsets", number, f"v1\n{{}}\n{format_offsets({A0: self._position})}")
                self.on_batch("frame", number)
                self._write("commits", number, "v1\n{}")
                number += 1
        except Exception as error:
            self._error = error
            return
        if not self._source.bounds_itself:
            self._stopped.wait(60)

    def _write(self, log: str, number: int, text: str) -> None:
        (self._directory / log).mkdir(exist_ok=True)
        (self._directory / log / str(number)).write_text(text)


class Source:
    """One partition with 35 offsets. It is also the frame and the writer of its stream."""

    needs_connector = False
    fails_on_data_loss = True

    def __init__(self, directory: Path, bounds_itself: bool = True) -> None:
        self.bounds_itself = bounds_itself
        self.end = 35
        self.directory = directory
        self.looks = 0
        self.ids: dict[str, str] = {}
        self.slow_starts = 0  # of the process that plans, from now on
        self.queries: list[Query] = []
        self.trigger_options: dict[str, Any] = {}

    def describe(self) -> str:
        return "memory a"

    def topic_ids(self) -> Mapping[str, str]:
        return self.ids

    def earliest(self) -> Offsets:
        return {A0: 0}

    def latest(self) -> Offsets:
        self.looks += 1
        return {A0: self.end}

    def log_ends(self) -> Offsets:
        return self.latest()

    def batch(self, spark: Any, ranges: Ranges) -> Any:
        raise AssertionError("a stream asks for no batch")

    def stream(self, spark: Any, start: Offsets, max_records: int | None) -> Any:
        self.queries.append(Query(self, self.directory, start[A0]))
        return self

    @property
    def writeStream(self) -> Source:  # noqa: N802
        return self

    def queryName(self, name: str) -> Source:  # noqa: N802
        return self

    def option(self, name: str, value: str) -> Source:
        return self

    def foreachBatch(self, on_batch: Callable[[Any, int], None]) -> Source:  # noqa: N802
        self.queries[-1].on_batch = on_batch
        return self

    def trigger(self, **options: Any) -> Source:
        self.trigger_options = options
        return self

    def start_planner(self) -> None:
        if self.slow_starts:
            self.slow_starts -= 1
            raise RuntimeError("[STREAM_FAILED] Query [id = 4c] terminated with exception: Python "
                               "worker failed to connect back. SQLSTATE: XXKST")  # fmt: skip

    def start(self) -> Query:
        self.queries[-1].start()
        return self.queries[-1]


class Counting(JobEvents):
    def __init__(self) -> None:
        self.reports: list[BatchReport] = []
        self.sentences: list[str] = []

    def tries_again(self, sentence: str) -> None:
        self.sentences.append(sentence)

    def finished(self, report: BatchReport) -> None:
        self.reports.append(report)


def count(batch: Batch) -> BatchResult:
    rows = sum(each.count for each in batch.ranges.values())
    return BatchResult(rows=rows, size_bytes=rows * 100, rows_by_partition={A0: rows})


def job(source: Source, work: Work, every_s: float | None = None) -> StreamJob:
    settings = JobSettings(kind="test", every_s=every_s, batch_records=10)
    return StreamJob("numbers", source, Checkpoint(source.directory), settings, work)


def test_a_run_reports_its_batches_and_the_whole(tmp_path: Path) -> None:
    source, events = Source(tmp_path), Counting()

    report = job(source, count).run(None, events)

    assert source.trigger_options == {"availableNow": True}
    assert [(each.number, each.rows, each.backlog) for each in events.reports] == [
        (0, 10, 25), (1, 10, 15), (2, 10, 5), (3, 5, 0),
    ]  # fmt: skip
    assert (report.ending, report.batches, report.rows, report.size_bytes) == (
        Ending.REACHED, 4, 35, 3_500,
    )  # fmt: skip
    assert report.ranges == {A0: OffsetRange(0, 35)}
    assert report.rows_by_partition == {A0: 35}


def test_a_source_that_does_not_bound_itself_is_stopped_at_the_end_that_was_there(
    tmp_path: Path,
) -> None:
    source = Source(tmp_path, bounds_itself=False)

    report = job(source, count).run(None)

    assert source.trigger_options == {"processingTime": "0 seconds"}
    assert (report.ending, report.rows, report.backlog) == (Ending.REACHED, 35, 0)
    assert source.queries[0].was_stopped


def test_a_run_that_is_stopped_begins_no_further_batch(tmp_path: Path) -> None:
    source = Source(tmp_path)

    def stop_in_the_second(batch: Batch) -> BatchResult:
        if batch.number == 1:
            stopped.stop()
        return count(batch)

    stopped = job(source, stop_in_the_second, every_s=1.0)
    report = stopped.run(None)
    rest = job(source, count).run(None)

    assert source.trigger_options == {"availableNow": True}
    assert (report.ending, report.rows, report.backlog) == (Ending.STOPPED, 20, 15)
    assert rest.ranges == {A0: OffsetRange(20, 35)}


def test_a_run_that_is_cut_waits_for_nobody(tmp_path: Path) -> None:
    source, released = Source(tmp_path), threading.Event()

    def cut_and_hang(batch: Batch) -> BatchResult:
        if batch.number == 1:
            hanging.cut()
            released.wait(60)
        return count(batch)

    hanging = job(source, cut_and_hang)
    report = hanging.run(None)
    released.set()
    source.queries[0].join()

    assert (report.ending, report.rows) == (Ending.CUT, 10)
    assert not source.queries[0].was_stopped


def test_what_the_work_refuses_ends_the_run_as_it_is(tmp_path: Path) -> None:
    def refuse(batch: Batch) -> BatchResult:
        raise PipelineError("the target is full")

    with pytest.raises(PipelineError, match="the target is full"):
        job(Source(tmp_path), refuse).run(None)


def test_a_fault_of_the_work_is_no_sentence(tmp_path: Path) -> None:
    def fail(batch: Batch) -> BatchResult:
        raise KeyError("x")

    with pytest.raises(KeyError):
        job(Source(tmp_path), fail).run(None)


def test_a_batch_that_failed_is_run_again_with_its_range(tmp_path: Path) -> None:
    source = Source(tmp_path)
    seen: list[tuple[int, Ranges]] = []

    def fail_once(batch: Batch) -> BatchResult:
        seen.append((batch.number, batch.ranges))
        if len(seen) == 2:
            raise PipelineError("the disk is away")
        return count(batch)

    with pytest.raises(PipelineError):
        job(source, fail_once).run(None)
    (tmp_path / "offsets" / "1").unlink()  # the thread plans it again, as Spark would take it
    job(source, fail_once).run(None)

    assert seen[1] == seen[2] == (1, {A0: OffsetRange(10, 20)})


def test_a_broker_that_speaks_of_less_for_a_while_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Source(tmp_path, bounds_itself=False)
    job(source, count).run(None)
    monkeypatch.setattr(source, "latest", lambda: {A0: source.end - 5})
    monkeypatch.setattr(source, "log_ends", lambda: {A0: source.end})

    assert job(source, count).run(None).rows == 0


def test_a_cluster_that_restarts_does_not_end_a_job_that_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kbroker.pipeline.spark_job.stream_job._LOOK_UP_S", 0.0)
    source = Source(tmp_path, bounds_itself=False)

    def latest() -> Offsets:
        source.looks += 1
        if source.looks > 4:
            going.stop()
            raise PipelineError("cannot connect")
        return {A0: source.end}

    source.latest = latest  # type: ignore[method-assign]
    going = job(source, count, every_s=1.0)
    told: list[str | None] = []
    events = JobEvents()
    events.progress = lambda progress: told.append(progress.trouble)  # type: ignore[method-assign]

    assert going.run(None, events).ending is Ending.STOPPED
    assert told[0] is None
    assert told[-1] == "cannot connect"


def test_a_topic_that_is_made_anew_while_the_job_runs_is_not_read_on(tmp_path: Path) -> None:
    source = Source(tmp_path)
    source.ids = {"a": "id-1"}
    seen: list[tuple[int, Mapping[str, str]]] = []

    def replace_topic(batch: Batch) -> BatchResult:
        seen.append((batch.number, batch.topic_ids))
        source.ids = {"a": "id-1" if batch.number == 0 else "id-2", "b": "id-7"}
        return count(batch)

    with pytest.raises(PipelineError, match="topic a was deleted and created again"):
        job(source, replace_topic).run(None)

    assert seen == [(0, {"a": "id-1"}), (1, {"a": "id-1", "b": "id-7"})]


def test_a_batch_learns_that_a_topic_was_made_anew_while_it_was_read(tmp_path: Path) -> None:
    source = Source(tmp_path)
    source.ids = {"a": "id-1"}
    worked: list[int] = []

    def replace_topic(batch: Batch) -> BatchResult:
        batch.check_topics()
        source.ids = {"a": "id-2"}
        batch.check_topics()
        worked.append(batch.number)
        return count(batch)

    with pytest.raises(PipelineError, match="topic a was deleted and created again"):
        job(source, replace_topic).run(None)

    assert worked == []


def test_a_batch_does_not_wait_for_a_cluster_to_tell_its_topics(tmp_path: Path) -> None:
    source = Source(tmp_path)

    def begin_without_cluster(batch: Batch) -> BatchResult:
        source.topic_ids = away  # type: ignore[method-assign]
        return count(batch)

    def away() -> Mapping[str, str]:
        raise PipelineError("cannot connect", ExitCode.CANNOT_CONNECT)

    going = job(source, begin_without_cluster)

    assert going.run(None).rows == 35


def test_no_batch_begins_once_the_end_was_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Source(tmp_path, bounds_itself=False)
    seen: list[int] = []

    def stop_too_late(query: Query) -> None:
        query._write("offsets", 4, f"v1\n{{}}\n{format_offsets({A0: 40})}")
        with contextlib.suppress(Exception):
            query.on_batch("frame", 4)
        query._stopped.set()
        query.join()

    def note(batch: Batch) -> BatchResult:
        seen.append(batch.number)
        return count(batch)

    monkeypatch.setattr(Query, "stop", stop_too_late)
    report = job(source, note).run(None)

    assert (report.ending, report.rows, seen) == (Ending.REACHED, 35, [0, 1, 2, 3])


def test_a_job_that_runs_already_is_refused_before_spark_starts(tmp_path: Path) -> None:
    source = Source(tmp_path)

    with Checkpoint(tmp_path).held(), pytest.raises(PipelineError, match="another process runs"):
        job(source, count).prepare()
    job(source, count).prepare()

    assert source.queries == []


def test_a_checkpoint_that_does_not_fit_its_target_is_refused_before_spark_starts(
    tmp_path: Path,
) -> None:
    seen: list[tuple[Offsets, Offsets]] = []

    def check(start: Offsets, position: Offsets) -> None:
        seen.append((start, position))
        if len(seen) > 2:
            raise PipelineError("the target has less")

    source = Source(tmp_path)
    settings = JobSettings(kind="test", batch_records=10, check=check)
    checked = StreamJob("q", source, Checkpoint(tmp_path), settings, count)

    checked.prepare()
    checked.run(None)
    with pytest.raises(PipelineError, match="the target has less"):
        checked.prepare()

    begun = {A0: 0}
    assert seen == [(begun, begun), (begun, begun), (begun, {A0: source.end})]


def test_a_planner_that_does_not_answer_in_time_is_started_again(tmp_path: Path) -> None:
    source, events = Source(tmp_path), Counting()
    source.slow_starts = 2

    report = job(source, count).run(None, events)

    assert (report.ending, report.batches, report.rows) == (Ending.REACHED, 4, 35)
    assert [query.was_stopped for query in source.queries] == [True, True, True]
    assert len(events.sentences) == 2
    assert "did not answer within 10 s" in events.sentences[0]


def test_a_planner_that_never_answers_ends_the_run_after_a_few_starts(tmp_path: Path) -> None:
    source = Source(tmp_path)
    source.slow_starts = 100

    with pytest.raises(PipelineError, match="did not answer within 10 s, 4 times in a row"):
        job(source, count).run(None)

    assert len(source.queries) == 4


def test_a_run_that_is_stopped_starts_no_planner_again(tmp_path: Path) -> None:
    source = Source(tmp_path)
    source.slow_starts = 100
    stopped = job(source, count)
    events = Counting()
    events.tries_again = lambda sentence: stopped.stop()  # type: ignore[method-assign]

    report = stopped.run(None, events)

    assert (report.ending, report.rows, len(source.queries)) == (Ending.STOPPED, 0, 1)
