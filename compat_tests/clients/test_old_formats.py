"""Clients from before Kafka 0.11, with the message formats of their time: Java ones themselves,
librdkafka acting as if the broker were old. What they write everyone reads, and the reverse, in
topics of the newest format and of old ones.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from compat_tests.clients.every_client import FIRST_TIMESTAMP_MS
from compat_tests.clients.java_clients import kept_classes, run_java
from compat_tests.conftest import BrokerProcess
from compat_tests.wire.old_versions import formats
from compat_tests.wire.wire_client import WireClient

PRODUCERS = ("0.8.2.2", "0.9.0.1", "0.10.2.2")
CONSUMERS = ("0.9.0.1", "0.10.2.2")
OLD_CODECS = ("none", "gzip", "snappy", "lz4")
CODEC_BITS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3}
FORMAT_OF = {"0.9.0": 0, "0.10.0": 1, "2.8": 2}
COUNT = 60
FIRST_WITH_TIME = "0.10.2.2"

java = pytest.mark.java


class Found(NamedTuple):
    """A record as a test compares it; times that a format has not are -1."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


def java_writes(
    version: str, bootstrap: str, topic: str, acks: str = "all", count: int = COUNT
) -> None:
    """OldProducer writes to the topics `topic-CODEC` of all old codecs."""
    args = (bootstrap, topic, str(count), acks, *OLD_CODECS)
    run_java(kept_classes("OldProducer", version), version, "OldProducer", *args)


def java_reads(
    version: str, bootstrap: str, *topics: str, count: int, group: str = "g", at: int = 0
) -> dict[str, list[Found]]:
    """`count` records of the topics together, by topic, as OldConsumer reads them."""
    args = (bootstrap, group, str(count), str(at), *topics)
    said = run_java(kept_classes("OldConsumer", version), version, "OldConsumer", *args)
    found: dict[str, list[Found]] = {topic: [] for topic in topics}
    for line in said.decode().splitlines():
        name, offset, time_ms, key, value = line.split("\t")
        found[name].append(Found(int(offset), int(time_ms), _bytes(key), _bytes(value)))
    return found


def _bytes(text: str) -> bytes | None:
    return None if text == "null" else b64decode(text)


@pytest.fixture(autouse=True)
def served(target: str) -> None:
    if target == "kafka":
        pytest.skip("Apache Kafka 4 does not serve clients from before 2.1")


@pytest.fixture(scope="module")
def of_old_protocol(
    target: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str]]:
    """Address of a broker whose topics may have old formats, which inter.broker.protocol.version
    2.8 allows; and that version.
    """
    if target == "cluster":
        pytest.skip("is about a broker with settings of its own")
    if target != "kbroker":
        yield target, "2.8"
        return
    options = ("--override", "inter.broker.protocol.version=2.8")
    broker = BrokerProcess(tmp_path_factory.mktemp("old-protocol") / "data", options)
    broker.start()
    yield broker.bootstrap, "2.8"
    assert broker.stop() == 0, broker.log_text()[-3000:]
    assert "Traceback" not in broker.log_text()


