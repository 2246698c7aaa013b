"""Clients that send and read as fast as they may, for `quota_rates`: of C, Java and Python. A time is
counted of each, for which it has a quota.
"""

from __future__ import annotations

import asyncio
import subprocess
import threading
import time
from contextlib import suppress

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as Place
from aiokafka.errors import KafkaError
from confluent_kafka import Consumer, Producer, TopicPartition

from compat_tests.clients.java_clients import java_command, kept_classes
from compat_tests.running.apache_kafka import NEWEST

FROM_S, UNTIL_S = 15.0, 75.0
RECORD, LARGE_RECORD = bytes(1_000), bytes(10_000)
FILLED, FILLED_LARGE = "filled", "filled-large"
_MANY = 10_000  # records in a client at once


class Measured(threading.Thread):
    """A client that goes as fast as it may; counts the bytes of a time."""

    def __init__(self, kind: str, rate: int, began_s: float) -> None:
        super().__init__(name=f"{kind} {rate}")
        self.rate = rate
        self.client_id = f"{kind}-{rate}"
        self._began_s = began_s
        self.counted = 0
        self.throttled_ms: float | None = 0.0  # None: such clients do not say it

    def is_counted_now(self) -> bool:
        """Whether this is the time that is counted."""
        return FROM_S <= time.monotonic() - self._began_s < UNTIL_S

    def count(self, size: int) -> None:
        """Count bytes that have arrived now."""
        if self.is_counted_now():
            self.counted += size

    def is_over(self) -> bool:
        """Whether the time has passed."""
        return time.monotonic() - self._began_s >= UNTIL_S

    @property
    def share(self) -> float:
        """The rate that was reached, over the one that was allowed."""
        return self.counted / (UNTIL_S - FROM_S) / self.rate

    def pause(self, pause_ms: float) -> None:
        """Note how long the client says that it is throttled."""
        self.throttled_ms = max(self.throttled_ms or 0.0, pause_ms)

    def noted(self, event: object) -> None:
        """Note an event of a client of C."""
        self.pause(1000 * float(event.throttle_time))  # type: ignore[attr-defined]


# ---- C


class CSender(Measured):
    """A producer."""

    def __init__(self, bootstrap: str, rate: int, began_s: float) -> None:
        super().__init__("produce", rate, began_s)
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "client.id": self.client_id, "linger.ms": 5,
             "batch.size": 16_384, "acks": "1", "queue.buffering.max.messages": _MANY,
             "throttle_cb": self.noted, "log_level": 0}
        )  # fmt: skip

    def run(self) -> None:
        def arrived(error: object, _message: object) -> None:
            if error is None:
                self.count(len(RECORD))

        topic = f"sent-{self.rate}"
        while not self.is_over():
            try:
                self._producer.produce(topic, RECORD, on_delivery=arrived, partition=0)
                self._producer.poll(0)
            except BufferError:
                self._producer.poll(0.05)
        self._producer.purge()
        del self._producer  # what it has sent ahead would count for the next client of this name


class CReader(Measured):
    """A consumer, that begins again at the end."""

    def __init__(self, bootstrap: str, rate: int, began_s: float) -> None:
        super().__init__("consume", rate, began_s)
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "client.id": self.client_id, "group.id": "readers",
             "enable.auto.commit": False, "enable.partition.eof": True, "check.crcs": False,
             "queued.min.messages": _MANY, "throttle_cb": self.noted, "log_level": 0}
        )  # fmt: skip

    def run(self) -> None:
        first = TopicPartition(FILLED, 0, 0)
        self._consumer.assign([first])
        while not self.is_over():
            for message in self._consumer.consume(1_000, 0.2):
                if message.error() is None:
                    self.count(len(RECORD))
                else:
                    self._consumer.seek(first)
        self._consumer.close()


def of_c(bootstrap: str, rates: tuple[int, ...], began_s: float) -> list[Measured]:
    """A producer and a consumer of C for each rate."""
    return [client(bootstrap, rate, began_s) for rate in rates for client in (CSender, CReader)]


# ---- Python


