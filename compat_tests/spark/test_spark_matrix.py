"""What Spark's Kafka source and sink ask of a broker beyond plain reading and writing: holes, lost
and added data, splits, large records, restarts. Apache Kafka is the measure: `--target kafka`.
"""

from __future__ import annotations

import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    NewPartitions,
    NewTopic,
)

from compat_tests.clients.every_client import (
    FIRST_TIMESTAMP_MS,
    begin_transaction,
    create_topic,
    transactional_producer,
)
from compat_tests.conftest import BrokerProcess
from compat_tests.running.waiting import until
from compat_tests.spark.test_spark_connector import numbers, read, write

MIB = 1 << 20
DATA_LOSS = re.compile(r"KAFKA_DATA_LOSS|data may have been (lost|missed)", re.IGNORECASE)


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


@pytest.fixture(scope="module", autouse=True)
def compacted_topic(bootstrap: str) -> Iterator[str]:
    """Ten keys, six times. A cleaner looks for work every 15 s: it has the time of all other tests."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topic = f"t-{uuid.uuid4().hex[:12]}"
    compact = {
        "cleanup_policy": "compact",
        "segment_ms": "1000",
        "min_cleanable_dirty_ratio": "0.01",
    }
    create(admin, topic, 1, **compact)
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in range(60):  # a record of a later time begins a segment
        moment = FIRST_TIMESTAMP_MS + number // 10 * 10_000
        producer.produce(topic, key=str(number % 10), value=str(number), timestamp=moment)
        if number % 10 == 9:
            assert producer.flush(20) == 0
    yield topic
    admin.delete_topics([topic])[topic].result(20)


class Stream:
    """A query on a topic that notes the numbers it is given, batch by batch; each run goes on at
    the checkpoint.
    """

    def __init__(self, spark: Any, bootstrap: str, topic: str, checkpoint: Path) -> None:
        self.spark, self.bootstrap, self.topic = spark, bootstrap, topic
        self.checkpoint = checkpoint
        self.batches: dict[int, list[int]] = {}
        self.attempts: list[int] = []
        self.tasks: list[int] = []
        self.fails_at: int | None = None

    def start(self, trigger: dict[str, Any], **options: str) -> Any:
        reader = self.spark.readStream.format("kafka")
        options = {"startingOffsets": "earliest", "subscribe": self.topic, **options}
        frame = reader.option("kafka.bootstrap.servers", self.bootstrap).options(**options).load()
        writer = frame.selectExpr("CAST(value AS STRING) AS value").writeStream
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        return writer.foreachBatch(self._take).trigger(**trigger).start()

    def run(self, **options: str) -> list[int]:
        """All that is available; the numbers of this run. Raises what ended the query."""
        self.batches = {}
        query = self.start({"availableNow": True}, **options)
        assert query.awaitTermination(100)
        return sorted(number for batch in self.batches.values() for number in batch)

    def _take(self, frame: Any, batch_id: int) -> None:
        found = numbers(frame)
        self.tasks.append(frame.rdd.getNumPartitions())
        self.attempts.append(batch_id)
        if batch_id == self.fails_at:
            raise RuntimeError("killed on purpose")
        self.batches[batch_id] = found


@pytest.fixture
def stream(spark: Any, bootstrap: str, topic: str, tmp_path: Path) -> Stream:
    return Stream(spark, bootstrap, topic, tmp_path / "checkpoint")


def create(admin: AdminClient, topic: str, partitions: int, **config: str) -> None:
    named = {name.replace("_", "."): value for name, value in config.items()}
    admin.create_topics([NewTopic(topic, partitions, 1, config=named)])[topic].result(20)


def delete_before(admin: AdminClient, topic: str, offset: int) -> None:
    (deleted,) = admin.delete_records([TopicPartition(topic, 0, offset)]).values()
    deleted.result(20)


def offsets_of(bootstrap: str, topic: str) -> list[int]:
    """The offsets that are left in partition 0."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "x"})
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), 10)
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[int] = []
    while not found or found[-1] < end - 1:
        found += [message.offset() for message in consumer.consume(1_000, 1)]
    consumer.close()
    return found


