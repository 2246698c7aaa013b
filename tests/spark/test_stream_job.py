"""Jobs on Spark: every batch has its ranges, a run goes on where the last one ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from compat_tests.clients import create_topic
from kbroker.model import TopicPartition
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.frame.batch import Batch, BatchResult, Ending
from kbroker.pipeline.frame.checkpoint import Checkpoint
from kbroker.pipeline.frame.offsets import OffsetRange, Ranges
from kbroker.pipeline.frame.stream_job import JobSettings, StreamJob
from kbroker.pipeline.sources.kafka_source import KafkaSource


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


def job(source: KafkaSource, checkpoint: Path, work: Collected, **settings: Any) -> StreamJob:
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
