"""A member of a group that says what it does, a line each, until standard input ends, as Member.java:

python -m compat_tests.clients.librdkafka_member BOOTSTRAP TOPIC GROUP PROTOCOL NAME
"""

from __future__ import annotations

import sys
import threading
import time
from contextlib import suppress
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

CLASSIC = {
    "heartbeat.interval.ms": 500,
    "session.timeout.ms": 10_000,
    "partition.assignment.strategy": "cooperative-sticky",
}


def say(line: str) -> None:
    print(int(time.time() * 1000), line, flush=True)


def numbers(places: list[TopicPartition]) -> str:
    return ",".join(str(place.partition) for place in places)


def main(bootstrap: str, topic: str, group: str, protocol: str, name: str) -> None:
    """Read and commit."""
    consumer = Consumer({
        "bootstrap.servers": bootstrap, "group.id": group, "group.protocol": protocol,
        "client.id": name, "auto.offset.reset": "earliest", "enable.auto.commit": False,
        "max.poll.interval.ms": 20_000, **(CLASSIC if protocol == "classic" else {}),
    })  # fmt: skip
    ends = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ends.set()), daemon=True).start()
    consumer.subscribe(
        [topic],
        on_assign=lambda member, places: (say(f"got {numbers(places)}"), member.incremental_assign(places)),
        on_revoke=lambda member, places: (say(f"lost {numbers(places)}"), member.incremental_unassign(places)),
        on_lost=lambda member, places: (say(f"lost {numbers(places)}"), member.incremental_unassign(places)),
    )  # fmt: skip
    while not ends.is_set():
        read(consumer, topic)
    consumer.close()


def read(consumer: Any, topic: str) -> None:
    """Read what there is, and commit it."""
    found: dict[int, list[int]] = {}
    for message in consumer.consume(500, 0.2):
        error = message.error()
        if error is not None and error.code() == KafkaError._FATAL:
            sys.exit(f"{error}")  # it would keep its partitions, and read nothing
        if error is None:
            found.setdefault(message.partition(), []).append(message.offset())
    for partition, offsets in found.items():
        say(f"read {partition} {offsets[0]} {offsets[-1]}")
    if found:
        with suppress(KafkaException):  # refused: it is another's now, which reads it again
            places = [TopicPartition(topic, each, found[each][-1] + 1) for each in found]
            consumer.commit(offsets=places, asynchronous=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
