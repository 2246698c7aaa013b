"""Consumers that read on while a cluster is disturbed, and remember every place they saw."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Protocol

from confluent_kafka import Consumer, KafkaException, Message
from confluent_kafka import KafkaError as ClientError
from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError
from kio.schema.errors import ErrorCode

from compat_tests.clients.writers import PARTITIONS, Places

# What a member hears when its group goes on without it: it joins again by itself.
REBALANCED = (
    ClientError.ILLEGAL_GENERATION,
    ClientError.REBALANCE_IN_PROGRESS,
    ClientError.UNKNOWN_MEMBER_ID,
    ClientError._NO_OFFSET,
    ClientError._ASSIGNMENT_LOST,
)


class Reader(Protocol):
    """Reads topics until it is told to finish."""

    seen: dict[str, Places]
    errors: list[str]

    def finish(self) -> None:
        """Stop and leave."""
        ...


class GroupReader:
    """librdkafka in a group, whose coordinator may be any broker; commits what it saw."""

    def __init__(self, bootstrap: str, topics: list[str]) -> None:
        self.seen = {topic: Places() for topic in topics}
        self.errors: list[str] = []
        self.commits = 0
        self._stop = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "rounds",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": 10_000,
                "reconnect.backoff.max.ms": 500,
                "error_cb": self._heard,
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._run, args=(topics,), daemon=True)
        self._thread.start()

    def _run(self, topics: list[str]) -> None:
        self._consumer.subscribe(topics)
        while not self._stop.is_set():
            messages = self._consumer.consume(500, timeout=0.2)
            for message in messages:
                if (error := message.error()) is not None:
                    self._heard(error)
                else:
                    self._see(message)
            if messages:
                self._commit()
        self._consumer.close()

    def _see(self, message: Message) -> None:
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        assert topic is not None
        assert partition is not None
        assert offset is not None
        self.seen[topic].put(partition, offset, int(message.value() or b""))

    def _commit(self) -> None:
        try:
            self._consumer.commit(asynchronous=False)
            self.commits += 1
        except KafkaException as error:
            if error.args[0].code() not in REBALANCED:
                self._heard(error.args[0])

    def _heard(self, error: ClientError) -> None:
        """librdkafka's own codes (negative) tell of connections; of a broker's it does not say
        which are retriable.
        """
        if error.fatal() or not (error.code() < 0 or ErrorCode(error.code()).retriable):
            self.errors.append(str(error))

    def finish(self) -> None:
        self._stop.set()
        self._thread.join(30)


class AssignedReader:
    """kafka-python without a group."""

    def __init__(self, bootstrap: str, topics: list[str]) -> None:
        self.seen = {topic: Places() for topic in topics}
        self.errors: list[str] = []
        self._stop = threading.Event()
        self._bootstrap = bootstrap
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        consumer = KafkaConsumer(
            bootstrap_servers=self._bootstrap.split(","),
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            reconnect_backoff_max_ms=500,
        )
        consumer.assign([TopicPartition(t, n) for t in self.seen for n in range(PARTITIONS)])
        while not self._stop.is_set():
            try:
                found = consumer.poll(timeout_ms=200)
            except KafkaError as error:
                if not error.retriable:
                    self.errors.append(repr(error))
                continue
            for partition, records in found.items():
                for record in records:
                    places = self.seen[partition.topic]
                    places.put(partition.partition, record.offset, int(record.value))
        with suppress(KafkaError):
            consumer.close()

    def finish(self) -> None:
        self._stop.set()
        self._thread.join(30)
