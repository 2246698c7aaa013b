"""Lines in topics: written before and between a worker's lives, and read from where it puts them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

KEYS = 10
READ_TIMEOUT_S = 60


def lines(first: int, count: int) -> list[str]:
    return [f"line {number}" for number in range(first, first + count)]


def write(bootstrap: str, topic: str, values: Iterable[str]) -> None:
    """Lines with ten keys, so that they spread over partitions."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for index, value in enumerate(values):
        producer.produce(topic, value=value, key=f"key-{index % KEYS}")
    assert producer.flush(30) == 0


class TopicReader:
    """Reads all partitions of a topic from the beginning on and counts what it sees, by value."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.topic = topic
        self.seen: Counter[str] = Counter()
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "not used"})
        self._known = 0

    def until(self, values: Iterable[str], timeout_s: float = READ_TIMEOUT_S) -> Counter[str]:
        """Read until each of these was seen; how often each value was seen so far."""
        wanted = set(values)
        deadline = time.monotonic() + timeout_s
        while missing := wanted - self.seen.keys():
            left = len(missing)
            assert time.monotonic() < deadline, f"{left} of {len(wanted)}: {sorted(missing)[:3]}"
            self.poll(0.2)
        return self.seen

    def until_any(self, values: Iterable[str], timeout_s: float = READ_TIMEOUT_S) -> None:
        """Read until one of these was seen."""
        wanted = set(values)
        deadline = time.monotonic() + timeout_s
        while not wanted & self.seen.keys():
            assert time.monotonic() < deadline, f"none of {len(wanted)}"
            self.poll(0.01)

    def poll(self, timeout_s: float) -> None:
        """Count what there is."""
        if not self._known and (count := self.partitions()):
            self._known = count
            self._consumer.assign(
                [TopicPartition(self.topic, each, OFFSET_BEGINNING) for each in range(count)]
            )
        for message in self._consumer.consume(500, timeout=timeout_s):
            if message.error() is None:
                self.seen[(message.value() or b"").decode()] += 1

    def partitions(self) -> int:
        """How many the topic has; 0 as long as there is no such topic."""
        found = self._consumer.list_topics(timeout=10).topics.get(self.topic)
        return len(found.partitions) if found else 0

    def close(self) -> None:
        self._consumer.close()


def lag(bootstrap: str, topic: str, group: str) -> int:
    """How many records of a topic a group has not committed."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    partitions = [
        TopicPartition(topic, each)
        for each in admin.list_topics(topic, 10).topics[topic].partitions
    ]
    ends = admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.latest()))
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    committed = {each.partition: max(each.offset, 0) for each in consumer.committed(partitions, 10)}
    consumer.close()
    return sum(end.result(10).offset - committed[at.partition] for at, end in ends.items())
