"""Clients that copy a topic in transactions, and those who read the copies.

A copier reads what is committed, writes it to the same partition of another topic, has its offsets
committed in the same transaction, and aborts some. One whose producer can do no more is started
again with the same transactional id, as a program would be.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import random
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from compat_tests.clients.java_clients import java_command, kept_classes
from compat_tests.clients.writers import PARTITIONS
from compat_tests.running.apache_kafka import NEWEST

CALL_TIMEOUT_S, _OFFSETS_TIMEOUT_S = 10.0, 6.0
_JOIN_S = 30.0


@dataclass(frozen=True)
class Plan:
    """What a copier does; `aborts`: of 100 transactions."""

    bootstrap: str
    source: str
    sink: str
    timeout_ms: int = 10_000
    records: int = 50
    aborts: int = 20
    seed: int = 1

    @property
    def name(self) -> str:
        """Of the group and of the transactional id."""
        return f"{self.source}-to-{self.sink}"


class Copier(Protocol):
    """One that copies until it is told to stop."""

    plan: Plan
    told: Counter[str]  # committed, aborted, restarted, and why
    troubles: list[str]

    def kill(self) -> None:
        """End it in the middle of what it does, if it can be; it goes on with the same names."""
        ...

    def stop(self) -> None: ...


class JavaCopier:
    """`Copier.java` with the newest client."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.told: Counter[str] = Counter()
        self.troubles: list[str] = []
        self._stopping = False
        self._process = self._start()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _start(self) -> subprocess.Popen[str]:
        plan = self.plan
        places = (plan.bootstrap, plan.source, plan.sink, plan.name, plan.name)
        numbers = (plan.timeout_ms, plan.records, plan.aborts, plan.seed)
        process = subprocess.Popen(
            java_command(kept_classes("Copier", NEWEST), NEWEST, "Copier", *places, *map(str, numbers)),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        atexit.register(process.kill)
        return process

    def _run(self) -> None:
        while True:
            assert self._process.stdout is not None
            for line in self._process.stdout:
                self._take(line)
            self._process.wait()
            if self._stopping:
                return
            self.told["restarted"] += 1
            self._process = self._start()

    def _take(self, line: str) -> None:
        with suppress(ValueError):
            event = json.loads(line)
            self.told[event["name"]] += 1
            if event.get("why", "chance") != "chance":
                self.troubles.append(event["why"])

    def kill(self) -> None:
        self._process.kill()

    def stop(self) -> None:
        self._stopping = True
        self._process.kill()
        self._thread.join(_JOIN_S)


class _ThreadCopier:
    """Copies on a thread; a failure that its producer cannot go on after makes a new one."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.told: Counter[str] = Counter()
        self.troubles: list[str] = []
        self._draw = random.Random(plan.seed)
        self._stop = threading.Event()
        self._again = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._copy_until_told()
            except Exception as error:
                self.told["restarted"] += 1
                self.troubles.append(repr(error))
                self._stop.wait(0.2)
            self._again.clear()

    def _copy_until_told(self) -> None:
        raise AssertionError(self)

    def _goes_on(self) -> bool:
        return not (self._stop.is_set() or self._again.is_set())

    def _gives(self) -> bool:
        return self._draw.randrange(100) < self.plan.aborts

    def kill(self) -> None:
        self._again.set()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(_JOIN_S)


class LibrdkafkaCopier(_ThreadCopier):
    """confluent-kafka."""

    def _copy_until_told(self) -> None:
        plan = self.plan
        common = {"bootstrap.servers": plan.bootstrap, "log_level": 0,
                  "reconnect.backoff.max.ms": 200}  # fmt: skip
        producer = Producer(
            {**common, "transactional.id": plan.name, "transaction.timeout.ms": plan.timeout_ms}
        )
        _until_done(lambda: producer.init_transactions(CALL_TIMEOUT_S))
        consumer = Consumer(
            {**common, "group.id": plan.name, "isolation.level": "read_committed",
             "enable.auto.commit": False, "auto.offset.reset": "earliest",
             "session.timeout.ms": 6_000, "heartbeat.interval.ms": 500}
        )  # fmt: skip
        try:
            consumer.subscribe([plan.source])
            while self._goes_on():
                messages = consumer.consume(plan.records, timeout=0.2)
                records = [message for message in messages if message.error() is None]
                if records:
                    self._copy(producer, consumer, records)
        finally:
            consumer.close()

    def _copy(self, producer: Producer, consumer: Consumer, records: list[Message]) -> None:
        try:
            producer.begin_transaction()
            for one in records:
                producer.produce(
                    self.plan.sink, one.value(), key=one.key(), partition=one.partition()
                )
            ends = {one.partition(): one.offset() + 1 for one in records}
            offsets = [TopicPartition(self.plan.source, *item) for item in ends.items()]
            group = consumer.consumer_group_metadata()
            # librdkafka 2.16 keeps the handle of a group's coordinator that has left the cluster,
            # and waits for it beyond any time-out, also with Apache Kafka: a new producer does not.
            _within(
                _OFFSETS_TIMEOUT_S,
                lambda: producer.send_offsets_to_transaction(offsets, group, CALL_TIMEOUT_S),
            )
            if not self._gives():
                _until_done(lambda: producer.commit_transaction(CALL_TIMEOUT_S))
                self.told["committed"] += 1
                return
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            self.troubles.append(str(error))
        _until_done(lambda: producer.abort_transaction(CALL_TIMEOUT_S))
        self.told["aborted"] += 1
        for place in consumer.committed(consumer.assignment(), timeout=60):
            consumer.seek(TopicPartition(place.topic, place.partition, max(place.offset, 0)))


def _until_done(call: Callable[[], object]) -> None:
    """librdkafka's calls for transactions go on where they are called again after a time-out."""
    while True:
        try:
            call()
            return
        except KafkaException as error:
            if not error.args[0].retriable():
                raise


def _within(timeout_s: float, call: Callable[[], object]) -> None:
    """Raises TimeoutError where it takes longer; the call is left alone then."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except KafkaException as error:
            failures.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(timeout_s)
    if thread.is_alive():
        raise TimeoutError(f"not within {timeout_s} s")
    for failure in failures:
        raise failure


class AiokafkaCopier(_ThreadCopier):
    """aiokafka, whose offsets name the group alone and no member of it."""

    def __init__(self, plan: Plan) -> None:
        self._ends: dict[AioPartition, int] = {}  # committed
        super().__init__(plan)

    def _copy_until_told(self) -> None:
        asyncio.run(self._copy_all())

    async def _copy_all(self) -> None:
        plan = self.plan
        producer = AIOKafkaProducer(
            bootstrap_servers=plan.bootstrap, transactional_id=plan.name,
            transaction_timeout_ms=plan.timeout_ms,
        )  # fmt: skip
        consumer = AIOKafkaConsumer(
            bootstrap_servers=plan.bootstrap, group_id=plan.name,
            isolation_level="read_committed", enable_auto_commit=False,
            auto_offset_reset="earliest",
        )  # fmt: skip
        try:
            await producer.start()
            await consumer.start()
            # With a group of its own rules: aiokafka commits for no member, which a group that has
            # members refuses.
            consumer.assign([AioPartition(plan.source, n) for n in range(PARTITIONS)])
            await self._rewind(consumer)
            while self._goes_on():
                found = await consumer.getmany(timeout_ms=200, max_records=plan.records)
                if found:
                    await self._copy(producer, consumer, found)
        finally:
            await consumer.stop()
            await producer.stop()

    async def _copy(self, producer: Any, consumer: Any, found: dict[Any, list[Any]]) -> None:
        await producer.begin_transaction()
        for records in found.values():
            for one in records:
                await producer.send(self.plan.sink, one.value, key=one.key, partition=one.partition)
        offsets = {place: records[-1].offset + 1 for place, records in found.items()}
        await producer.send_offsets_to_transaction(offsets, self.plan.name)
        if self._gives():
            await producer.abort_transaction()
            self.told["aborted"] += 1
            await self._rewind(consumer)
        else:
            await producer.commit_transaction()
            self._ends |= offsets
            self.told["committed"] += 1

    async def _rewind(self, consumer: Any) -> None:
        """To what is committed. aiokafka 0.14 does not see that the coordinator has moved, also with
        Apache Kafka: it finds no offset then, now and ever after. A new consumer does.
        """
        for place in consumer.assignment():
            offset = await consumer.committed(place) or 0
            if offset < self._ends.get(place, 0):
                raise RuntimeError(f"{offset} is told as committed, after {self._ends[place]}")
            consumer.seek(place, offset)


COPIERS: dict[str, Callable[[Plan], Copier]] = {
    "java": JavaCopier,
    "librdkafka": LibrdkafkaCopier,
    "aiokafka": AiokafkaCopier,
}


class CommittedReader:
    """Reads what is committed in a topic as it comes; `values` by partition."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.topic = topic
        self.values: list[list[int]] = [[] for _ in range(PARTITIONS)]
        self.failures: list[str] = []
        self._bootstrap = bootstrap
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def count(self) -> int:
        """Records so far."""
        return sum(map(len, self.values))

    def _run(self) -> None:
        consumer = Consumer(
            {"bootstrap.servers": self._bootstrap, "group.id": f"reader-of-{self.topic}",
             "isolation.level": "read_committed", "enable.auto.commit": False, "check.crcs": True,
             "auto.offset.reset": "error", "log_level": 0, "reconnect.backoff.max.ms": 200}
        )  # fmt: skip
        consumer.assign([TopicPartition(self.topic, n, 0) for n in range(PARTITIONS)])
        while not self._stop.is_set():
            self._take(consumer.consume(1_000, timeout=0.2))
        consumer.close()

    def _take(self, messages: Iterable[Message]) -> None:
        for message in messages:
            error = message.error()
            if error is None:
                self.values[message.partition()].append(int(message.value()))
            elif error.name() == "_AUTO_OFFSET_RESET":
                self.failures.append(error.str())

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(_JOIN_S)


def first_difference(wanted: list[int], found: list[int]) -> str:
    """Where two lists of values begin to differ; nothing where they do not."""
    if wanted == found:
        return ""
    at = next(
        (n for n, pair in enumerate(zip(wanted, found, strict=False)) if pair[0] != pair[1]),
        min(len(wanted), len(found)),
    )
    around = slice(max(at - 3, 0), at + 4)
    return (
        f"{len(wanted)} and {len(found)} values, from {at} on {wanted[around]} and {found[around]}"
    )
