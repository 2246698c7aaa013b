"""Consumer groups across clients: every record is seen, members come and go, offsets are resumed."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from kafka import KafkaConsumer, TopicPartition

from compat_tests.clients.every_client import create_topic
from compat_tests.conftest import BrokerProcess
from compat_tests.running.waiting import until

DEADLINE_S = 60
REBALANCED = (
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError._NO_OFFSET,
    KafkaError._ASSIGNMENT_LOST,
)


def write(bootstrap: str, topic: str, first: int, count: int, partitions: int = 8) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for number in range(first, first + count):
        producer.produce(topic, value=str(number).encode(), partition=number % partitions)
    assert producer.flush(30) == 0


class Member:
    """A confluent-kafka consumer on a thread; remembers what it saw and what it owns."""

    def __init__(
        self, bootstrap: str, topic: str, group: str, strategy: str = "range,roundrobin"
    ) -> None:
        self.seen: list[int] = []
        self.owned: set[int] = set()
        self.errors: list[KafkaException] = []
        self._stop = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": 6000,
                "heartbeat.interval.ms": 300,
                "partition.assignment.strategy": strategy,
            }
        )
        self._topic = topic
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self._consumer.subscribe([self._topic])
        while not self._stop.is_set():
            for message in self._consumer.consume(100, timeout=0.1):
                if message.error() is None:
                    self.seen.append(int(message.value()))
                    self._commit(message)
            self.owned = {p.partition for p in self._consumer.assignment()}
        self._consumer.unsubscribe()  # librdkafka may wait for ever where it is closed amid a join
        while self._consumer.assignment():
            self._consumer.poll(0.1)
        self._consumer.close()

    def _commit(self, message: Message) -> None:
        try:
            self._consumer.commit(message, asynchronous=False)
        except (
            KafkaException
        ) as error:  # a rebalance came first: the next owner reads the record again
            if error.args[0].code() not in REBALANCED:
                self.errors.append(error)

    def close(self) -> None:
        self._stop.set()
        self._thread.join(20)
        assert not self._thread.is_alive()
        assert not self.errors


CHILD = """
import sys
from confluent_kafka import Consumer
consumer = Consumer({"bootstrap.servers": sys.argv[1], "group.id": sys.argv[3], "auto.offset.reset": "earliest",
    "session.timeout.ms": 6000, "heartbeat.interval.ms": 300, "enable.auto.commit": False,
    "partition.assignment.strategy": sys.argv[4]})
consumer.subscribe([sys.argv[2]])
while True:
    consumer.poll(0.1)
    print(len(consumer.assignment()), flush=True)
"""


@pytest.mark.parametrize("strategy", ["range,roundrobin", "cooperative-sticky"])
def test_three_members_share_eight_partitions_and_one_is_killed(
    bootstrap: str, topic: str, group: str, strategy: str
) -> None:
    create_topic(bootstrap, topic, 8)
    write(bootstrap, topic, 0, 400)
    members = [Member(bootstrap, topic, group, strategy) for _ in range(2)]
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, bootstrap, topic, group, strategy],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    for line in child.stdout:
        if line.strip() in ("2", "3"):
            break
    until(lambda: all(m.owned for m in members), "every member owns something")

    child.kill()
    child.wait()
    child.stdout.close()
    write(bootstrap, topic, 400, 400)

    until(
        lambda: {n for m in members for n in m.seen} == set(range(800)), "all 800 records are seen"
    )
    until(lambda: sum(len(m.owned) for m in members) == 8, "the living own all partitions")
    for member in members:
        member.close()


def test_different_clients_share_one_group(bootstrap: str, topic: str, group: str) -> None:
    create_topic(bootstrap, topic, 8)
    member = Member(bootstrap, topic, group, "range")
    until(lambda: len(member.owned) == 8, "the first member owns all")
    write(bootstrap, topic, 0, 200)
    others: list[int] = []

    async def aiokafka_member() -> None:
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            partition_assignment_strategy=(RangePartitionAssignor,),
        )
        async with consumer:
            deadline = asyncio.get_running_loop().time() + DEADLINE_S
            write(bootstrap, topic, 200, 200)
            while len(set(member.seen) | set(others)) < 400:
                assert asyncio.get_running_loop().time() < deadline
                polled = await consumer.getmany(timeout_ms=100)
                for batch in polled.values():
                    others.extend(int(record.value or b"") for record in batch)
                if polled:
                    await consumer.commit()

    asyncio.run(aiokafka_member())

    assert set(member.seen) | set(others) == set(range(400))
    assert others
    member.close()


def test_committed_offsets_are_where_the_next_member_begins(
    bootstrap: str, topic: str, group: str
) -> None:
    create_topic(bootstrap, topic, 1)
    write(bootstrap, topic, 0, 20, partitions=1)
    first = KafkaConsumer(
        topic, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest",
        enable_auto_commit=False, max_poll_records=10, consumer_timeout_ms=20_000,
    )  # fmt: skip
    read = [int(next(first).value) for _ in range(10)]
    first.commit()
    first.close()

    second = KafkaConsumer(
        topic, bootstrap_servers=bootstrap, group_id=group, consumer_timeout_ms=20_000
    )
    rest = [int(next(second).value) for _ in range(10)]
    second.close()

    assert read + rest == list(range(20))


@pytest.mark.parametrize("how", ["SIGTERM", "SIGKILL"])
def test_records_and_offsets_survive_a_restart(
    own_broker: Callable[..., BrokerProcess], topic: str, group: str, how: str
) -> None:
    import signal

    broker = own_broker()
    create_topic(broker.bootstrap, topic, 2)
    write(broker.bootstrap, topic, 0, 100, partitions=2)
    consumer = KafkaConsumer(
        topic, bootstrap_servers=broker.bootstrap, group_id=group, auto_offset_reset="earliest",
        enable_auto_commit=False, consumer_timeout_ms=20_000,
    )  # fmt: skip
    before = [int(next(consumer).value) for _ in range(60)]
    consumer.commit()
    consumer.close()

    broker.stop(signal.Signals[how])
    broker.start()
    write(broker.bootstrap, topic, 100, 40, partitions=2)
    consumer = KafkaConsumer(
        topic, bootstrap_servers=broker.bootstrap, group_id=group, consumer_timeout_ms=20_000
    )
    after = [int(next(consumer).value) for _ in range(80)]
    consumer.close()

    assert sorted(before + after) == list(range(140))


def test_a_running_group_goes_on_after_the_broker_was_killed(
    own_broker: Callable[..., BrokerProcess], topic: str, group: str
) -> None:
    import signal

    broker = own_broker()
    create_topic(broker.bootstrap, topic, 8)
    members = [Member(broker.bootstrap, topic, group) for _ in range(2)]
    write(broker.bootstrap, topic, 0, 200)
    until(
        lambda: {n for m in members for n in m.seen} == set(range(200)),
        "the first 200 records are seen",
    )

    broker.stop(signal.SIGKILL)
    broker.start()
    write(broker.bootstrap, topic, 200, 200)

    until(
        lambda: {n for m in members for n in m.seen} == set(range(400)), "all 400 records are seen"
    )
    for member in members:
        member.close()


def test_a_consumer_sees_the_end_offsets(bootstrap: str, topic: str) -> None:
    create_topic(bootstrap, topic, 2)
    write(bootstrap, topic, 0, 10, partitions=2)
    consumer = KafkaConsumer(bootstrap_servers=bootstrap)

    ends = consumer.end_offsets([TopicPartition(topic, 0), TopicPartition(topic, 1)])
    consumer.close()

    assert sorted(ends.values()) == [5, 5]
