"""Jobs on Spark: every batch has its ranges, a run goes on where the last one ended."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient

from compat_tests.clients.every_client import create_topic
from compat_tests.conftest import BrokerProcess
from kbroker.model import TopicPartition
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.sources.kafka_source import KafkaSource
from kbroker.pipeline.sources.log_directory_source import LogDirectorySource
from kbroker.pipeline.spark_job.batch import Batch, BatchResult, Ending
from kbroker.pipeline.spark_job.checkpoint import Checkpoint
from kbroker.pipeline.spark_job.job_events import JobEvents
from kbroker.pipeline.spark_job.offsets import OffsetRange, Ranges
from kbroker.pipeline.spark_job.source import Source
from kbroker.pipeline.spark_job.stream_job import JobSettings, StreamJob
from tests.fakes.disks.data_directory import DataDirectory


@dataclass
class Collected:
    """Work that remembers what it was given."""

    fails_in_batch: int | None = None
    values: dict[int, list[int]] = field(default_factory=dict)
    ranges: dict[int, Ranges] = field(default_factory=dict)

    def __call__(self, batch: Batch) -> BatchResult:
        if batch.number == self.fails_in_batch:
            raise PipelineError("the target is full")
        rows = batch.frame.select("value").collect()
        self.values[batch.number] = sorted(int(row.value) for row in rows)
        self.ranges[batch.number] = batch.ranges
        return BatchResult(rows=len(rows))

    def all_values(self) -> list[int]:
        return sorted(value for values in self.values.values() for value in values)


def write(bootstrap: str, topic: str, first: int, count: int, partitions: int = 2) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(first, first + count):
        producer.produce(topic, value=str(number).encode(), partition=number % partitions)
    assert producer.flush(30) == 0


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path / "own" / "data")
    broker.start()
    yield broker
    if broker.process is not None and broker.process.poll() is None:
        broker.stop()


class Told(JobEvents):
    """Remembers what a person is told."""

    def __init__(self) -> None:
        self.sentences: list[str] = []

    def tries_again(self, sentence: str) -> None:
        self.sentences.append(sentence)


@pytest.fixture
def planners(spark: Any) -> Iterator[Path]:
    """A folder that the processes of Spark's Python look into when they start: those that plan a
    stream hang up as often as its file `given-up` says, so that Spark gives them up at once.
    """
    home = spark._jvm.java.lang.System.getenv("SPARK_HOME")
    folder = Path(home) / "python" / "lib" / "pyspark.zip"
    program = folder / "sitecustomize.py"
    program.write_text(_HANGING_UP)
    yield folder
    program.unlink()
    (folder / "given-up").unlink()


_HANGING_UP = """
import os, pathlib, socket
port, file = os.environ.get("PYTHON_WORKER_FACTORY_PORT"), pathlib.Path(__file__).parent / "given-up"
if port and (left := int(file.read_text())):
    file.write_text(str(left - 1))
    socket.create_connection(("127.0.0.1", int(port))).close()
    os._exit(1)
