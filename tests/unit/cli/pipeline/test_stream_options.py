"""Options of a streaming job: what belongs together, what is refused, and what a dry run shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from kbroker.cli.pipeline.job_plan import print_plan
from kbroker.cli.pipeline.stream_options import source_options
from kbroker.model import TopicPartition
from kbroker.pipeline.errors import ExitCode, PipelineError
from kbroker.pipeline.jobs.stream import Stream
from kbroker.pipeline.sources.kafka_source import KafkaSource
from kbroker.pipeline.spark_job.batch import Batch, BatchResult
from kbroker.pipeline.spark_job.offsets import Offsets, Ranges
from kbroker.pipeline.spark_job.session import SessionSettings

KAFKA = ("--bootstrap", "h:1", "--topics", "a,b")
RUN = ("--checkpoint", "/checkpoint", "--once")
Seen = tuple[Stream, Any, SessionSettings]


class Source:
    """Two partitions; nobody reads them here."""

    needs_connector = False
    bounds_itself = True
    fails_on_data_loss = True

    def describe(self) -> str:
        return "memory a"

    def topic_ids(self) -> Mapping[str, str]:
        return {}

    def earliest(self) -> Offsets:
        return {TopicPartition("a", 0): 10, TopicPartition("a", 1): 0}

    def latest(self) -> Offsets:
        return {TopicPartition("a", 0): 1_500, TopicPartition("a", 1): 0}

    def log_ends(self) -> Offsets:
        return self.latest()

    def stream(self, spark: Any, start: Offsets, max_records: int | None) -> Any:
        raise AssertionError("a dry run reads nothing")

    def batch(self, spark: Any, ranges: Ranges) -> Any:
        raise AssertionError("a dry run reads nothing")


def work(batch: Batch) -> BatchResult:
    raise AssertionError("a dry run works on nothing")


@pytest.fixture
def seen() -> list[Seen]:
    return []


@pytest.fixture
def call(seen: list[Seen]) -> Callable[..., Result]:
    """Call a job that only remembers what it is to read."""

    @click.command("copy")
    @click.option("--to", required=True)
    @source_options
    def copy(
        stream: Stream, to: str, dry_run: bool, output: str, spark: SessionSettings, metrics: str
    ) -> int:
        source = stream.source()
        seen.append((stream, source, spark))
        if dry_run:
            print_plan(stream.job(source, "copy", to, work), output)
        return 0

    return lambda *arguments: CliRunner().invoke(copy, ["--to", "/to", *arguments])


def test_a_cluster_is_read_through_kafka(call: Callable[..., Result], seen: list[Seen]) -> None:
    result = call(
        *KAFKA, *RUN, "--kafka-option", "kafka.max.poll.records=9", "--master", "local[3]"
    )

    assert result.exit_code == 0, result.output
    ((stream, source, spark),) = seen
    assert isinstance(source, KafkaSource)
    assert (source.bootstrap, source.topics) == ("h:1", ("a", "b"))
    assert source.options == {"kafka.max.poll.records": "9"}
    assert (stream.job(source, "copy", "", work).name, stream.every_s) == ("copy", None)
    assert (spark.master, spark.is_chosen) == ("local[3]", True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--bootstrap", "h:1", *RUN), "say which topics: --topics A,B or --pattern REGEX"),
        ((*KAFKA, "--pattern", "a.*", *RUN), "--topics and --pattern exclude each other"),
        (("--bootstrap", "h:1", "--pattern", "a(", *RUN), "is not a regular expression"),
        (("--topics", "a", *RUN), "give one source: --bootstrap HOST:PORT, or --data DIR"),
        ((*KAFKA, "--data", "/d", *RUN), "give one source"),
        (("--data", "/d", "--topics", "a", "--kafka-option", "a=b", *RUN), "--kafka-option is for"),
        ((*KAFKA, *RUN, "--kafka-option", "failOnDataLoss=false"), "give --allow-loss"),
        (
            (*KAFKA, *RUN, "--kafka-option", "subscribe=c"),
            "the job sets that itself, give --topics",
        ),
        ((*KAFKA, *RUN, "--kafka-option", "kafka.sasl.kerberos.service.name=k"), "cannot use it"),
        (("--data", "/d", "--topics", "a", "--commit-offsets", *RUN), "--commit-offsets is for"),
        ((*KAFKA, "--once"), "Missing option '--checkpoint'"),
        ((*KAFKA, "--checkpoint", "/c"), "say how long it runs: --once, or --every DURATION"),
        ((*KAFKA, *RUN, "--every", "1s"), "--once and --every exclude each other"),
        ((*KAFKA, *RUN, "--batch-records", "0"), "--batch-records"),
        ((*KAFKA, *RUN, "--spark-conf", "x"), "'x' is not KEY=VALUE"),
    ],
)
def test_what_does_not_belong_together_is_refused(
    call: Callable[..., Result], arguments: tuple[str, ...], said: str
) -> None:
    result = call(*arguments)

    assert result.exit_code == 2
    assert said in " ".join(result.output.split())


def test_finished_batches_are_told_to_the_cluster_that_is_read(
    call: Callable[..., Result], seen: list[Seen]
) -> None:
    call(*KAFKA, *RUN)
    call(*KAFKA, *RUN, "--commit-offsets")

    assert [stream.commit_offsets for stream, *_ in seen] == [False, True]


def test_the_command_line_chooses_between_once_and_every_against_the_file(
    call: Callable[..., Result], seen: list[Seen], tmp_path: Path
) -> None:
    config = tmp_path / "f.toml"
    config.write_text('every = "10s"\ncheckpoint = "/c"\nbootstrap = "h:1"\ntopics = ["a"]\n')

    call("--config", str(config))
    call("--config", str(config), "--once")
    call("--config", str(config), "--every", "2s")

    assert [stream.every_s for stream, *_ in seen] == [10.0, None, 2.0]


def test_an_address_in_the_environment_gives_way_to_directories(
    call: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KBROKER_BOOTSTRAP", "h:1")

    result = call("--data", "/no/such/directory", "--topics", "a", "--checkpoint", "/c", "--once")

    assert "give one source" not in result.output


def test_a_dry_run_shows_the_plan_and_writes_nothing(
    call: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(Stream, "source", lambda _: Source())
    checkpoint = tmp_path / "checkpoint"

    result = call("--checkpoint", str(checkpoint), "--dry-run", "--batch-records", "77")

    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    assert result.exit_code == 0, result.output
    assert "source memory a" in lines
    assert f"checkpoint {checkpoint} (new)" in lines
    assert "to do at most 1,490 records of 2 partitions" in lines
    assert "a 0 10 1500 1490" in lines
    assert "batch-records 77 command line" in lines
    assert "master local[*] default" in lines
    assert not checkpoint.exists()


def test_a_dry_run_tells_what_would_stop_the_job(
    call: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(Stream, "source", lambda _: Source())
    (tmp_path / "photos").mkdir()

    result = call("--checkpoint", str(tmp_path), "--dry-run")

    assert result.exit_code == 1
    assert "is not a checkpoint of kbroker and not empty" in " ".join(result.output.split())


def test_a_source_that_cannot_be_made_is_a_sentence(
    call: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Stream) -> Source:
        raise PipelineError("no such cluster", ExitCode.CANNOT_CONNECT)

    monkeypatch.setattr(Stream, "source", refuse)

    result = call("--checkpoint", "/c", "--once")

    assert result.output == "Error: no such cluster\n"