def create(bootstrap: str, *topics: str, **configs: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    settings = {name.replace("_", "."): value for name, value in configs.items()}
    made = admin.create_topics([NewTopic(name, 1, 1, config=settings) for name in topics])
    for future in made.values():
        future.result(20)


def written_by_java(count: int = COUNT) -> list[tuple[bytes | None, bytes | None]]:
    """Keys and values that OldProducer writes."""
    return [
        (
            None if i % 5 == 1 else b"key%d" % i,
            None if i % 5 == 2 else b"value%d" % i * (1 + i % 7 * 9),
        )
        for i in range(count)
    ]


def pairs(found: list[Found]) -> list[tuple[bytes | None, bytes | None]]:
    assert [record.offset for record in found] == list(range(len(found)))
    return [(record.key, record.value) for record in found]


def sample(count: int = COUNT, first: int = 0) -> list[Found]:
    return [
        Found(i, FIRST_TIMESTAMP_MS + i, key, value)
        for i, (key, value) in enumerate(written_by_java(first + count))
    ][first:]


def write(bootstrap: str, topic: str, wanted: list[Found], **settings: object) -> None:
    """With librdkafka."""
    headers = settings.pop("headers", None)
    values = {name.replace("_", "."): value for name, value in settings.items()}
    # All in one batch: a small one that compression makes no smaller is sent as it is.
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 60_000, **values})
    # A topic that is not known yet when flush() begins is sent as its records are sorted in.
    producer.list_topics(topic, timeout=60)
    failed: list[object] = []
    for record in wanted:
        producer.produce(
            topic,
            key=record.key,
            value=record.value,
            timestamp=record.timestamp_ms,
            partition=0,
            headers=headers,
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
        producer.poll(0)
    assert producer.flush(60) == 0
    assert not failed


def read(bootstrap: str, topic: str, count: int, **settings: object) -> list[Found]:
    """With librdkafka."""
    values = {name.replace("_", "."): value for name, value in settings.items()}
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", **values})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[Found] = []
    while len(found) < count:
        polled = consumer.consume(count - len(found), timeout=20)
        assert polled, f"nothing more after {len(found)} of {count} records"
        for message in polled:
            assert message.error() is None
            has_time, time_ms = message.timestamp()
            shown_ms = time_ms if has_time else -1
            found.append(Found(message.offset(), shown_ms, message.key(), message.value()))
    consumer.close()
    return found


def stored_formats(bootstrap: str, topic: str) -> set[tuple[int, int]]:
    """(format, codec) of all that is stored."""
    wire = WireClient(bootstrap)
    data = wire.fetch(topic, 0).records
    wire.close()
    return {(magic, attributes & 7) for magic, _, attributes in formats(data)}


@java
@pytest.mark.parametrize("version", PRODUCERS)
def test_what_old_java_clients_write_everyone_reads(
    bootstrap: str, topic: str, version: str
) -> None:
    topics = [f"{topic}-{codec}" for codec in OLD_CODECS]
    create(bootstrap, *topics)

    java_writes(version, bootstrap, topic)

    for codec in OLD_CODECS:
        name = f"{topic}-{codec}"
        assert pairs(read(bootstrap, name, COUNT)) == written_by_java()
        assert stored_formats(bootstrap, name) == {(2, CODEC_BITS[codec])}
    for consumer in CONSUMERS:
        found = java_reads(consumer, bootstrap, *topics, count=COUNT * len(topics))
        assert all(pairs(found[name]) == written_by_java() for name in topics)


@java
@pytest.mark.parametrize("acks", ["0", "1"])
def test_old_java_clients_write_with_any_acks(bootstrap: str, topic: str, acks: str) -> None:
    create(bootstrap, *(f"{topic}-{codec}" for codec in OLD_CODECS))

    java_writes("0.9.0.1", bootstrap, topic, acks)

    assert pairs(read(bootstrap, f"{topic}-gzip", COUNT)) == written_by_java()


@java
@pytest.mark.parametrize("version", CONSUMERS)
def test_old_java_clients_read_what_new_ones_write(
    bootstrap: str, topic: str, version: str
) -> None:
    topics = [f"{topic}-{codec}" for codec in OLD_CODECS]
    create(bootstrap, *topics)
    for codec, name in zip(OLD_CODECS, topics, strict=True):
        write(bootstrap, name, sample(), compression_type=codec, headers=[("h", b"1"), ("n", None)])

    whole = java_reads(version, bootstrap, *topics, count=COUNT * 4)
    rest = java_reads(version, bootstrap, *topics, count=(COUNT - 37) * 4, at=37)

    timed = version == FIRST_WITH_TIME
    wanted = [one if timed else one._replace(timestamp_ms=-1) for one in sample()]
    assert whole == dict.fromkeys(topics, wanted)
    assert rest == dict.fromkeys(topics, wanted[37:])


@java
@pytest.mark.parametrize("version", CONSUMERS)
def test_what_the_broker_compressed_at_a_level_is_read(
    bootstrap: str, topic: str, version: str
) -> None:
    levels = {"gzip": ("1", "9"), "lz4": ("1", "17")}
    topics = []
    for codec, both in levels.items():
        for level in both:
            topics.append(f"{topic}-{codec}-{level}")
            settings = {"compression_type": codec, f"compression_{codec}_level": level}
            create(bootstrap, topics[-1], **settings)
            write(bootstrap, topics[-1], sample())
            assert stored_formats(bootstrap, topics[-1]) == {(2, CODEC_BITS[codec])}

    found = java_reads(version, bootstrap, *topics, count=COUNT * len(topics))

    assert all(read(bootstrap, name, COUNT) == sample() for name in topics)
    assert all(pairs(found[name]) == written_by_java() for name in topics)


@java
@pytest.mark.parametrize("version", CONSUMERS)
def test_groups_of_old_java_clients_go_on_where_they_stopped(
    bootstrap: str, topic: str, group: str, version: str
) -> None:
    create(bootstrap, topic)
    write(bootstrap, topic, sample())
    first = java_reads(version, bootstrap, topic, count=COUNT, group=group, at=-1)
    write(bootstrap, topic, sample(5))

    second = java_reads(version, bootstrap, topic, count=5, group=group, at=-1)

    assert pairs(first[topic]) == written_by_java()
    assert [one.offset for one in second[topic]] == list(range(COUNT, COUNT + 5))


@java
@pytest.mark.parametrize("version", CONSUMERS)
def test_big_batches_come_to_old_java_clients(bootstrap: str, topic: str, version: str) -> None:
    create(bootstrap, topic)
    big = [Found(i, FIRST_TIMESTAMP_MS + i, None, b"%d" % i * 300) for i in range(4_000)]
    write(bootstrap, topic, big, compression_type="gzip", linger_ms=200, batch_size=900_000)

    found = java_reads(version, bootstrap, topic, count=len(big))[topic]

    assert [(one.offset, one.value) for one in found] == [(one.offset, one.value) for one in big]


ACTED = ["0.8.2", "0.9.0", "0.10.0"]


@pytest.mark.parametrize("acted", ACTED)
@pytest.mark.parametrize("codec", OLD_CODECS)
def test_librdkafka_that_takes_the_broker_for_an_old_one(
    bootstrap: str, topic: str, acted: str, codec: str
) -> None:
    old = {"api_version_request": False, "broker_version_fallback": acted}
    create(bootstrap, topic)

    write(bootstrap, topic, sample(), compression_type=codec, **old)

    timed = acted == "0.10.0"
    wanted = [one if timed else one._replace(timestamp_ms=-1) for one in sample()]
    assert read(bootstrap, topic, COUNT) == wanted
    assert read(bootstrap, topic, COUNT, **old) == wanted


@pytest.mark.parametrize("version", ["0.9.0", "0.10.0"])
@pytest.mark.parametrize("codec", OLD_CODECS)
def test_topics_of_old_formats_take_and_give_everything(
    of_old_protocol: tuple[str, str], topic: str, version: str, codec: str
) -> None:
    bootstrap, _ = of_old_protocol
    create(bootstrap, topic, message_format_version=version)

    write(bootstrap, topic, sample(), compression_type=codec)
    write(
        bootstrap, topic, sample(), compression_type=codec, api_version_request=False,
        broker_version_fallback="0.10.0",
    )  # fmt: skip

    twice = [*sample(), *(one._replace(offset=COUNT + one.offset) for one in sample())]
    timed = FORMAT_OF[version] == 1
    wanted = [one if timed else one._replace(timestamp_ms=-1) for one in twice]
    assert read(bootstrap, topic, 2 * COUNT) == wanted
    assert stored_formats(bootstrap, topic) == {(FORMAT_OF[version], CODEC_BITS[codec])}
    for acted in ACTED:
        old = {"api_version_request": False, "broker_version_fallback": acted}
        read_timed = timed and acted == "0.10.0"
        assert read(bootstrap, topic, 2 * COUNT, **old) == [
            one if read_timed else one._replace(timestamp_ms=-1) for one in twice
        ]


def raise_format(bootstrap: str, topic: str, version: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    entry = ConfigEntry(
        "message.format.version", version, incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(20)


@java
def test_a_topic_whose_format_was_raised_twice_is_read_by_everyone(
    of_old_protocol: tuple[str, str], topic: str
) -> None:
    bootstrap, _ = of_old_protocol
    name = f"{topic}-none"
    topics = [f"{topic}-{codec}" for codec in OLD_CODECS]
    create(bootstrap, *topics, message_format_version="0.9.0")
    java_writes("0.8.2.2", bootstrap, topic)
    for each in topics:
        raise_format(bootstrap, each, "0.10.0")
    java_writes("0.10.2.2", bootstrap, topic)
    for each in topics:
        raise_format(bootstrap, each, "2.8")
    java_writes("0.9.0.1", bootstrap, topic)

    assert stored_formats(bootstrap, name) == {(0, 0), (1, 0), (2, 0)}
    for each in topics:
        assert pairs(read(bootstrap, each, 3 * COUNT)) == written_by_java() * 3
    for consumer in CONSUMERS:
        found = java_reads(consumer, bootstrap, *topics, count=3 * COUNT * len(topics))
        assert all(pairs(found[each]) == written_by_java() * 3 for each in topics)
