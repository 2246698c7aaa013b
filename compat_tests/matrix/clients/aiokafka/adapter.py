"""aiokafka, on a loop of its own in a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import BrokerResponseError, KafkaError, for_code

from compat_tests.matrix.serving.serve import (
    PATIENCE_S,
    BrokerError,
    Record,
    serve,
    to_json,
)


class Member:
    """A consumer of a group that commits what it has seen."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self.seen: list[str] = []
        self._consumer = AIOKafkaConsumer(
            topic, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest",
            enable_auto_commit=False, session_timeout_ms=10_000, heartbeat_interval_ms=200,
        )  # fmt: skip
        self._leaves = asyncio.Event()
        self._task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        await self._consumer.start()
        while not self._leaves.is_set():
            try:
                polled = await self._consumer.getmany(timeout_ms=50)
                self.seen += [r.value.decode() for records in polled.values() for r in records]
                if polled:
                    await self._consumer.commit()
            except KafkaError:
                pass  # a rebalance, or the broker restarts: the next commit has these records too
        await self._consumer.stop()

    async def leave(self) -> None:
        self._leaves.set()
        await self._task


class Aiokafka:
    """Calls by the names of the protocol."""

    def __init__(self, bootstrap: str) -> None:
        self._common = {
            "bootstrap_servers": bootstrap,
            "request_timeout_ms": int(PATIENCE_S * 1000),
        }
        self._bootstrap = bootstrap
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._members: dict[str, Member] = {}
        self._admin = self._run(self._connected())

    def _run(self, wanted: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(wanted, self._loop).result()

    async def _connected(self) -> AIOKafkaAdminClient:
        admin = AIOKafkaAdminClient(**self._common)
        await admin.start()
        return admin

    def hello(self) -> dict[str, str]:
        return {"version": aiokafka.__version__}

    def code(self, error: Exception) -> int | None:
        return error.errno if isinstance(error, BrokerResponseError) else None

    def create(self, topics: list[str], partitions: int, config: dict[str, str]) -> None:
        new = [NewTopic(topic, partitions, 1, topic_configs=config) for topic in topics]
        answer = self._run(self._admin.create_topics(new))
        for row in answer.topic_errors:
            _check(row[1])

    def delete(self, topics: list[str]) -> None:
        for row in self._run(self._admin.delete_topics(topics)).topic_error_codes:
            _check(row[1])

    def topics(self) -> list[str]:
        return list(self._run(self._admin.list_topics()))

    def partitions(self, topic: str) -> int:
        return len(self._run(self._admin.describe_topics([topic]))[0]["partitions"])

    def config(self, topic: str, name: str) -> str:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs={name: None})
        [answer] = self._run(self._admin.describe_configs([resource]))
        return next(entry[1] for entry in answer.resources[0][4] if entry[0] == name)

    def delete_records(self, topic: str, before: int) -> int:
        place = TopicPartition(topic, 0)
        wanted = {place: RecordsToDelete(before_offset=before)}
        return int(self._run(self._admin.delete_records(wanted))[place])

    def write(self, **request: Any) -> None:
        self._run(self._write(**request))

    async def _write(
        self, topic: str, records: list[Record], codec: str, acks: int, idempotent: bool,
        pause_ms: int = 0,
    ) -> None:  # fmt: skip
        producer = AIOKafkaProducer(
            **self._common, compression_type=None if codec == "none" else codec,
            acks="all" if acks < 0 else acks, enable_idempotence=idempotent,
            max_request_size=2_000_000,
        )  # fmt: skip
        async with producer:
            sent = []
            for record in records:
                sent.append(await producer.send(
                    topic, value=record.value, key=record.key, headers=list(record.headers),
                    timestamp_ms=record.timestamp, partition=record.partition,
                ))  # fmt: skip
                if pause_ms:
                    await sent[-1]
                    await asyncio.sleep(pause_ms / 1000)
            await asyncio.gather(*sent)

    def transact(self, name: str, topic: str, transactions: list[dict[str, Any]]) -> None:
        self._run(self._transact(name, topic, transactions))

    async def _transact(self, name: str, topic: str, transactions: list[dict[str, Any]]) -> None:
        async with AIOKafkaProducer(**self._common, transactional_id=name) as producer:
            for transaction in transactions:
                await producer.begin_transaction()
                for value in transaction["values"]:
                    await producer.send_and_wait(topic, value.encode(), partition=0)
                if transaction["commit"]:
                    await producer.commit_transaction()
                else:
                    await producer.abort_transaction()

    def read(self, **request: Any) -> list[dict[str, Any]]:
        return list(self._run(self._read(**request)))

    async def _read(
        self, topic: str, start: int, count: int, committed: bool
    ) -> list[dict[str, Any]]:
        isolation = "read_committed" if committed else "read_uncommitted"
        consumer = AIOKafkaConsumer(
            **self._common, auto_offset_reset="none", isolation_level=isolation
        )
        place = TopicPartition(topic, 0)
        found: list[dict[str, Any]] = []
        async with consumer, asyncio.timeout(PATIENCE_S):
            consumer.assign([place])
            consumer.seek(place, start)
            while len(found) < count:
                for r in (await consumer.getmany(timeout_ms=200)).get(place, []):
                    one = Record(0, r.key, r.value, tuple(r.headers), r.timestamp, r.offset)
                    found.append(to_json(one))
        return found

    def ends(self, topic: str) -> list[int]:
        async def both(consumer: AIOKafkaConsumer, place: TopicPartition) -> list[int]:
            first, end = (
                await consumer.beginning_offsets([place]),
                await consumer.end_offsets([place]),
            )
            return [first[place], end[place]]

        return list(self._run(self._asked(topic, both)))

    def offset_at(self, topic: str, timestamp: int) -> int:
        async def found(consumer: AIOKafkaConsumer, place: TopicPartition) -> int:
            return int((await consumer.offsets_for_times({place: timestamp}))[place].offset)

        return int(self._run(self._asked(topic, found)))

    async def _asked(self, topic: str, question: Any) -> Any:
        async with AIOKafkaConsumer(**self._common) as consumer:
            return await question(consumer, TopicPartition(topic, 0))

    def join(self, member: str, group: str, topic: str, assignor: str) -> None:
        async def joined() -> Member:
            return Member(self._bootstrap, group, topic)

        self._members[member] = self._run(joined())

    def seen(self, member: str) -> list[str]:
        return self._members[member].seen

    def leave(self, member: str) -> list[str]:
        left = self._members.pop(member)
        self._run(left.leave())
        return left.seen

    def groups(self) -> list[str]:
        return [name for name, _ in self._run(self._admin.list_consumer_groups())]

    def describe_group(self, group: str) -> dict[str, Any]:
        [answer] = self._run(self._admin.describe_consumer_groups([group]))
        described = answer.groups[0]
        return {"state": described[2], "members": len(described[5])}

    def committed(self, group: str, topic: str) -> int:
        offsets = self._run(self._admin.list_consumer_group_offsets(group))
        return sum(found.offset for place, found in offsets.items() if place.topic == topic)


def _check(code: int) -> None:
    if code:
        raise BrokerError(code, for_code(code).__name__)


if __name__ == "__main__":
    serve(Aiokafka)
