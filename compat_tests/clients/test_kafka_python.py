"""kafka-python as it acts for old brokers; the rest of it is in matrix/."""

from __future__ import annotations

from contextlib import suppress

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import InvalidReplicationFactorError

from compat_tests.clients.every_client import Sample, samples
from compat_tests.running.waiting import until


def write(
    bootstrap: str, topic: str, wanted: list[Sample], codec: str = "none", **settings: object
) -> None:
    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        compression_type=None if codec == "none" else codec,
        linger_ms=5,
        **settings,
    )
    until(lambda: is_there(producer, topic), "the topic is made by the way")
    futures = [
        producer.send(
            topic,
            value=s.value,
            key=s.key,
            headers=list(s.headers),
            timestamp_ms=s.timestamp_ms,
            partition=0,
        )
        for s in wanted
    ]
    producer.flush()
    for future in futures:
        future.get(timeout=30)
    producer.close()


def is_there(producer: KafkaProducer, topic: str) -> bool:
    """Whether a topic is there; while a broker of a cluster restarts none can be made."""
    with suppress(InvalidReplicationFactorError):
        return bool(producer.partitions_for(topic))
    return False


def read(bootstrap: str, topic: str, count: int, **settings: object) -> list[Sample]:
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        consumer_timeout_ms=20_000,
        **settings,
    )
    consumer.assign([TopicPartition(topic, 0)])
    found = []
    for record in consumer:
        assert record.offset == len(found)
        found.append(Sample(record.key, record.value, tuple(record.headers), record.timestamp))
        if len(found) == count:
            break
    consumer.close()
    return found


@pytest.mark.parametrize("version", [(0, 11), (1, 0), (2, 0), (2, 5), (3, 0)])
def test_a_client_that_acts_for_an_old_broker_works(
    bootstrap: str, topic: str, version: tuple[int, int]
) -> None:
    wanted = samples(40, null_headers=False)

    write(bootstrap, topic, wanted, api_version=version, enable_idempotence=False)

    assert read(bootstrap, topic, 40) == wanted


OLD = [
    (version, codec)
    for version in ((0, 8, 2), (0, 9), (0, 10))
    for codec in ("none", "gzip", "snappy", "lz4")
    # The lz4 of format 0 needs xxhash, which the client does not bring.
    if codec != "lz4" or version == (0, 10)
]


@pytest.mark.parametrize(("version", "codec"), OLD)
def test_a_client_that_acts_for_a_broker_of_old_formats_works(
    target: str, bootstrap: str, topic: str, version: tuple[int, ...], codec: str
) -> None:
    if target == "kafka":
        pytest.skip("Apache Kafka 4 does not serve clients from before 2.1")
    wanted = [Sample(s.key, s.value, (), s.timestamp_ms) for s in samples(40)]
    old = {"api_version": version, "enable_idempotence": False}

    write(bootstrap, topic, wanted, codec, **old)

    timed = version == (0, 10)
    stored = [Sample(s.key, s.value, (), s.timestamp_ms if timed else -1) for s in wanted]
    assert read(bootstrap, topic, 40) == stored
    assert read(bootstrap, topic, 40, api_version=version) == [
        Sample(s.key, s.value, (), s.timestamp_ms if timed else None) for s in stored
    ]


def test_a_new_topic_is_usable_at_once(bootstrap: str, topic: str, target: str) -> None:
    if target == "kafka":
        pytest.skip("Apache Kafka lets the client try again")
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)

    described = admin.describe_topics([topic])[0]

    assert described["error_code"] in (0, 3)
    admin.close()