def test_headers_keys_and_values_with_nulls_come_as_they_are(
    spark: Any, bootstrap: str, topic: str
) -> None:
    create_topic(bootstrap, topic, 1)
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    twice = [("h", b"1"), ("h", None), ("", b""), ("h", b"1")]
    producer.produce(topic, key=None, value=b"1", headers=twice)
    producer.produce(topic, key=b"k", value=None)
    producer.produce(topic, key=b"", value=b"", headers=[("bin", bytes(range(256)))])
    assert producer.flush(20) == 0

    rows = read(spark, bootstrap, subscribe=topic, includeHeaders="true").orderBy("offset")

    def plain(value: Any) -> bytes | None:
        return None if value is None else bytes(value)

    assert [
        (
            plain(row.key),
            plain(row.value),
            None if row.headers is None else [(h.key, plain(h.value)) for h in row.headers],
        )
        for row in rows.collect()
    ] == [
        (None, b"1", twice),
        (b"k", None, None),
        (b"", b"", [("bin", bytes(range(256)))]),
    ]


def test_retention_that_overtook_a_checkpoint_is_data_loss_unless_that_is_fine(
    bootstrap: str, topic: str, admin: AdminClient, stream: Stream
) -> None:
    create_topic(bootstrap, topic, 1)
    write(bootstrap, topic, 0, 10, partitions=1)
    assert stream.run() == list(range(10))
    write(bootstrap, topic, 10, 30, partitions=1)
    delete_before(admin, topic, 25)

    with pytest.raises(Exception, match=DATA_LOSS):
        stream.run()
    again = stream.run(failOnDataLoss="false")

    assert again == list(range(25, 40))


def test_a_topic_that_was_made_anew_is_data_loss_unless_that_is_fine(
    bootstrap: str, topic: str, admin: AdminClient, stream: Stream
) -> None:
    create_topic(bootstrap, topic, 1)
    write(bootstrap, topic, 0, 10, partitions=1)
    assert stream.run() == list(range(10))
    admin.delete_topics([topic])[topic].result(20)
    until(lambda: topic not in admin.list_topics(timeout=10).topics, "deletion")
    create_topic(bootstrap, topic, 1)
    write(bootstrap, topic, 100, 3, partitions=1)

    with pytest.raises(Exception, match=DATA_LOSS):
        stream.run()
    while_shorter = stream.run(failOnDataLoss="false")
    write(bootstrap, topic, 103, 4, partitions=1)
    later = stream.run(failOnDataLoss="false")

    assert (while_shorter, later) == ([], list(range(103, 107)))


def test_a_partition_that_is_added_to_a_running_query_is_read_from_its_start(
    bootstrap: str, topic: str, admin: AdminClient, stream: Stream
) -> None:
    create_topic(bootstrap, topic, 1)
    write(bootstrap, topic, 0, 10, partitions=1)

    query = stream.start({"processingTime": "100 milliseconds"})
    query.processAllAvailable()
    admin.create_partitions([NewPartitions(topic, 2)])[topic].result(20)
    write(bootstrap, topic, 10, 10, partitions=2)
    until(lambda: sum(map(len, stream.batches.values())) == 20, "20 records")
    query.stop()

    assert sorted(chain(*stream.batches.values())) == list(range(20))
    assert query.exception() is None


def test_a_batch_that_was_killed_comes_again_with_the_same_records(
    bootstrap: str, topic: str, stream: Stream
) -> None:
    create_topic(bootstrap, topic, 2)
    write(bootstrap, topic, 0, 100)
    stream.fails_at = 2

    with pytest.raises(Exception, match="killed on purpose"):
        stream.run(maxOffsetsPerTrigger="30")
    before = dict(stream.batches)
    write(bootstrap, topic, 100, 20)
    stream.fails_at = None
    stream.run(maxOffsetsPerTrigger="30")

    assert stream.attempts == [0, 1, 2, 2, 3]
    assert sorted(chain(*{**before, **stream.batches}.values())) == list(range(120))
    assert [len(batch) for batch in before.values()] == [30, 30]
    assert len(stream.batches[2]) == 30


