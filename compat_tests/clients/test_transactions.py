"""Transactional producers of real clients: what is committed is read once and whole, what is aborted
is not, and a broker that is killed between the two changes nothing of it.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PlainTopicPartition
from kafka.structs import OffsetAndMetadata

from compat_tests.clients.every_client import (
    begin_transaction,
    create_topic,
    transactional_producer,
)
from compat_tests.clients.java_clients import kept_classes, run_java
from compat_tests.conftest import BrokerProcess
from compat_tests.running import apache_kafka
from compat_tests.running.waiting import PATIENCE_S, until

BOTH = ("read_committed", "read_uncommitted")


@pytest.fixture
def name(topic: str) -> str:
    """A transactional id that nobody else uses."""
    return f"x-{topic}"


def values_of(
    bootstrap: str, topic: str, isolation: str = "read_committed", partition: int = 0
) -> list[int]:
    """All that a reader sees of a partition, up to where it can read now."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0)])
    try:
        return [int(value) for value in _until_end(consumer)]
    finally:
        consumer.close()


def _until_end(consumer: Consumer) -> Iterator[bytes]:
    while True:
        message = consumer.poll(PATIENCE_S)
        assert message is not None, "no record, and not the end either"
        if message.error() is not None:
            assert message.error().name() == "_PARTITION_EOF"
            return
        value = message.value()
        assert value is not None
        yield value


def until_read(bootstrap: str, topic: str, values: list[int]) -> None:
    until(lambda: values_of(bootstrap, topic) == values, f"{values} can be read")


def test_what_is_committed_is_read_and_what_is_aborted_is_not(
    bootstrap: str, topic: str, name: str
) -> None:
    create_topic(bootstrap, topic, 2)
    producer = transactional_producer(bootstrap, name)
    for first, end in ((0, producer.commit_transaction), (3, producer.abort_transaction)):
        begin_transaction(producer, topic, ())
        for partition in (0, 1):
            for value in range(first, first + 3):
                producer.produce(topic, str(value), partition=partition)
        producer.flush(PATIENCE_S)
        end(PATIENCE_S)
    begin_transaction(producer, topic, ())
    producer.produce(topic, "6", partition=0)
    producer.flush(PATIENCE_S)

    for partition, open_ones in ((0, [6]), (1, [])):
        until(
            lambda partition=partition: (
                values_of(bootstrap, topic, partition=partition) == [0, 1, 2]
            ),
            "the abort is stored",
        )
        everything = values_of(bootstrap, topic, "read_uncommitted", partition)
        assert everything == [0, 1, 2, 3, 4, 5, *open_ones]
    producer.commit_transaction(PATIENCE_S)
    until_read(bootstrap, topic, [0, 1, 2, 6])


def test_offsets_of_a_group_are_committed_with_what_was_made_of_them(
    bootstrap: str, topic: str, name: str, group: str
) -> None:
    source = f"{topic}-source"
    for each in (source, topic):
        create_topic(bootstrap, each, 1)
    plain = Producer({"bootstrap.servers": bootstrap})
    for value in range(4):
        plain.produce(source, str(value))
    plain.flush(PATIENCE_S)
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
    }
    consumer = Consumer(settings)
    consumer.subscribe([source])
    producer = transactional_producer(bootstrap, name)
    for end in (producer.abort_transaction, producer.commit_transaction):
        read = consumer.consume(2, PATIENCE_S)
        assert len(read) == 2
        begin_transaction(producer, topic, [int(message.value() or b"") for message in read])
        producer.send_offsets_to_transaction(
            consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), PATIENCE_S
        )
        end(PATIENCE_S)
        if end == producer.abort_transaction:
            consumer.seek(TopicPartition(source, 0, 0))

    committed = consumer.committed([TopicPartition(source, 0)], PATIENCE_S)

    assert committed[0].offset == 2
    consumer.close()
    until_read(bootstrap, topic, [0, 1])


