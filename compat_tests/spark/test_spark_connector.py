"""Spark's Kafka connector, fetched by Spark itself from plain `spark.jars.packages`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from compat_tests.clients.every_client import FIRST_TIMESTAMP_MS, create_topic


def write(bootstrap: str, topic: str, first: int, count: int, partitions: int = 2) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in range(first, first + count):
        producer.produce(
            topic,
            key=f"k{number}".encode(),
            value=str(number).encode(),
            partition=number % partitions,
            timestamp=FIRST_TIMESTAMP_MS + number * 1000,
            headers=[("n", str(number).encode()), ("n", b"again")],
        )
    assert producer.flush(30) == 0


def read(spark: Any, bootstrap: str, **options: str) -> Any:
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load()


def numbers(frame: Any) -> list[int]:
    return sorted(int(row.value) for row in frame.select("value").collect())


def test_a_batch_is_written_and_read(spark: Any, bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, 2)
    rows = [(f"k{n}", str(n)) for n in range(500)]
    frame = spark.createDataFrame(rows, "key string, value string")

    frame.write.format("kafka").option("kafka.bootstrap.servers", bootstrap).option(
        "topic", topic
    ).save()
    found = read(spark, bootstrap, subscribe=topic)

    assert sorted(
        (bytes(r.key).decode(), bytes(r.value).decode()) for r in found.collect()
    ) == sorted(rows)


def test_a_batch_into_a_topic_that_does_not_exist_yet(
    spark: Any, bootstrap: str, topic: str
) -> None:
    frame = spark.createDataFrame([("a", "1")], "key string, value string")

    frame.write.format("kafka").option("kafka.bootstrap.servers", bootstrap).option(
        "topic", topic
    ).save()

    assert numbers(read(spark, bootstrap, subscribe=topic)) == [1]


def test_headers_are_read(spark: Any, bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, 1)
    write(bootstrap, topic, 0, 3, partitions=1)

    rows = (
        read(spark, bootstrap, subscribe=topic, includeHeaders="true").orderBy("offset").collect()
    )

    assert [[(h.key, bytes(h.value)) for h in row.headers] for row in rows] == [
        [("n", str(n).encode()), ("n", b"again")] for n in range(3)
    ]


def test_subscribe_pattern_and_assign(spark: Any, bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, f"{topic}-a", 2)
    create_topic(bootstrap, f"{topic}-b", 2)
    write(bootstrap, f"{topic}-a", 0, 10)
    write(bootstrap, f"{topic}-b", 10, 10)

    by_pattern = read(spark, bootstrap, subscribePattern=f"{topic}-.*")
    assigned = read(spark, bootstrap, assign=json.dumps({f"{topic}-a": [1]}))

    assert numbers(by_pattern) == list(range(20))
    assert numbers(assigned) == [1, 3, 5, 7, 9]


def test_starting_and_ending_offsets(spark: Any, bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, 2)
    write(bootstrap, topic, 0, 20)

    per_partition = read(
        spark,
        bootstrap,
        subscribe=topic,
        startingOffsets=json.dumps({topic: {"0": 8, "1": -2}}),
        endingOffsets=json.dumps({topic: {"0": -1, "1": 3}}),
    )
    by_time = read(
        spark, bootstrap, subscribe=topic, startingTimestamp=str(FIRST_TIMESTAMP_MS + 15_000)
    )
    by_time_per_partition = read(
        spark,
        bootstrap,
        subscribe=topic,
        startingOffsetsByTimestamp=json.dumps(
            {topic: {"0": FIRST_TIMESTAMP_MS + 16_000, "1": FIRST_TIMESTAMP_MS + 19_000}}
        ),
    )
    earliest_to_latest = read(
        spark, bootstrap, subscribe=topic, startingOffsets="earliest", endingOffsets="latest"
    )

    assert numbers(per_partition) == [1, 3, 5, 16, 18]
    assert numbers(by_time) == [15, 16, 17, 18, 19]
    assert numbers(by_time_per_partition) == [16, 18, 19]
    assert numbers(earliest_to_latest) == list(range(20))


def test_a_stream_is_stopped_and_resumed_at_its_checkpoint(
    spark: Any, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    create_topic(bootstrap, topic, 2)
    create_topic(bootstrap, f"{topic}-out", 2)

    def run() -> None:
        stream = (
            spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", "30")
            .load()
        )
        query = (
            stream.selectExpr("key", "value")
            .writeStream.format("kafka")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("topic", f"{topic}-out")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        assert query.exception() is None

    write(bootstrap, topic, 0, 100)
    run()
    write(bootstrap, topic, 100, 50)
    run()

    assert numbers(read(spark, bootstrap, subscribe=f"{topic}-out")) == list(range(150))


def test_a_stream_that_starts_at_the_latest_sees_only_what_comes_after(
    spark: Any, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    create_topic(bootstrap, topic, 2)
    write(bootstrap, topic, 0, 20)

    def run() -> list[int]:
        stream = (
            spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("subscribe", topic)
            .option("startingOffsets", "latest")
            .load()
        )
        seen: list[int] = []
        query = (
            stream.writeStream.foreachBatch(lambda frame, _: seen.extend(numbers(frame)))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        return seen

    first = run()
    write(bootstrap, topic, 20, 10)
    second = run()

    assert first == []
    assert second == list(range(20, 30))