class AioSender(Measured):
    """A producer of aiokafka. Its records are larger, or it would be the one that is slow."""

    def __init__(self, bootstrap: str, rate: int, began_s: float) -> None:
        super().__init__("produce", rate, began_s)
        self._address = bootstrap
        self.throttled_ms = None

    def run(self) -> None:
        asyncio.run(self._send())

    async def _send(self) -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=self._address, client_id=self.client_id, acks=1, linger_ms=5,
            max_batch_size=100_000, request_timeout_ms=120_000,
        )  # fmt: skip
        await producer.start()

        def arrived(done: asyncio.Future[object]) -> None:
            if not done.cancelled() and done.exception() is None:
                self.count(len(LARGE_RECORD))

        while not self.is_over():
            sent = await producer.send(f"sent-{self.rate}", LARGE_RECORD, partition=0)
            sent.add_done_callback(arrived)
        with suppress(TimeoutError, KafkaError):
            async with asyncio.timeout(5):
                await producer.stop()


class AioReader(Measured):
    """A consumer of aiokafka, that begins again at the end."""

    def __init__(self, bootstrap: str, rate: int, began_s: float) -> None:
        super().__init__("consume", rate, began_s)
        self._address = bootstrap
        self.throttled_ms = None

    def run(self) -> None:
        asyncio.run(self._read())

    async def _read(self) -> None:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._address, client_id=self.client_id, enable_auto_commit=False,
            check_crcs=False, request_timeout_ms=120_000,
        )  # fmt: skip
        await consumer.start()
        place = Place(FILLED_LARGE, 0)
        consumer.assign([place])
        end = (await consumer.end_offsets([place]))[place]
        await consumer.seek_to_beginning(place)
        while not self.is_over():
            for record in (await consumer.getmany(place, timeout_ms=200)).get(place, ()):
                self.count(len(record.value))
            if await consumer.position(place) >= end:
                await consumer.seek_to_beginning(place)
        with suppress(TimeoutError, KafkaError):
            async with asyncio.timeout(5):
                await consumer.stop()


def of_aiokafka(bootstrap: str, rates: tuple[int, ...], began_s: float) -> list[Measured]:
    """A producer and a consumer of aiokafka for each rate."""
    return [client(bootstrap, rate, began_s) for rate in rates for client in (AioSender, AioReader)]


# ---- Java


class JavaClient(Measured):
    """One of the clients of a Java program, which says how many bytes it has had so far."""

    def __init__(self, kind: str, rate: int, began_s: float) -> None:
        super().__init__(kind, rate, began_s)
        self._before: int | None = None

    def has(self, total: int, pause_ms: float) -> None:
        """Take over what the program says now."""
        self.pause(pause_ms)
        if self.is_counted_now():
            if self._before is None:
                self._before = total
            self.counted = total - self._before

    def run(self) -> None:
        """Leave the work to the program."""


class JavaProgram(JavaClient):
    """The first client of a program, which reads for all of them."""

    def __init__(self, bootstrap: str, rates: tuple[int, ...], began_s: float) -> None:
        super().__init__("produce", rates[0], began_s)
        self.clients: dict[str, JavaClient] = {self.client_id: self}
        for rate in rates:
            for kind in ("produce", "consume"):
                self.clients.setdefault(f"{kind}-{rate}", JavaClient(kind, rate, began_s))
        classes = kept_classes("Rates", NEWEST)
        self._command = java_command(classes, NEWEST, "Rates", bootstrap, *map(str, rates))

    def run(self) -> None:
        with subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as program:
            assert program.stdin is not None
            assert program.stdout is not None
            for line in program.stdout:
                name, total, pause_ms = line.split()
                self.clients[name].has(int(total), float(pause_ms))
                if self.is_over():
                    break
            program.stdin.close()


def of_java(bootstrap: str, rates: tuple[int, ...], began_s: float) -> list[Measured]:
    """A producer and a consumer of Java for each rate, in one program."""
    return list(JavaProgram(bootstrap, rates, began_s).clients.values())


FAMILIES = {"c": of_c, "java": of_java, "aiokafka": of_aiokafka}
