"""A real broker that cleans: committed offsets over a cleaned log, a stop and a kill while a log is
being cleaned.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewTopic

from compat_tests.running.waiting import until
from tests.fakes.running.child_processes import children
from tests.faults.running_broker import RunningBroker

SETTINGS = (
    "log.cleaner.backoff.ms=50",
    "log.cleaner.min.cleanable.ratio=0.01",
    "offsets.topic.num.partitions=1",
    "offsets.topic.segment.bytes=20000",
)


def options(*more: str) -> list[str]:
    return [part for setting in (*SETTINGS, *more) for part in ("--override", setting)]


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[list[RunningBroker]]:
    started: list[RunningBroker] = []
    yield started
    for broker in started:
        broker.end()


def bootstrap(broker: RunningBroker) -> str:
    return f"127.0.0.1:{broker.port}"


def segment_bytes(broker: RunningBroker, partition: str) -> int:
    total = 0
    for path in (broker.data / partition).glob("*.log"):
        with suppress(FileNotFoundError):  # it has gone since
            total += path.stat().st_size
    return total


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def create_topic(
    broker: RunningBroker, name: str, settings: Mapping[str, str] | None = None
) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap(broker))
    admin.create_topics([NewTopic(name, 1, 1, topic_configs=dict(settings or {}))])
    admin.close()  # else its thread asks for the broker as long as the process lives


def commit(broker: RunningBroker, offsets: range) -> None:
    partition = TopicPartition("orders", 0)
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap(broker), group_id="billing", enable_auto_commit=False
    )
    consumer.assign([partition])
    for offset in offsets:
        consumer.commit({partition: OffsetAndMetadata(offset, "m" * 50, -1)})
    consumer.close()


def committed(broker: RunningBroker) -> int | None:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap(broker), group_id="billing")
    found = consumer.committed(TopicPartition("orders", 0))
    consumer.close()
    return int(found) if found is not None else None


def test_committed_offsets_survive_their_cleaning_and_a_restart(
    tmp_path: Path, brokers: list[RunningBroker]
) -> None:
    broker = RunningBroker(tmp_path / "data", *options()).start()
    brokers.append(broker)
    create_topic(broker, "orders")
    commit(broker, range(1, 600))
    until(lambda: segment_bytes(broker, "__consumer_offsets-0") < 40_000)
    assert committed(broker) == 599
    broker.stop()

    again = RunningBroker(tmp_path / "data", *options()).start()
    brokers.append(again)
    assert committed(again) == 599
    assert "will not be cleaned" not in again.said() + broker.said()


def cleaning_broker(tmp_path: Path, brokers: list[RunningBroker]) -> RunningBroker:
    """A broker in the middle of a cleaning that would take minutes."""
    throttle = "log.cleaner.io.max.bytes.per.second=20000"
    broker = RunningBroker(tmp_path / "data", *options(throttle)).start()
    brokers.append(broker)
    create_topic(broker, "keyed", {"cleanup.policy": "compact", "segment.bytes": "40000"})
    producer = KafkaProducer(bootstrap_servers=bootstrap(broker))
    for number in range(4_000):
        producer.send("keyed", key=b"%d" % (number % 100), value=b"%090d" % number)
    producer.flush()
    producer.close()
    assert broker.process is not None
    pid = broker.process.pid
    until(lambda: children(pid))
    return broker


def last_numbers(broker: RunningBroker) -> dict[bytes, int]:
    consumer = KafkaConsumer(
        "keyed",
        bootstrap_servers=bootstrap(broker),
        auto_offset_reset="earliest",
        consumer_timeout_ms=1500,
    )
    found = {record.key: int(record.value) for record in consumer}
    consumer.close()
    return found


EXPECTED = {b"%d" % (number % 100): number for number in range(3_900, 4_000)}


def test_a_stop_during_a_cleaning_is_quick_and_leaves_nothing_behind(
    tmp_path: Path, brokers: list[RunningBroker]
) -> None:
    broker = cleaning_broker(tmp_path, brokers)
    assert broker.process is not None
    (child,) = children(broker.process.pid)
    begun = time.monotonic()
    assert broker.stop() == 0
    elapsed_s = time.monotonic() - begun
    print(f"stopped in {elapsed_s:.2f} s")
    assert elapsed_s < 5
    assert not is_alive(child)
    assert not list((tmp_path / "data" / "keyed-0").glob("*.cleaned"))
    again = RunningBroker(tmp_path / "data", *options()).start()
    brokers.append(again)
    until(lambda: segment_bytes(again, "keyed-0") < 80_000)
    assert last_numbers(again) == EXPECTED


def test_a_killed_broker_takes_its_cleaner_along_and_the_next_one_cleans(
    tmp_path: Path, brokers: list[RunningBroker]
) -> None:
    broker = cleaning_broker(tmp_path, brokers)
    assert broker.process is not None
    (child,) = children(broker.process.pid)
    broker.kill()
    until(lambda: not is_alive(child))
    again = RunningBroker(tmp_path / "data", *options()).start()
    brokers.append(again)
    assert last_numbers(again) == EXPECTED
    until(lambda: segment_bytes(again, "keyed-0") < 80_000)
    assert last_numbers(again) == EXPECTED


def end_offset(broker: RunningBroker) -> int:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap(broker))
    partition = TopicPartition("keyed", 0)
    found = consumer.end_offsets([partition])[partition]
    consumer.close()
    return int(found)


def produce(broker: RunningBroker, count: int) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap(broker), acks="all", batch_size=2_000)
    for number in range(count):
        producer.send("keyed", key=b"%d" % (number % 5), value=b"%090d" % number)
    producer.flush()
    producer.close()


def set_policy(broker: RunningBroker, policy: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap(broker))
    resource = ConfigResource(
        ConfigResourceType.TOPIC, "keyed", {"cleanup.policy": policy, "segment.bytes": "10000"}
    )
    admin.alter_configs([resource])
    admin.close()


@pytest.mark.parametrize("policies", [["delete"], ["delete", "compact,delete"], []], ids=str)
def test_a_killed_broker_loses_nothing_of_a_topic_that_was_once_compacted(
    tmp_path: Path, brokers: list[RunningBroker], policies: list[str]
) -> None:
    broker = RunningBroker(tmp_path / "data", *options("kbroker.flush=acks-all")).start()
    brokers.append(broker)
    create_topic(broker, "keyed", {"cleanup.policy": "compact", "segment.bytes": "10000"})
    produce(broker, 1_000)
    until(lambda: "Cleaned log keyed-0" in broker.said())
    for policy in policies:
        set_policy(broker, policy)
    produce(broker, 200)
    expected = last_numbers(broker)
    broker.kill()
    (tmp_path / "data" / "recovery-point-offset-checkpoint").write_bytes(b"0\n1\nkeyed")

    again = RunningBroker(tmp_path / "data", *options()).start()
    brokers.append(again)

    assert end_offset(again) == 1_200
    assert last_numbers(again) == expected
