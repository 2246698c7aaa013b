"""What a person sees of a job while it runs, and what is kept of it per batch."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest

from kbroker.cli.arguments.connection import CommandError
from kbroker.cli.pipeline.job_display import StreamDisplay, progress_text
from kbroker.cli.pipeline.metrics_file import MetricsFile
from kbroker.model import TopicPartition
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.spark_job.batch import BatchReport, JobProgress
from kbroker.pipeline.spark_job.offsets import OffsetRange

REPORT = BatchReport(
    job_id="1b4e",
    number=3,
    rows=12,
    size_bytes=3_400,
    ranges={
        TopicPartition("b", 0): OffsetRange(0, 5),
        TopicPartition("a", 1): OffsetRange(7, 14),
    },
    seconds=1.23456,
    finished_ms=1_795_000_000_000,
    backlog=44,
    notes=("3 offsets were aborted",),
)


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def progress(rows: int, backlog: int | None, seconds: float = 10.0) -> JobProgress:
    return JobProgress(batches=2, rows=rows, seconds=seconds, backlog=backlog, is_working=False)


def test_the_line_has_rows_rate_backlog_and_time_left() -> None:
    assert progress_text("nightly", progress(1_200_000, 40_000), 80_000.0) == (
        "nightly: 1,200,000 rows in 2 batches, 80,000 rows/s, 40,000 to go, 0 s left"
    )


def test_a_job_that_waits_says_that_there_is_nothing_to_do() -> None:
    assert progress_text("nightly", progress(7, 0), 0.0) == (
        "nightly: 7 rows in 2 batches, nothing to do"
    )


@pytest.mark.parametrize(
    ("is_working", "text"),
    [
        (False, "nightly: Spark prepares the first batch, 40,000 to go"),
        (True, "nightly: the first batch runs, 40,000 to go"),
    ],
)
def test_a_job_without_a_finished_batch_says_what_is_done_meanwhile(
    is_working: bool, text: str
) -> None:
    first = replace(progress(0, 40_000), batches=0, is_working=is_working)
    assert progress_text("nightly", first, 0.0) == text


def test_a_job_that_had_nothing_to_do_from_the_start_says_so() -> None:
    assert progress_text("nightly", replace(progress(0, 0), batches=0), 0.0) == (
        "nightly: 0 rows in 0 batches, nothing to do"
    )


def test_a_job_that_is_started_again_says_so_on_a_line_that_stays() -> None:
    stream = StringIO()
    display = StreamDisplay(None, "table", stream=stream, name="nightly")

    display.tries_again("Spark is slow")
    display.end()

    assert stream.getvalue() == "nightly: Spark is slow\n"


def test_a_job_whose_cluster_is_away_says_why_it_waits() -> None:
    waiting = replace(progress(7, 40), trouble="cannot connect to h:1: Connection refused")
    assert progress_text("nightly", waiting, 0.0) == (
        "nightly: 7 rows in 2 batches, waiting: cannot connect to h:1: Connection refused"
    )


def test_a_terminal_sees_the_start_of_spark_and_then_the_run() -> None:
    stream = Terminal()
    display = StreamDisplay(None, "table", stream=stream, name="nightly")

    display.starting()
    display.end()

    assert stream.getvalue() == "\r\x1b[Knightly: starting Spark\r\x1b[K"


def test_a_file_sees_nothing_at_the_start() -> None:
    stream = StringIO()
    display = StreamDisplay(None, "table", stream=stream, name="nightly")

    display.starting()
    display.progress(progress(0, 5))
    display.end()

    assert stream.getvalue() == ""


def test_every_batch_is_a_line_of_json(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"batch": 2}\n')

    StreamDisplay(str(path), "table", stream=StringIO(), name="nightly").finished(REPORT)

    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        {"batch": 2},
        {
            "name": "nightly",
            "job_id": "1b4e",
            "batch": 3,
            "finished_ms": 1_795_000_000_000,
            "seconds": 1.235,
            "rows": 12,
            "size_bytes": 3_400,
            "backlog": 44,
            "ranges": {"a": {"1": [7, 14]}, "b": {"0": [0, 5]}},
            "notes": ["3 offsets were aborted"],
        },
    ]


def test_metrics_that_cannot_be_written_are_told_before_the_job_begins(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(CommandError, match="cannot write --metrics"):
        MetricsFile(tmp_path / "file" / "m").begin()
    with pytest.raises(PipelineError, match="cannot write --metrics"):
        MetricsFile(tmp_path).begin()


def test_directories_on_the_way_to_the_metrics_are_made(tmp_path: Path) -> None:
    file = MetricsFile(tmp_path / "new" / "m")
    file.begin()
    file.write("nightly", REPORT)

    assert (tmp_path / "new" / "m").read_text().count("\n") == 1