def test_a_second_producer_of_an_id_fences_the_first(bootstrap: str, topic: str, name: str) -> None:
    create_topic(bootstrap, topic, 1)
    first = transactional_producer(bootstrap, name)
    begin_transaction(first, topic, [1])

    second = transactional_producer(bootstrap, name)

    with pytest.raises(KafkaException) as fenced:
        first.commit_transaction(PATIENCE_S)
    assert fenced.value.args[0].fatal()
    begin_transaction(second, topic, [2])
    second.commit_transaction(PATIENCE_S)
    until_read(bootstrap, topic, [2])


def test_aiokafka_writes_and_commits_in_transactions(
    bootstrap: str, topic: str, name: str, group: str
) -> None:
    create_topic(bootstrap, topic, 1)
    partition = AioTopicPartition(topic, 0)

    async def write() -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=name) as producer:
            async with producer.transaction():
                await producer.send_and_wait(topic, b"1")
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"2")
            await producer.abort_transaction()
            async with producer.transaction():
                await producer.send_and_wait(topic, b"3")
                await producer.send_offsets_to_transaction({partition: 1}, group)

    async def read(isolation: str) -> list[int]:
        """Read from where the group begins up to the last record."""
        async with AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=group,
            isolation_level=isolation,
            enable_auto_commit=False,
        ) as consumer:
            consumer.assign([partition])
            values: list[int] = []
            while values[-1:] != [3]:
                values.append(int((await consumer.getone()).value))
            return values

    asyncio.run(asyncio.wait_for(write(), PATIENCE_S))

    found = [asyncio.run(asyncio.wait_for(read(isolation), PATIENCE_S)) for isolation in BOTH]
    assert found == [[3], [2, 3]]  # the group has committed offset 1, where the marker of 1 is


def test_aiokafka_is_told_that_it_is_fenced(bootstrap: str, topic: str, name: str) -> None:
    create_topic(bootstrap, topic, 1)

    async def story() -> None:
        settings = {"bootstrap_servers": bootstrap, "transactional_id": name}
        async with AIOKafkaProducer(**settings) as first, AIOKafkaProducer(**settings):
            with pytest.raises(AioKafkaError):
                async with first.transaction():
                    await first.send_and_wait(topic, b"1")

    asyncio.run(asyncio.wait_for(story(), PATIENCE_S))
    assert values_of(bootstrap, topic) == []


def test_kafka_python_writes_and_commits_in_transactions(
    bootstrap: str, topic: str, name: str, group: str
) -> None:
    create_topic(bootstrap, topic, 1)
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=name)
    producer.init_transactions()
    partition = PlainTopicPartition(topic, 0)
    for value, end in ((1, producer.commit_transaction), (2, producer.abort_transaction)):
        producer.begin_transaction()
        producer.send(topic, b"%d" % value).get(PATIENCE_S)
        offsets = {partition: OffsetAndMetadata(value, "", -1)}
        producer.send_offsets_to_transaction(offsets, group)
        end()
    producer.close()

    until_read(bootstrap, topic, [1])
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, group_id=group, isolation_level="read_committed"
    )
    assert consumer.committed(partition) == 1
    consumer.close()


@pytest.mark.java
@pytest.mark.parametrize("version", ["2.8.2", apache_kafka.NEWEST])
def test_java_programs_read_and_write_in_transactions(
    bootstrap: str, topic: str, version: str
) -> None:
    for each in (topic, f"{topic}-out"):
        create_topic(bootstrap, each, 1)
    classes = kept_classes("Transactions", "2.8.2")

    told = run_java(classes, version, "Transactions", bootstrap, topic)

    assert f"{version} is done" in told.decode()


# ---- brokers that end


