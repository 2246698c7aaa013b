"""Clients that tests drive, and the records they write: keys, nulls, headers and timestamps of
every kind.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.running.waiting import PATIENCE_S, until

_MADE_S = 20
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
# An hour ago: much older records would be due for deletion, and a broker may delete them at any
# moment.
FIRST_TIMESTAMP_MS = (int(time.time()) - 3_600) * 1_000


@dataclass(frozen=True)
class Sample:
    """A record as every client must write and read it."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int


def samples(count: int, null_headers: bool = True) -> list[Sample]:
    """Records of all shapes: null and empty keys and values, repeated and null headers, binary, big
    ones.

    kafka-python does not write headers whose value is null: `null_headers` False gives it none.
    """
    null = None if null_headers else b"null"
    shapes: list[tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]] = [
        (b"key", b"value", ()),
        (None, b"no key", ()),
        (b"tombstone", None, ()),
        (b"", b"", (("", b""),)),
        (b"h", b"headers", (("a", b"1"), ("a", b"2"), ("n", null))),
        (bytes(range(256)), bytes(range(255, -1, -1)), (("bin", bytes(range(256))),)),
        ("ключ".encode(), "значение 値".encode(), (("имя", b"x"),)),
        (b"big", b"0123456789abcdef" * 64, ()),
    ]
    return [
        Sample(key, value, headers, FIRST_TIMESTAMP_MS + index)
        for index in range(count)
        for key, value, headers in [shapes[index % len(shapes)]]
    ]


def run(command: list[str], stdin: bytes | None = None, timeout_s: float = 60) -> bytes:
    """Run a program to its end; its standard output. Raises with its standard error when it failed."""
    done = subprocess.run(
        command,
        input=stdin,
        capture_output=True,
        timeout=timeout_s,
        check=False,
        env={**os.environ},
    )
    if done.returncode != 0:
        raise AssertionError(
            f"{command[0]} ended with {done.returncode}: {done.stderr.decode(errors='replace')[-2000:]}"
        )
    return done.stdout


def create_topic(bootstrap: str, topic: str, partitions: int, **settings: str) -> None:
    """Create a topic with as many replicas as the broker gives it; `settings` have underscores for
    dots.
    """
    config = {name.replace("_", "."): value for name, value in settings.items()}
    make_topic(
        AdminClient({"bootstrap.servers": bootstrap}), NewTopic(topic, partitions, config=config)
    )


def make_topic(admin: AdminClient, new: NewTopic) -> None:
    """Create a topic; while too few brokers are there for its replicas, wait for them."""

    def made() -> bool:
        try:
            admin.create_topics([new])[new.topic].result(_MADE_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.INVALID_REPLICATION_FACTOR:
                raise
            return False
        return True

    until(made, f"brokers for the replicas of {new.topic}")


def transactional_producer(bootstrap: str, transactional_id: str, **settings: object) -> Producer:
    """A producer that can begin a transaction; `settings` have underscores for dots."""
    dotted = {name.replace("_", "."): value for name, value in settings.items()}
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "log_level": 0,
            **dotted,
        }
    )
    producer.init_transactions(PATIENCE_S)
    return producer


def begin_transaction(producer: Producer, topic: str, values: Iterable[int]) -> None:
    """Write values in a transaction that is then open."""
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value=str(value))
    producer.flush(PATIENCE_S)
