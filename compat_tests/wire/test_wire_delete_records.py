"""DeleteRecords and DescribeLogDirs: where logs begin afterwards, and what is refused."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from compat_tests.wire.record_bytes import batch
from compat_tests.wire.wire_client import (
    DELETE_RECORDS,
    DESCRIBE_LOG_DIRS,
    WireClient,
    code,
    fetched,
    stored_at,
)

BATCH = batch(5, value_bytes=20)
OUT_OF_RANGE = "1 OFFSET_OUT_OF_RANGE low=-1"


@pytest.fixture
def three_batches(wire: WireClient) -> str:
    """A topic with three equal batches of five records."""
    topic = wire.create_topic()
    assert [wire.produce(topic, BATCH) for _ in range(3)] == [stored_at(n) for n in (0, 5, 10)]
    return topic


def delete(wire: WireClient, topic: str, offset: int, version: int = 1) -> str:
    partitions = [{"partition_index": 0, "offset": offset}]
    topics = [{"name": topic, "partitions": partitions}]
    answer = wire.call(DELETE_RECORDS, version, topics=topics, timeout=10_000)
    (partition,) = answer.topics[0].partitions
    return f"{code(partition.error_code)} low={partition.low_watermark}"


def log_dirs(wire: WireClient, topic: str, version: int) -> list[Any]:
    topics = [{"topic": topic, "partitions": [0]}]
    return list(wire.call(DESCRIBE_LOG_DIRS, version, topics=topics).results)


@pytest.mark.row(99)
def test_a_fetch_before_the_log_start_is_out_of_range(wire: WireClient, three_batches: str) -> None:
    delete(wire, three_batches, 6)

    assert (
        fetched(wire.fetch(three_batches, 2))
        == "1 OFFSET_OUT_OF_RANGE; hw=-1; lso=-1; log_start=-1; records=0 bytes"
    )
    assert wire.fetch(three_batches, 6).log_start_offset == 6
    assert wire.list_offsets(three_batches, -2).startswith("0 offset=6 ")


@pytest.mark.row(204)
def test_the_low_watermark_or_a_refusal_is_answered(wire: WireClient, three_batches: str) -> None:
    compacted = wire.create_topic(configs={"cleanup.policy": "compact"})

    assert delete(wire, three_batches, 16) == OUT_OF_RANGE
    assert delete(wire, three_batches, -2) == OUT_OF_RANGE
    assert delete(wire, "never-asked-for", 1) == "3 UNKNOWN_TOPIC_OR_PARTITION low=-1"
    assert delete(wire, compacted, -1) == "44 POLICY_VIOLATION low=-1"
    assert delete(wire, three_batches, -1) == "0 low=15"


@pytest.mark.row(204)
def test_a_topic_that_is_compacted_and_deleted_allows_it(wire: WireClient) -> None:
    topic = wire.create_topic(configs={"cleanup.policy": "compact,delete"})

    assert delete(wire, topic, -1) == "0 low=0"


@pytest.mark.row(205)
@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_log_start_never_moves_back(wire: WireClient, three_batches: str, version: int) -> None:
    assert delete(wire, three_batches, 6, version) == "0 low=6"
    assert delete(wire, three_batches, 3, version) == "0 low=6"


@pytest.mark.row(222)
@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_directories_without_the_wanted_topic_have_no_topics(
    wire: WireClient, version: int
) -> None:
    answer = wire.call(
        DESCRIBE_LOG_DIRS, version, topics=[{"topic": "never-asked-for", "partitions": [0]}]
    )

    assert [(code(d.error_code), list(d.topics)) for d in answer.results] == [("0", [])]
    assert version < 3 or code(answer.error_code) == "0"


@pytest.mark.row(222)
@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_a_replica_is_described_with_its_size(
    wire: WireClient, three_batches: str, version: int
) -> None:
    (directory,) = log_dirs(wire, three_batches, version)
    (described,) = directory.topics
    (partition,) = described.partitions

    assert described.name == three_batches
    assert (partition.partition_index, partition.partition_size) == (0, 3 * len(BATCH))
    assert (partition.offset_lag, partition.is_future_key) == (0, False)
    assert directory.log_dir.startswith("/")
    assert version < 4 or directory.total_bytes > directory.usable_bytes > 0


@pytest.mark.parametrize("offset", [1, 2, 4])
def test_the_newest_record_is_told_though_it_is_deleted(wire: WireClient, offset: int) -> None:
    topic = wire.create_topic(configs={"retention.ms": "-1"})
    for timestamp_ms in (3_000, 2_000):
        wire.produce(topic, batch(2, timestamp_ms=timestamp_ms))
    delete(wire, topic, offset)

    assert wire.list_offsets(topic, -3) == "0 offset=0 ts=3000 epoch=0"
    assert wire.list_offsets(topic, 2_500).split()[1] == (
        "offset=1" if offset == 1 else "offset=-1"
    )


def test_a_record_is_found_by_time_behind_deleted_ones_of_that_time(
    wire: WireClient, either: Callable[[str, str], str]
) -> None:
    topic = wire.create_topic(configs={"segment.ms": "1000", "retention.ms": "-1"})
    at_ms = int(time.time() * 1000) - 120_000
    wire.produce(topic, batch(timestamp_ms=at_ms))
    wire.produce(topic, batch(timestamp_ms=at_ms + 60_000))  # in a segment of its own
    delete(wire, topic, 1)

    # Kafka looks into the first segment that may have one alone, be all of it deleted.
    assert wire.list_offsets(topic, at_ms) == either(
        f"0 offset=1 ts={at_ms + 60_000} epoch=0", "0 offset=-1 ts=-1 epoch=-1"
    )