def test_a_transaction_goes_on_after_the_broker_was_killed(
    own_broker: Callable[..., BrokerProcess], topic: str, name: str
) -> None:
    broker = own_broker()
    create_topic(broker.bootstrap, topic, 1)
    producer = transactional_producer(broker.bootstrap, name)
    begin_transaction(producer, topic, [1])
    broker.stop(signal.SIGKILL)
    broker.start()

    producer.produce(topic, "2")
    producer.flush(PATIENCE_S)
    assert values_of(broker.bootstrap, topic) == []
    producer.commit_transaction(PATIENCE_S)

    until_read(broker.bootstrap, topic, [1, 2])
    assert "Traceback" not in broker.log_text()


def test_a_producer_that_comes_after_a_kill_aborts_what_was_open(
    own_broker: Callable[..., BrokerProcess], topic: str, name: str
) -> None:
    broker = own_broker()
    create_topic(broker.bootstrap, topic, 1)
    begin_transaction(transactional_producer(broker.bootstrap, name), topic, [1])
    broker.stop(signal.SIGKILL)
    broker.start()

    second = transactional_producer(broker.bootstrap, name)
    begin_transaction(second, topic, [2])
    second.commit_transaction(PATIENCE_S)

    until_read(broker.bootstrap, topic, [2])
    assert values_of(broker.bootstrap, topic, "read_uncommitted") == [1, 2]


def test_each_commit_that_was_told_is_there_after_kills(
    own_broker: Callable[..., BrokerProcess], topic: str, name: str
) -> None:
    broker = own_broker()
    create_topic(broker.bootstrap, topic, 1)
    told: list[int] = []
    for kill in range(3):
        producer = transactional_producer(broker.bootstrap, f"{name}-{kill % 2}")
        for value in range(10 * kill, 10 * kill + 10):
            begin_transaction(producer, topic, [value])
            producer.commit_transaction(PATIENCE_S)
            told.append(value)
        broker.stop(signal.SIGKILL)  # markers of the last one may be on their way
        broker.start()

    until_read(broker.bootstrap, topic, told)
    assert "Traceback" not in broker.log_text()


def test_a_transaction_that_takes_too_long_is_aborted(
    own_broker: Callable[..., BrokerProcess], topic: str, name: str
) -> None:
    interval = "transaction.abort.timed.out.transaction.cleanup.interval.ms=100"
    broker = own_broker("--override", interval)
    create_topic(broker.bootstrap, topic, 1)
    producer = transactional_producer(
        broker.bootstrap, name, transaction_timeout_ms=1000, message_timeout_ms=900
    )
    begin_transaction(producer, topic, [1])
    plain = Producer({"bootstrap.servers": broker.bootstrap})
    plain.produce(topic, "2")
    plain.flush(PATIENCE_S)
    assert values_of(broker.bootstrap, topic) == []

    until_read(broker.bootstrap, topic, [2])  # and the reader goes on behind it

    with pytest.raises(KafkaException):
        producer.commit_transaction(PATIENCE_S)


def test_transactions_go_on_at_a_broker_whose_log_of_them_is_damaged(
    own_broker: Callable[..., BrokerProcess], topic: str
) -> None:
    broker = own_broker("--override", "transaction.state.log.num.partitions=1")
    create_topic(broker.bootstrap, topic, 1)
    names = [f"id-{number}" for number in range(4)]
    for value, name in enumerate(names):
        producer = transactional_producer(broker.bootstrap, name)
        begin_transaction(producer, topic, [value])
        producer.commit_transaction(PATIENCE_S)
    until_read(broker.bootstrap, topic, [0, 1, 2, 3])
    assert broker.stop() == 0
    path = broker.data / "__transaction_state-0" / f"{0:020}.log"
    content = bytearray(path.read_bytes())
    content[content.rindex(names[1].encode())] ^= 0x40  # in the end of a transaction
    path.write_bytes(content)

    broker.start()

    for value, name in enumerate(names, start=4):
        producer = transactional_producer(broker.bootstrap, name)
        begin_transaction(producer, topic, [value])
        producer.commit_transaction(PATIENCE_S)
    until_read(broker.bootstrap, topic, list(range(8)))
    assert broker.log_text().count("__transaction_state-0 was loaded without offsets") == 1
    assert "Traceback" not in broker.log_text()
