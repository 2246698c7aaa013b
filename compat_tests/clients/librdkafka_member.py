"""A member of a group that says what it does, a line each, until standard input ends, as Member.java:

python -m compat_tests.clients.librdkafka_member BOOTSTRAP TOPIC GROUP PROTOCOL NAME ASSIGNOR
"""

from __future__ import annotations

import sys
import threading
import time
from contextlib import suppress
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

CLASSIC = {"heartbeat.interval.ms": 500, "session.timeout.ms": 10_000}


def say(line: str) -> None:
    print(int(time.time() * 1000), line, flush=True)


def numbers(places: list[TopicPartition]) -> str:
    return ",".join(str(place.partition) for place in places)


def main(bootstrap: str, topic: str, group: str, protocol: str, name: str, assignor: str) -> None:
    """Read and commit. The assignor counts in the classic protocol."""
    classic = {**CLASSIC, "partition.assignment.strategy": assignor}
    consumer = Consumer({
        "bootstrap.servers": bootstrap, "group.id": group, "group.protocol": protocol,
        "client.id": name, "auto.offset.reset": "earliest", "enable.auto.commit": False,
        "max.poll.interval.ms": 20_000, **(classic if protocol == "classic" else {}),
    })  # fmt: skip
    ends = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ends.set()), daemon=True).start()
    say("here")
    consumer.subscribe(  # and the client then does what the assignor's way is, at once or bit by bit
        [topic],
        on_assign=lambda _, places: say(f"got {numbers(places)}"),
        on_revoke=lambda _, places: say(f"gave {numbers(places)}"),
        on_lost=lambda _, places: say(f"lost {numbers(places)}"),
    )
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
