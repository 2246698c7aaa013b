"""The data source "kbroker-log" as a stream, over directories that live on meanwhile."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from compat_tests.clients.every_client import create_topic
from compat_tests.conftest import BrokerProcess
from kbroker.pipeline import register
from kbroker.pipeline.spark_job.stream_failure import STARTS, is_slow_start
from tests.fakes.disks.data_directory import DataDirectory

FORMAT = "kbroker-log"


@dataclass
class Batches:
    """What a query was given, by the number of its batch."""

    fails_in_batch: int | None = None
    rows: dict[int, list[tuple[int, int]]] = field(default_factory=dict)  # partition, offset

    def __call__(self, frame: Any, number: int) -> None:
        rows = sorted(tuple(row) for row in frame.select("partition", "offset").collect())
        self.rows[number] = rows
        if number == self.fails_in_batch:
            raise RuntimeError("the work failed")

    def all_rows(self) -> list[tuple[int, int]]:
        return sorted(row for rows in self.rows.values() for row in rows)


@dataclass
class Query:
    """A query with a checkpoint that may be run again and again."""

    spark: Any
    path: Path
    checkpoint: Path
    options: dict[str, str] = field(default_factory=dict)

    def run(self, work: Batches | None = None, **options: str) -> Batches:
        """To the end of what is there; raises what Spark raises."""
        work = work or Batches()
        register(self.spark)
        for _ in range(STARTS - 1):  # a machine with much to do may need several
            try:
                self._run(work, options)
            except Exception as error:
                if not is_slow_start(error):
                    raise
            else:
                return work
        self._run(work, options)
        return work

    def _run(self, work: Batches, options: Mapping[str, str]) -> None:
        query = (
            self.spark.readStream.format(FORMAT)
            .options(**self.options, **options)
            .load(str(self.path))
            .writeStream.foreachBatch(work)
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[DataDirectory]:
    """A live directory: this process holds its lock."""
    directory = DataDirectory(tmp_path / "data", segment_bytes=400, file_delete_delay_ms=0)
    yield directory
    directory.stop()


@pytest.fixture
def query(spark: Any, tmp_path: Path, directory: DataDirectory) -> Query:
    return Query(spark, directory.path, tmp_path / "checkpoint")


def offsets(partition: int, start: int, end: int) -> list[tuple[int, int]]:
    return [(partition, offset) for offset in range(start, end)]


def test_a_query_goes_on_where_it_ended_and_takes_up_new_partitions(
    query: Query, directory: DataDirectory
) -> None:
    directory.fill(10)
    directory.checkpoint(t_0=8)

    first = query.run()
    directory.fill(10)
    directory.fill(5, partition=1)
    directory.checkpoint()
    second = query.run()
    third = query.run()

    assert first.all_rows() == offsets(0, 0, 8)
    assert second.all_rows() == offsets(0, 8, 20) + offsets(1, 0, 5)
    assert third.rows == {}


def test_batches_are_bounded_from_where_the_query_stands(
    query: Query, directory: DataDirectory
) -> None:
    directory.fill(30)
    directory.checkpoint()

    batches = []
    for _ in range(3):  # up to pyspark 4.1 each run takes one batch
        batches += query.run(maxRecordsPerTrigger="10").rows.values()

    assert [rows for rows in batches if rows] == [offsets(0, n, n + 10) for n in (0, 10, 20)]


def test_a_batch_that_failed_is_read_again_just_so(query: Query, directory: DataDirectory) -> None:
    directory.fill(10)
    directory.checkpoint()
    failing = Batches(fails_in_batch=0)

    with pytest.raises(Exception, match="the work failed"):
        query.run(failing)
    directory.fill(10)
    directory.checkpoint()
    again = query.run()

    assert failing.rows[0] == again.rows[0] == offsets(0, 0, 10)


def test_retention_that_overtakes_a_query_ends_it_or_is_passed_over(
    query: Query, directory: DataDirectory
) -> None:
    directory.fill(20)
    directory.checkpoint(t_0=10)
    query.run()
    directory.fill(20)
    directory.retain(30)
    directory.checkpoint()
    start = directory.log().log_start_offset

    reason = rf"PipelineError: t-0 begins with offset {start}, and 10 was to be read"
    with pytest.raises(Exception, match=reason) as raised:
        query.run()
    assert "Traceback" not in str(raised.value)
    passed = query.run(failOnDataLoss="false")

    assert start > 10
    assert passed.all_rows() == offsets(0, start, 40)


def test_offsets_in_the_checkpoint_are_those_of_the_kafka_source(
    query: Query, directory: DataDirectory
) -> None:
    directory.fill(3)
    directory.fill(2, topic="u", partition=1)
    directory.checkpoint()

    query.run()

    logged = (query.checkpoint / "offsets" / "0").read_text().splitlines()[-1]
    assert json.loads(logged) == {"t": {"0": 3}, "u": {"1": 2}}


def test_a_directory_is_read_while_a_broker_writes_it(
    spark: Any, tmp_path: Path, topic: str
) -> None:
    options = [
        "--override", "replica.high.watermark.checkpoint.interval.ms=100",
        "--override", "log.segment.bytes=20000",
    ]  # fmt: skip
    broker = BrokerProcess(tmp_path / "broker" / "data", tuple(options))
    broker.start()
    try:
        create_topic(broker.bootstrap, topic, 2)
        producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5})
        query = Query(spark, broker.data, tmp_path / "checkpoint", {"topics": topic})
        seen: list[tuple[int, int]] = []
        for round_number in range(3):
            for number in range(600):
                producer.produce(topic, str(number).encode(), partition=number % 2)
            producer.poll(0)
            if round_number == 1:
                assert producer.flush(30) == 0
            seen += query.run().all_rows()
        assert producer.flush(30) == 0
    finally:
        broker.stop()
    seen += query.run().all_rows()

    assert sorted(seen) == offsets(0, 0, 900) + offsets(1, 0, 900)
