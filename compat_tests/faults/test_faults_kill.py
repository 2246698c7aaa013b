"""A broker that is killed or stopped under load: nothing acknowledged is lost, and clients go on by
themselves.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka import KafkaError as ClientError
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaProducer

from compat_tests.clients.every_client import create_topic
from compat_tests.clients.writers import PARTITIONS, Acknowledged, LibrdkafkaWriter
from compat_tests.conftest import BrokerProcess
from compat_tests.faults.kill_rounds import check, kill, kill_and_start, make_writers, read_all

ROUNDS = 2


def test_places_that_cannot_be_true_are_errors_of_the_writer() -> None:
    errors: list[str] = []
    acknowledged = Acknowledged(errors)
    for offset, value in ((7, 70), (7, 70), (7, 71), (-1, 72)):
        acknowledged.take(0, offset, value)

    assert errors == ["records 70 and 71 have the offset 7",
                      "record 72 has the offset -1 in partition 0"]  # fmt: skip


def test_no_acknowledged_record_is_lost_doubled_or_moved_by_kills(
    own_broker: Callable[..., BrokerProcess],
) -> None:
    broker = own_broker()
    writers = make_writers(broker.bootstrap, 2_000, ["librdkafka", "kafka-python"])

    draw = random.Random(1)
    for number in range(ROUNDS):
        time.sleep(1.0)
        kill_and_start(broker, draw, while_starting=number % 2 == 1)
    time.sleep(0.5)
    for writer in writers:
        writer.finish()

    for writer in writers:
        assert writer.acknowledged.count > 100
        check(writer, read_all(broker.bootstrap, writer.topic))
    assert "Traceback" not in broker.log_text()


def test_kafka_python_goes_on_after_a_kill_and_committed_offsets_stay(
    own_broker: Callable[..., BrokerProcess], topic: str, group: str
) -> None:
    broker = own_broker()
    create_topic(broker.bootstrap, topic, PARTITIONS)
    producer = KafkaProducer(
        bootstrap_servers=broker.bootstrap, acks="all", delivery_timeout_ms=60_000
    )
    futures = [producer.send(topic, str(n).encode(), partition=0) for n in range(50)]
    assert [future.get(30).offset for future in futures] == list(range(50))
    committer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group, "log_level": 0})
    committer.commit(offsets=[TopicPartition(topic, 0, 42)], asynchronous=False)

    kill(broker)
    broker.start()

    assert committer.committed([TopicPartition(topic, 0)], timeout=30)[0].offset == 42
    assert producer.send(topic, b"50", partition=0).get(30).offset >= 50
    assert list(read_all(broker.bootstrap, topic).values[0])[:50] == list(range(50))
    committer.close()
    producer.close()


def test_a_clean_stop_under_load_shows_clients_no_error(
    own_broker: Callable[..., BrokerProcess], topic: str
) -> None:
    broker = own_broker()
    create_topic(broker.bootstrap, topic, PARTITIONS)
    writer = LibrdkafkaWriter(broker.bootstrap, topic, 2_000)
    time.sleep(1.0)

    assert broker.stop() == 0

    assert (broker.data / ".kafka_cleanshutdown").exists()
    broker.start()
    time.sleep(0.5)
    writer.finish()
    check(writer, read_all(broker.bootstrap, topic))
    assert "RECOVERING" not in broker.log_text()


def test_a_torn_last_batch_is_cut_off(own_broker: Callable[..., BrokerProcess], topic: str) -> None:
    broker = own_broker()
    create_topic(broker.bootstrap, topic, PARTITIONS)
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, acks="all", linger_ms=0)
    for number in range(3):
        producer.send(topic, b"%0100d" % number, partition=0).get(30)
    producer.close()
    kill(broker)
    segment = broker.data / f"{topic}-0" / "00000000000000000000.log"
    segment.write_bytes(segment.read_bytes()[:-30])

    broker.start()

    assert list(read_all(broker.bootstrap, topic).values[0]) == [0, 1]
    again = KafkaProducer(bootstrap_servers=broker.bootstrap, acks="all")
    assert again.send(topic, b"after", partition=0).get(30).offset == 2
    again.close()


def test_topics_and_directories_agree_after_kills_between_creation_and_deletion(
    own_broker: Callable[..., BrokerProcess],
) -> None:
    broker = own_broker()
    for turn in range(ROUNDS):
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        names = [f"kill{turn}-{number}" for number in range(40)]
        made = admin.create_topics([NewTopic(name, 5, 1) for name in names])
        if turn % 2:
            for future in made.values():
                future.result(30)
            admin.delete_topics(names)
        else:
            made[names[0]].result(30)
        time.sleep(0.03)
        kill(broker)
        del admin  # it would send what was not answered to the next broker
        broker.start()
        if not turn % 2:  # nothing is being deleted
            assert_only_known_directories(broker)

    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    topics = settled_topics(admin, broker)
    assert topics
    for future in admin.delete_topics(list(topics)).values():
        error = future.exception(30)
        # Unknown: a deletion asked for before the kill came first.
        assert error is None or error.args[0].code() == ClientError.UNKNOWN_TOPIC_OR_PART
    assert log_directories(broker.data) == set()
    assert "Traceback" not in broker.log_text()


def assert_only_known_directories(broker: BrokerProcess) -> None:
    """Right after its start a broker knows every topic it holds a partition of."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    topics = set(admin.list_topics(timeout=10).topics)
    held = {name.rpartition("-")[0] for name in log_directories(broker.data)}
    assert held <= topics


def settled_topics(admin: AdminClient, broker: BrokerProcess) -> set[str]:
    """The topics once topics and directories agree: the last of what was being deleted is gone."""
    deadline = time.monotonic() + 20
    while True:
        topics = admin.list_topics(timeout=10).topics
        wanted = {f"{name}-{partition}" for name in topics for partition in range(5)}
        leaders = [p.leader for topic in topics.values() for p in topic.partitions.values()]
        if log_directories(broker.data) == wanted and min(leaders, default=0) >= 0:
            return set(topics)
        assert time.monotonic() < deadline, log_directories(broker.data) ^ wanted
        time.sleep(0.2)


def log_directories(data: Path) -> set[str]:
    found = {entry.name for entry in data.iterdir() if entry.is_dir()}
    return {name for name in found if not name.endswith("-delete")}