def test_partitions_are_split_by_number_and_by_size(
    spark: Any, bootstrap: str, topic: str, stream: Stream
) -> None:
    create_topic(bootstrap, topic, 1)
    write(bootstrap, topic, 0, 90, partitions=1)

    by_number = read(spark, bootstrap, subscribe=topic, minPartitions="3")

    assert (by_number.rdd.getNumPartitions(), numbers(by_number)) == (3, list(range(90)))
    assert stream.run(maxRecordsPerPartition="25") == list(range(90))
    assert stream.tasks == [4]


def test_records_larger_than_a_fetch_are_written_and_read(
    spark: Any, bootstrap: str, topic: str, admin: AdminClient
) -> None:
    create(admin, topic, 2, max_message_bytes=str(4 * MIB))
    frame = spark.sql(
        "SELECT CAST(id % 2 AS INT) AS partition, CAST(id AS STRING) AS key, "
        f"repeat(CAST(id AS STRING), {MIB + MIB // 2}) AS value FROM range(0, 8, 1, 1)"
    )

    frame.write.format("kafka").option("kafka.bootstrap.servers", bootstrap).option(
        "kafka.max.request.size", str(4 * MIB)
    ).option("topic", topic).save()
    found = read(spark, bootstrap, subscribe=topic).selectExpr(
        "partition", "offset", "CAST(CAST(key AS STRING) AS INT) AS key", "length(value) AS size",
        "CAST(CAST(substring(value, -1) AS STRING) AS INT) AS last",
    )  # fmt: skip

    assert sorted(tuple(row) for row in found.collect()) == [
        (number % 2, number // 2, number, MIB + MIB // 2, number) for number in (0, 2, 4, 6)
    ] + [(number % 2, number // 2, number, MIB + MIB // 2, number) for number in (1, 3, 5, 7)]


def test_the_sink_takes_partitions_topics_nulls_and_headers_from_columns(
    spark: Any, bootstrap: str, topic: str
) -> None:
    create_topic(bootstrap, f"{topic}-a", 3)
    create_topic(bootstrap, f"{topic}-b", 1)
    rows = [
        (f"{topic}-a", 2, None, "1", None),
        (f"{topic}-a", 0, "k", None, None),
        (f"{topic}-a", 0, None, None, [("h", bytearray(b"1")), ("h", None)]),
        (f"{topic}-b", None, "k", "", None),
    ]
    columns = "topic string, partition int, key string, value string, "
    columns += "headers array<struct<key: string, value: binary>>"
    frame = spark.createDataFrame(rows, columns)

    frame.write.format("kafka").option("kafka.bootstrap.servers", bootstrap).save()
    found = read(spark, bootstrap, subscribePattern=f"{topic}-.", includeHeaders="true")
    read_back = found.selectExpr(
        "topic", "partition", "CAST(key AS STRING)", "CAST(value AS STRING)", "headers"
    ).collect()

    assert sorted(
        (
            (
                row.topic,
                row.partition,
                row.key,
                row.value,
                row.headers and [tuple(h) for h in row.headers],
            )
            for row in read_back
        ),
        key=str,
    ) == sorted(
        (
            (f"{topic}-a", 2, None, "1", None),
            (f"{topic}-a", 0, "k", None, None),
            (f"{topic}-a", 0, None, None, [("h", bytearray(b"1")), ("h", None)]),
            (f"{topic}-b", 0, "k", "", None),
        ),
        key=str,
    )


def test_a_broker_that_is_killed_under_five_requests_in_flight_loses_and_doubles_nothing(
    spark: Any, own_broker: Callable[..., BrokerProcess], topic: str
) -> None:
    broker = own_broker()
    create_topic(broker.bootstrap, topic, 2)
    frame = spark.sql(
        "SELECT CAST(id AS STRING) AS value, CAST(id % 2 AS INT) AS partition "
        "FROM range(0, 200000, 1, 2)"
    )
    failures: list[Exception] = []

    def save() -> None:
        try:
            frame.write.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap).option(
                "topic", topic
            ).save()
        except Exception as error:
            failures.append(error)

    writing = threading.Thread(target=save)
    writing.start()
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "x"})
    partition = TopicPartition(topic, 0)
    until(lambda: consumer.get_watermark_offsets(partition, 10)[1] > 1_000, "the first records")
    consumer.close()
    broker.process.kill()  # type: ignore[union-attr]
    broker.process.wait()  # type: ignore[union-attr]
    was_writing = writing.is_alive()
    broker.start()
    writing.join(100)

    found = read(spark, broker.bootstrap, subscribe=topic).selectExpr(
        "CAST(CAST(value AS STRING) AS BIGINT) AS value"
    )
    assert (failures, was_writing) == ([], True)
    assert tuple(
        found.selectExpr("count(*)", "count(DISTINCT value)", "min(value)", "max(value)").first()
    ) == (200_000, 200_000, 0, 199_999)


