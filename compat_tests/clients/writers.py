"""Clients that write numbered records while brokers fail, and what they were told of each record.
The key of a record is its number, too, so that compaction keeps all of them.
"""

from __future__ import annotations

import math
import random
import threading
import time
from array import array
from collections.abc import Mapping
from typing import Protocol

from confluent_kafka import KafkaError as ClientError
from confluent_kafka import Message, Producer
from kafka import KafkaProducer
from kafka.producer.future import RecordMetadata

PARTITIONS = 2
DELIVERY_TIMEOUT_S = 120
NOTHING = -1


class Places:
    """What was acknowledged, or read, at each offset of each partition."""

    def __init__(self) -> None:
        self.values = [array("q") for _ in range(PARTITIONS)]
        self.count = 0

    def value_at(self, partition: int, offset: int) -> int:
        """Return the value at an offset, NOTHING where nothing is."""
        values = self.values[partition]
        return values[offset] if offset < len(values) else NOTHING

    def put(self, partition: int, offset: int, value: int) -> None:
        values = self.values[partition]
        if offset >= len(values):
            values.extend([NOTHING] * (offset + 1 - len(values)))
        assert values[offset] in (NOTHING, value), (partition, offset, values[offset], value)
        values[offset] = value
        self.count += 1


class Acknowledged(Places):
    """What a writer was told of its records. What cannot be true goes to its errors: clients
    swallow what their callbacks raise.
    """

    def __init__(self, errors: list[str]) -> None:
        super().__init__()
        self.longest_silence_s = 0.0  # of any partition, between two records
        self._errors = errors
        self._heard_at_s = [math.inf] * PARTITIONS

    def take(self, partition: int, offset: int, value: int) -> None:
        """A record was acknowledged."""
        now_s = time.monotonic()
        silence_s = now_s - self._heard_at_s[partition]
        self.longest_silence_s = max(self.longest_silence_s, silence_s)
        self._heard_at_s[partition] = now_s
        if offset < 0:  # a duplicate that the broker no longer knows the offset of
            self._errors.append(f"record {value} has the offset {offset} in partition {partition}")
        elif (other := self.value_at(partition, offset)) not in (NOTHING, value):
            self._errors.append(f"records {other} and {value} have the offset {offset}")
        else:
            self.put(partition, offset, value)


class Writer(Protocol):
    """A client that writes rising numbers until it is told to finish."""

    topic: str
    acknowledged: Acknowledged
    errors: list[str]
    is_idempotent: bool

    def finish(self) -> None:
        """Stop, and return when everything sent is acknowledged or refused."""
        ...


class ThreadWriter:
    """Writes at its pace on a thread of its own, which begins when the client is there."""

    def __init__(self, topic: str, records_per_s: int) -> None:
        self.topic = topic
        self.errors: list[str] = []
        self.acknowledged = Acknowledged(self.errors)
        self._interval_s = 1 / records_per_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        begin = time.monotonic()
        while not self._stop.is_set():
            due = int((time.monotonic() - begin) / self._interval_s)
            while number < due and not self._stop.is_set() and self._send(number):
                number += 1
            self._rest()

    def _send(self, number: int) -> bool:
        """Send a record; False where it has to wait."""
        raise AssertionError(self)

    def _rest(self) -> None:
        time.sleep(0.01)

    def _end(self) -> None:
        self._stop.set()
        self._thread.join(10)


class LibrdkafkaWriter(ThreadWriter):
    """confluent-kafka's idempotent producer."""

    is_idempotent = True
    padding_bytes = 0  # of a large header, in every fiftieth record
    last_large = NOTHING  # of them

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        records_per_s: int,
        security: Mapping[str, str] | None = None,
    ) -> None:
        self._producer = Producer(
            {
                **(security or {}),
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 2,
                "batch.size": 50_000,  # also of what came together while nobody led
                "reconnect.backoff.max.ms": 200,
                "message.timeout.ms": DELIVERY_TIMEOUT_S * 1000,
                "socket.timeout.ms": 10_000,  # a broker that sleeps keeps its connections open
                "request.timeout.ms": 10_000,
                "log_level": 0,
            }
        )
        super().__init__(topic, records_per_s)

    def _send(self, number: int) -> bool:
        try:
            self._producer.produce(
                self.topic,
                str(number).encode(),
                str(number).encode(),
                partition=number % PARTITIONS,
                on_delivery=self._delivered,
                headers=self._headers(number),
            )
        except BufferError:
            return False
        return True

    def _headers(self, number: int) -> list[tuple[str, bytes]]:
        if not self.padding_bytes or number % 50:
            return []
        self.last_large = number
        return [("padding", random.randbytes(self.padding_bytes))]

    def _rest(self) -> None:
        self._producer.poll(0.01)

    def _delivered(self, error: ClientError | None, message: Message) -> None:
        if error is not None:
            self.errors.append(str(error))
        else:
            value = int(message.value())
            self.acknowledged.take(message.partition(), message.offset(), value)

    def finish(self) -> None:
        self._end()
        left = self._producer.flush(DELIVERY_TIMEOUT_S)
        if left:
            self.errors.append(f"{left} records were never answered")


class KafkaPythonWriter(ThreadWriter):
    """kafka-python without idempotence, one request in flight: order is kept, a retry may double."""

    is_idempotent = False
    api_version: tuple[int, ...] | None = None  # of the broker; None: it is asked

    def __init__(self, bootstrap: str, topic: str, records_per_s: int) -> None:
        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap,
            api_version=self.api_version,
            acks="all",
            enable_idempotence=self.is_idempotent,
            max_in_flight_requests_per_connection=1,
            linger_ms=5,
            reconnect_backoff_max_ms=200,
            delivery_timeout_ms=DELIVERY_TIMEOUT_S * 1000,
        )
        super().__init__(topic, records_per_s)

    def _send(self, number: int) -> bool:
        def delivered(metadata: RecordMetadata) -> None:
            self.acknowledged.take(metadata.partition, metadata.offset, number)

        text = str(number).encode()
        future = self._producer.send(self.topic, text, text, partition=number % PARTITIONS)
        future.add_callback(delivered)
        future.add_errback(lambda error: self.errors.append(repr(error)))
        return True

    def finish(self) -> None:
        self._end()
        self._producer.flush(DELIVERY_TIMEOUT_S)
        self._producer.close(10)


class IdempotentKafkaPythonWriter(KafkaPythonWriter):
    """kafka-python as it is by default: a retry doubles nothing."""

    is_idempotent = True


class OldFormatWriter(KafkaPythonWriter):
    """kafka-python as it speaks to Kafka 0.10.0: Produce v2, messages of format 1."""

    api_version = (0, 10, 0)
