"""confluent-kafka (librdkafka)."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import Any

import confluent_kafka
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from compat_tests.matrix.serving.serve import PATIENCE_S, Record, serve, to_json

ASSIGNORS = {"eager": "range,roundrobin", "cooperative": "cooperative-sticky"}
OFFSET_OUT_OF_RANGE = 1


class Member(threading.Thread):
    """A consumer of a group that commits what it has seen."""

    def __init__(self, bootstrap: str, group: str, topic: str, settings: dict[str, Any]) -> None:
        super().__init__(daemon=True)
        self.seen: list[str] = []
        self.leaves = threading.Event()
        self._topic = topic
        self._consumer = Consumer({
            "bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest",
            "enable.auto.commit": False, "topic.metadata.refresh.interval.ms": 1_000, "log_level": 0,
            **settings,
        })  # fmt: skip
        self.start()

    def run(self) -> None:
        self._consumer.subscribe([self._topic])
        while not self.leaves.is_set():
            found = [m for m in self._consumer.consume(100, 0.05) if m.error() is None]
            self.seen += [m.value().decode() for m in found]
            if found:
                self._commit()
        self._consumer.close()

    def _commit(self) -> None:
        # In a rebalance, or while the broker restarts: the next commit has these records too.
        with suppress(KafkaException):
            self._consumer.commit(asynchronous=False)


class ConfluentKafka:
    """Calls by the names of the protocol."""

    def __init__(self, bootstrap: str) -> None:
        self._common = {"bootstrap.servers": bootstrap, "log_level": 0}
        self._bootstrap = bootstrap
        self._admin = AdminClient(self._common)
        self._members: dict[str, Member] = {}

    def hello(self) -> dict[str, str]:
        return {"version": confluent_kafka.__version__}

    def code(self, error: Exception) -> int | None:
        inner = error.args[0] if error.args and isinstance(error, KafkaException) else None
        if not isinstance(inner, KafkaError):
            return None
        if inner.code() == KafkaError._AUTO_OFFSET_RESET and "out of range" in inner.str():
            return OFFSET_OUT_OF_RANGE
        return int(inner.code())

    def create(self, topics: list[str], partitions: int, config: dict[str, str]) -> None:
        wanted = [NewTopic(topic, partitions, config=config) for topic in topics]
        for made in self._admin.create_topics(wanted).values():
            made.result(PATIENCE_S)

    def delete(self, topics: list[str]) -> None:
        for gone in self._admin.delete_topics(topics).values():
            gone.result(PATIENCE_S)

    def topics(self) -> list[str]:
        return list(self._admin.list_topics(timeout=PATIENCE_S).topics)

    def partitions(self, topic: str) -> int:
        return len(self._admin.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions)

    def config(self, topic: str, name: str) -> str:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        described = self._admin.describe_configs([resource])[resource].result(PATIENCE_S)
        return str(described[name].value)

    def delete_records(self, topic: str, before: int) -> int:
        partition = TopicPartition(topic, 0, before)
        return int(
            self._admin.delete_records([partition])[partition].result(PATIENCE_S).low_watermark
        )

    def write(
        self, topic: str, records: list[Record], codec: str, acks: int, idempotent: bool,
        pause_ms: int = 0,
    ) -> None:  # fmt: skip
        producer = Producer({
            **self._common, "compression.type": codec, "acks": acks, "enable.idempotence": idempotent,
            "linger.ms": 5, "message.timeout.ms": int(PATIENCE_S * 1000),
            "message.max.bytes": 2_000_000,
        })  # fmt: skip
        errors: list[KafkaError] = []
        for record in records:
            more = {} if record.timestamp is None else {"timestamp": record.timestamp}
            producer.produce(
                topic, value=record.value, key=record.key, headers=list(record.headers),
                partition=record.partition, **more,
                on_delivery=lambda error, _: errors.append(error) if error else None,
            )  # fmt: skip
            producer.poll(0)
            if pause_ms:
                producer.flush(PATIENCE_S)
                time.sleep(pause_ms / 1000)
        left = producer.flush(PATIENCE_S)
        if errors:
            raise KafkaException(errors[0])
        assert left == 0, f"{left} records are not delivered"

    def transact(self, name: str, topic: str, transactions: list[dict[str, Any]]) -> None:
        producer = Producer({**self._common, "transactional.id": name})
        producer.init_transactions(PATIENCE_S)
        for transaction in transactions:
            producer.begin_transaction()
            for value in transaction["values"]:
                producer.produce(topic, value=value, partition=0)
            producer.flush(PATIENCE_S)
            (producer.commit_transaction if transaction["commit"] else producer.abort_transaction)(
                PATIENCE_S
            )

    def _consumer(self, **settings: object) -> Consumer:
        return Consumer({
            **self._common, "group.id": "unused", "enable.auto.commit": False,
            "auto.offset.reset": "error", **settings,
        })  # fmt: skip

    def read(
        self, topic: str, start: int, count: int, committed: bool, partition: int = 0
    ) -> list[dict[str, Any]]:
        isolation = "read_committed" if committed else "read_uncommitted"
        consumer = self._consumer(**{"isolation.level": isolation})
        consumer.assign([TopicPartition(topic, partition, start)])
        found: list[dict[str, Any]] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(found) < count:
            assert time.monotonic() < deadline, f"{len(found)} of {count} records came"
            for message in consumer.consume(count - len(found), timeout=0.2):
                if message.error() is not None:
                    raise KafkaException(message.error())
                record = Record(
                    partition, message.key(), message.value(), tuple(message.headers() or ()),
                    message.timestamp()[1], message.offset(),
                )  # fmt: skip
                found.append(to_json(record))
        consumer.close()
        return found

    def ends(self, topic: str) -> list[int]:
        consumer = self._consumer()
        found = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=PATIENCE_S)
        consumer.close()
        return list(found)

    def offset_at(self, topic: str, timestamp: int) -> int:
        consumer = self._consumer()
        [found] = consumer.offsets_for_times([TopicPartition(topic, 0, timestamp)], PATIENCE_S)
        consumer.close()
        return int(found.offset)

    def join(
        self, member: str, group: str, topic: str, assignor: str, instance: str = "", pattern: str = ""
    ) -> None:  # fmt: skip
        settings: dict[str, Any] = {"group.protocol": "consumer"}
        if assignor in ASSIGNORS:
            settings = {
                "partition.assignment.strategy": ASSIGNORS[assignor],
                "session.timeout.ms": 10_000, "heartbeat.interval.ms": 200,
            }  # fmt: skip
        if instance:
            settings["group.instance.id"] = instance
        self._members[member] = Member(self._bootstrap, group, pattern or topic, settings)

    def seen(self, member: str) -> list[str]:
        return self._members[member].seen

    def leave(self, member: str) -> list[str]:
        left = self._members.pop(member)
        left.leaves.set()
        left.join(PATIENCE_S)
        return left.seen

    def groups(self) -> list[str]:
        listed = self._admin.list_consumer_groups().result(PATIENCE_S)
        return [group.group_id for group in listed.valid]

    def describe_group(self, group: str) -> dict[str, Any]:
        described = self._admin.describe_consumer_groups([group])[group].result(PATIENCE_S)
        return {"state": described.state.name, "members": len(described.members)}

    def committed(self, group: str, topic: str) -> int:
        request = [ConsumerGroupTopicPartitions(group)]
        answer = self._admin.list_consumer_group_offsets(request)[group].result(PATIENCE_S)
        return sum(p.offset for p in answer.topic_partitions if p.topic == topic and p.offset > 0)

    def delete_group(self, group: str) -> None:
        self._admin.delete_consumer_groups([group])[group].result(PATIENCE_S)


if __name__ == "__main__":
    serve(ConfluentKafka)