def test_only_what_was_committed_is_read_where_that_is_asked_for(
    spark: Any, bootstrap: str, topic: str
) -> None:
    producer = transactional_producer(bootstrap, topic)
    create_topic(bootstrap, topic, 1)
    for first, end in ((0, producer.commit_transaction), (3, producer.abort_transaction)):
        begin_transaction(producer, topic, range(first, first + 3))
        end(20)
    begin_transaction(producer, topic, [6])

    committed = read(
        spark, bootstrap, subscribe=topic, **{"kafka.isolation.level": "read_committed"}
    )
    everything = read(spark, bootstrap, subscribe=topic)

    assert numbers(committed) == [0, 1, 2]
    assert numbers(everything) == [0, 1, 2, 3, 4, 5, 6]
    producer.abort_transaction(20)


def test_real_time_mode_passes_records_on_at_once(
    spark: Any, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    import pyspark

    if tuple(map(int, pyspark.__version__.split(".")[:2])) < (4, 2):
        pytest.skip("real-time mode needs pyspark 4.2")
    create_topic(bootstrap, topic, 1)
    create_topic(bootstrap, f"{topic}-out", 1)
    interval_s = 10
    frame = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    query = (
        frame.option("subscribe", topic)
        .load()
        .selectExpr("key", "value")
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", f"{topic}-out")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .outputMode("update")
        .trigger(realTime=f"{interval_s} seconds")
        .start()
    )
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic})
    consumer.assign([TopicPartition(f"{topic}-out", 0, 0)])
    until(lambda: query.status["isTriggerActive"], "the first trigger")

    waited: list[float] = []
    for number in range(20):
        before = time.monotonic()
        write(bootstrap, topic, number, 1, partitions=1)
        message = consumer.poll(3 * interval_s)
        waited.append(time.monotonic() - before)
        assert message is not None, query.exception()
        assert message.value() == str(number).encode()
    query.stop()
    consumer.close()

    assert sorted(waited)[10] < interval_s / 10


def test_the_holes_of_a_compacted_topic_are_read_over(
    spark: Any, bootstrap: str, compacted_topic: str, stream: Stream
) -> None:
    topic = stream.topic = compacted_topic
    until(lambda: offsets_of(bootstrap, topic) == list(range(40, 60)), "compaction")

    everything = read(spark, bootstrap, subscribe=topic)
    from_hole_to_hole = read(
        spark,
        bootstrap,
        subscribe=topic,
        startingOffsets=f'{{"{topic}":{{"0":13}}}}',
        endingOffsets=f'{{"{topic}":{{"0":44}}}}',
        minPartitions="2",
    )

    assert numbers(everything) == list(range(40, 60))
    assert numbers(from_hole_to_hole) == [40, 41, 42, 43]
    assert stream.run(maxOffsetsPerTrigger="17") == list(range(40, 60))
    assert stream.batches[0] == []  # 17 offsets without a record
    assert len(stream.batches) == 4
