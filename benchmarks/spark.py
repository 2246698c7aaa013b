"""Spark beside the broker: what its batch jobs write and read in a second, and what that costs the
broker.

One warm session serves all rounds; the brokers take turns. Records have 1,000 bytes of random text
and go to 4 partitions without compression. `tuned` are the options that `kbroker pipeline` sets and
a user of the connector is advised to set, `defaults` are Spark's own.
"""

from __future__ import annotations

import functools
import random
import string
import time
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks import raw_client
from benchmarks.loads import Figures, Load
from benchmarks.processes import RunningBroker
from benchmarks.spark_session import session

RECORDS = 1_000_000
RECORD_BYTES = 1_000
SMALL_RECORD_BYTES = 100
PARTITIONS = 4
TOPIC = "spark-tuned"  # what every read reads

_WARM_UP_RECORDS = 200_000
_TEXT_BYTES = 1 << 20
_MIB = 1 << 20
_warmed: list[str] = []  # the broker that Spark was warmed with
READ_OPTIONS: Mapping[str, Mapping[str, str]] = {
    "defaults": {},
    "tuned": {
        "kafka.max.poll.records": "20000",
        "kafka.max.partition.fetch.bytes": str(4 * _MIB),
        "kafka.receive.buffer.bytes": str(_MIB),
    },
}
WRITE_OPTIONS: Mapping[str, Mapping[str, str]] = {
    "defaults": {},
    "tuned": {
        "kafka.linger.ms": "20",
        "kafka.batch.size": str(_MIB // 4),
        "kafka.send.buffer.bytes": str(_MIB),
    },
}


def batch_write(options: str) -> Load:
    """`df.write.format("kafka")` of the records into a new topic."""

    def load(broker: RunningBroker) -> Figures:
        _warm_spark(broker)
        topic = f"spark-{options}"
        warm_up = f"{topic}-warm-up"
        raw_client.create_topic(broker.address, topic, PARTITIONS)
        raw_client.create_topic(broker.address, warm_up, PARTITIONS)
        _write(broker, warm_up, _WARM_UP_RECORDS, WRITE_OPTIONS[options])
        return timed(broker, lambda: _write(broker, topic, RECORDS, WRITE_OPTIONS[options]))

    return load


def batch_read(options: str) -> Load:
    """`spark.read.format("kafka")` of what the tuned write wrote, all columns, into `noop`."""

    def load(broker: RunningBroker) -> Figures:
        read_topic(broker, f"{TOPIC}-warm-up", READ_OPTIONS[options])
        return timed(broker, lambda: read_topic(broker, TOPIC, READ_OPTIONS[options]))

    return load


ROWS: list[tuple[str, Load]] = [
    ("spark: batch write, tuned", batch_write("tuned")),
    ("spark: batch read, tuned", batch_read("tuned")),
    ("spark: batch write, defaults", batch_write("defaults")),
    ("spark: batch read, defaults", batch_read("defaults")),
]


def read_topic(broker: RunningBroker, topic: str, options: Mapping[str, str]) -> None:
    """All columns of all records, which go nowhere."""
    reader = session().read.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap)
    frame = reader.options(subscribe=topic, includeHeaders="true", **options).load()
    frame.write.format("noop").mode("overwrite").save()


def timed(broker: RunningBroker, work: Callable[[], Any], records: int = RECORDS) -> Figures:
    """Rate of work on all records, and the time that it takes of the broker's process."""
    cpu, begun = broker.cpu_s(), time.perf_counter()
    work()
    elapsed = time.perf_counter() - begun
    return {"records_per_s": records / elapsed, "broker_cpu_s": broker.cpu_s() - cpu}


def _warm_spark(broker: RunningBroker) -> None:
    """Once per run: whichever broker comes first must not pay for Java's compiler."""
    if not _warmed:
        _warmed.append(broker.name)
        raw_client.create_topic(broker.address, "warm-up", PARTITIONS)
        for options in WRITE_OPTIONS:
            _write(broker, "warm-up", RECORDS // 2, WRITE_OPTIONS[options])
            read_topic(broker, "warm-up", READ_OPTIONS[options])


def write_small_records(broker: RunningBroker, topic: str, records: int) -> None:
    """Records of 100 bytes into a new topic."""
    raw_client.create_topic(broker.address, topic, PARTITIONS)
    _write(broker, topic, records, WRITE_OPTIONS["tuned"], SMALL_RECORD_BYTES)


def _write(
    broker: RunningBroker,
    topic: str,
    records: int,
    options: Mapping[str, str],
    record_bytes: int = RECORD_BYTES,
) -> None:
    frame = _records(session(), records, record_bytes)
    writer = frame.write.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap)
    writer.options(topic=topic, **options).save()


def _records(spark: Any, count: int, size_bytes: int) -> Any:
    """Keys are numbers, values pieces of a random text."""
    from pyspark.sql import functions

    start = functions.pmod(functions.col("id") * 7_919, functions.lit(_TEXT_BYTES - size_bytes))
    text = functions.lit(_random_text())
    value = functions.substring(text, start.cast("int") + 1, functions.lit(size_bytes))
    return spark.range(0, count, 1, PARTITIONS).select(
        functions.col("id").cast("string").alias("key"), value.alias("value")
    )


@functools.cache
def _random_text() -> bytearray:
    letters = (string.ascii_letters + string.digits + " .").encode()
    return bytearray(random.Random(6).choices(letters, k=_TEXT_BYTES))