"""


def job(source: Source, checkpoint: Path, work: Collected, **settings: Any) -> StreamJob:
    return StreamJob(
        "numbers", source, Checkpoint(checkpoint), JobSettings(kind="test", **settings), work
    )


def test_a_run_takes_batches_of_bounded_size_and_the_next_one_goes_on_after_it(
    spark: Any, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    create_topic(bootstrap, topic, 2)
    source = KafkaSource(bootstrap=bootstrap, topics=(topic,))
    first, second = Collected(), Collected()

    write(bootstrap, topic, 0, 100)
    report = job(source, tmp_path / "checkpoint", first, batch_records=40).run(spark)
    write(bootstrap, topic, 100, 10)
    again = job(source, tmp_path / "checkpoint", second, batch_records=40).run(spark)

    one, other = TopicPartition(topic, 0), TopicPartition(topic, 1)
    assert first.all_values() == list(range(100))
    assert first.ranges[0] == {one: OffsetRange(0, 20), other: OffsetRange(0, 20)}
    assert first.ranges[2] == {one: OffsetRange(40, 50), other: OffsetRange(40, 50)}
    assert (report.rows, report.batches, report.ending) == (100, 3, Ending.REACHED)
    assert second.values == {3: list(range(100, 110))}
    assert second.ranges == {3: {one: OffsetRange(50, 55), other: OffsetRange(50, 55)}}
    assert again.ranges == {one: OffsetRange(50, 55), other: OffsetRange(50, 55)}


def test_a_batch_that_failed_is_run_again_with_its_number_and_its_ranges(
    spark: Any, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    create_topic(bootstrap, topic, 2)
    source = KafkaSource(bootstrap=bootstrap, topics=(topic,))
    write(bootstrap, topic, 0, 100)
    first, second = Collected(fails_in_batch=1), Collected()

    with pytest.raises(PipelineError, match="the target is full"):
        job(source, tmp_path / "checkpoint", first, batch_records=40).run(spark)
    write(bootstrap, topic, 100, 100)
    job(source, tmp_path / "checkpoint", second, batch_records=40).run(spark)

    assert list(first.values) == [0]
    assert second.values[1] == list(range(40, 80))
    assert sorted(first.all_values() + second.all_values()) == list(range(200))


def test_a_topic_that_was_made_anew_is_refused_although_it_is_longer_now(
    spark: Any, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    create_topic(bootstrap, topic, 2)
    source = KafkaSource(bootstrap=bootstrap, topics=(topic,))
    write(bootstrap, topic, 0, 10)
    job(source, tmp_path / "checkpoint", Collected()).run(spark)

    admin.delete_topics([topic])[topic].result()
    create_topic(bootstrap, topic, 2)
    write(bootstrap, topic, 0, 100)

    with pytest.raises(PipelineError, match=f"topic {topic} was deleted and created again"):
        job(source, tmp_path / "checkpoint", Collected()).run(spark)


def test_records_that_were_removed_before_they_were_read_are_named(
    spark: Any, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    create_topic(bootstrap, topic, 1)
    source = KafkaSource(bootstrap=bootstrap, topics=(topic,))
    write(bootstrap, topic, 0, 10, partitions=1)
    job(source, tmp_path / "checkpoint", Collected()).run(spark)

    write(bootstrap, topic, 10, 10, partitions=1)
    first_kept = ClientPartition(topic, 0, 15)
    admin.delete_records([first_kept])[ClientPartition(topic, 0)].result()

    with pytest.raises(PipelineError, match=f"offsets 10 to 14 of {topic}-0 were removed"):
        job(source, tmp_path / "checkpoint", Collected()).run(spark)


def test_a_run_that_is_stopped_ends_after_its_batch_and_the_next_one_goes_on(
    spark: Any, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    create_topic(bootstrap, topic, 2)
    source = KafkaSource(bootstrap=bootstrap, topics=(topic,))
    write(bootstrap, topic, 0, 100)
    first, second = Collected(), Collected()
    stopped = job(source, tmp_path / "checkpoint", first, batch_records=40, every_s=0.1)

    def stop_and_work(batch: Batch) -> BatchResult:
        stopped.stop()
        return first(batch)

    stopped.work = stop_and_work  # type: ignore[method-assign]
    report = stopped.run(spark)
    job(source, tmp_path / "checkpoint", second, batch_records=40).run(spark)

    assert (report.ending, report.backlog) == (Ending.STOPPED, 60)
    assert first.values == {0: list(range(40))}
    assert second.all_values() == list(range(40, 100))


def test_directories_are_read_in_bounded_batches_up_to_the_end_that_was_there(
    spark: Any, own_broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    create_topic(own_broker.bootstrap, topic, 2)
    write(own_broker.bootstrap, topic, 0, 100)
    own_broker.stop()
    source = LogDirectorySource([str(own_broker.data)], topics=[topic])
    first, second = Collected(), Collected()

    report = job(source, tmp_path / "checkpoint", first, batch_records=40).run(spark)
    again = job(source, tmp_path / "checkpoint", second, batch_records=40).run(spark)

    assert first.all_values() == list(range(100))
    assert max(len(values) for values in first.values.values()) <= 40
    assert (report.rows, report.ending, report.backlog) == (100, Ending.REACHED, 0)
    assert (second.values, again.batches) == ({}, 0)


def test_what_spark_fails_with_inside_the_work_is_one_sentence(
    spark: Any, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    create_topic(bootstrap, topic, 1)
    write(bootstrap, topic, 0, 3, partitions=1)
    source = KafkaSource(bootstrap=bootstrap, topics=(topic,))

    def work(batch: Batch) -> BatchResult:
        batch.frame.selectExpr("raise_error('a bad row')").collect()
        return BatchResult(rows=0)

    failing = StreamJob(
        "numbers", source, Checkpoint(tmp_path / "c"), JobSettings(kind="test"), work
    )
    with pytest.raises(PipelineError, match=r"the Spark query failed: .*a bad row") as raised:
        failing.run(spark)

    assert "\n" not in raised.value.sentence


def test_a_planner_that_spark_gave_up_is_started_again(
    spark: Any, planners: Path, tmp_path: Path
) -> None:
    directory = DataDirectory(tmp_path / "data")
    directory.fill(10)
    directory.stop()
    (planners / "given-up").write_text("2")
    source, events = LogDirectorySource([str(directory.path)]), Told()

    def work(batch: Batch) -> BatchResult:
        return BatchResult(rows=batch.frame.count())

    given_up = StreamJob(
        "numbers", source, Checkpoint(tmp_path / "c"), JobSettings(kind="test"), work
    )
    report = given_up.run(spark, events)

    assert (report.ending, report.rows) == (Ending.REACHED, 10)
    assert len(events.sentences) == 2
    assert (planners / "given-up").read_text() == "0"
