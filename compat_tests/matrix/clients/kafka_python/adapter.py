"""kafka-python."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import Any

import kafka
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import KafkaError

from compat_tests.matrix.serving.serve import PATIENCE_S, Record, serve, to_json

ASSIGNORS = {"eager": RangePartitionAssignor, "cooperative": CooperativeStickyAssignor}
PATIENCE_MS = int(PATIENCE_S * 1000)
# Where a poll ends while the consumer joins, 3.0.12 may never finish: it sends no heartbeats any more,
# and keeps the partitions that it had.
POLL_MS = 3_000


class Member(threading.Thread):
    """A consumer of a group that commits what it has seen."""

    def __init__(self, bootstrap: str, group: str, topic: str, assignor: str) -> None:
        super().__init__(daemon=True)
        self.seen: list[str] = []
        self.leaves = threading.Event()
        self.failed: Exception | None = None
        self._consumer = KafkaConsumer(
            bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest",
            enable_auto_commit=False, session_timeout_ms=10_000, heartbeat_interval_ms=200,
            partition_assignment_strategy=[ASSIGNORS[assignor]],
        )  # fmt: skip
        # Where it joins before it knows the topic, a cooperative member may stay without partitions.
        self._consumer.partitions_for_topic(topic)
        self._consumer.subscribe([topic])
        self.start()

    def run(self) -> None:
        try:
            while not self.leaves.is_set():
                polled = self._poll()
                self.seen += [r.value.decode() for records in polled.values() for r in records]
                if polled:
                    self._commit()
            self._consumer.close()
        except Exception as error:  # told by `seen`
            self.failed = error

    def _poll(self) -> dict[TopicPartition, list[Any]]:
        try:
            return self._consumer.poll(timeout_ms=POLL_MS)
        except KafkaError as error:  # while the broker restarts
            if not error.retriable:
                raise
            return {}

    def _commit(self) -> None:
        # In a rebalance, or while the broker restarts: the next commit has these records too.
        with suppress(KafkaError):
            self._consumer.commit()


class KafkaPython:
    """Calls by the names of the protocol."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._admin = KafkaAdminClient(bootstrap_servers=bootstrap)
        self._members: dict[str, Member] = {}

    def hello(self) -> dict[str, str]:
        return {"version": kafka.__version__}

    def code(self, error: Exception) -> int | None:
        found = getattr(error, "errno", None)
        return found if isinstance(found, int) and isinstance(error, KafkaError) else None

    def create(self, topics: list[str], partitions: int, config: dict[str, str]) -> None:
        one = {"num_partitions": partitions, "replication_factor": -1, "configs": config}
        self._admin.create_topics(dict.fromkeys(topics, one), wait_for_metadata=True)

    def delete(self, topics: list[str]) -> None:
        self._admin.delete_topics(topics)

    def topics(self) -> list[str]:
        return list(self._admin.list_topics())

    def partitions(self, topic: str) -> int:
        return len(self._admin.describe_topics([topic])[0]["partitions"])

    def config(self, topic: str, name: str) -> str:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        described = self._admin.describe_configs([resource], config_filter="all")
        return str(_found(described, name))

    def delete_records(self, topic: str, before: int) -> int:
        partition = TopicPartition(topic, 0)
        return int(self._admin.delete_records({partition: before})[partition]["low_watermark"])

    def write(
        self, topic: str, records: list[Record], codec: str, acks: int, idempotent: bool,
        pause_ms: int = 0,
    ) -> None:  # fmt: skip
        producer = KafkaProducer(
            bootstrap_servers=self._bootstrap, linger_ms=5, enable_idempotence=idempotent,
            compression_type=None if codec == "none" else codec, acks="all" if acks < 0 else acks,
            max_request_size=2_000_000, delivery_timeout_ms=PATIENCE_MS,
        )  # fmt: skip
        sent = []
        for record in records:
            sent.append(producer.send(
                topic, value=record.value, key=record.key, headers=list(record.headers),
                timestamp_ms=record.timestamp, partition=record.partition,
            ))  # fmt: skip
            if pause_ms:
                sent[-1].get(PATIENCE_S)
                time.sleep(pause_ms / 1000)
        producer.flush(PATIENCE_S)
        for future in sent:
            future.get(PATIENCE_S)
        producer.close()

    def transact(self, name: str, topic: str, transactions: list[dict[str, Any]]) -> None:
        producer = KafkaProducer(bootstrap_servers=self._bootstrap, transactional_id=name)
        producer.init_transactions()
        for transaction in transactions:
            producer.begin_transaction()
            for value in transaction["values"]:
                producer.send(topic, value=value.encode(), partition=0).get(PATIENCE_S)
            if transaction["commit"]:
                producer.commit_transaction()
            else:
                producer.abort_transaction()
        producer.close()

    def read(
        self, topic: str, start: int, count: int, committed: bool, partition: int = 0
    ) -> list[dict[str, Any]]:
        consumer = KafkaConsumer(
            bootstrap_servers=self._bootstrap, auto_offset_reset="none",
            isolation_level="read_committed" if committed else "read_uncommitted",
        )  # fmt: skip
        place = TopicPartition(topic, partition)
        consumer.assign([place])
        consumer.seek(place, start)
        found: list[dict[str, Any]] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(found) < count:
            assert time.monotonic() < deadline, f"{len(found)} of {count} records came"
            for r in consumer.poll(timeout_ms=200).get(place, []):
                headers = tuple(r.headers)
                one = Record(partition, r.key, r.value, headers, r.timestamp, r.offset)
                found.append(to_json(one))
        consumer.close()
        return found

    def ends(self, topic: str) -> list[int]:
        consumer = KafkaConsumer(bootstrap_servers=self._bootstrap)
        place = TopicPartition(topic, 0)
        found = [
            consumer.beginning_offsets([place])[place],
            consumer.end_offsets([place])[place],
        ]
        consumer.close()
        return found

    def offset_at(self, topic: str, timestamp: int) -> int:
        consumer = KafkaConsumer(bootstrap_servers=self._bootstrap)
        place = TopicPartition(topic, 0)
        found = consumer.offsets_for_times({place: timestamp})[place]
        consumer.close()
        return -1 if found is None else int(found.offset)

    def join(self, member: str, group: str, topic: str, assignor: str) -> None:
        self._members[member] = Member(self._bootstrap, group, topic, assignor)

    def seen(self, member: str) -> list[str]:
        if (failed := self._members[member].failed) is not None:
            raise failed
        return self._members[member].seen

    def leave(self, member: str) -> list[str]:
        left = self._members.pop(member)
        left.leaves.set()
        left.join(PATIENCE_S)
        return left.seen

    def groups(self) -> list[str]:
        return [group["group_id"] for group in self._admin.list_groups()]

    def describe_group(self, group: str) -> dict[str, Any]:
        described = self._admin.describe_groups([group])[group]
        return {"state": described["group_state"], "members": len(described["members"])}

    def committed(self, group: str, topic: str) -> int:
        offsets = self._admin.list_group_offsets([group])[group]
        return sum(o.offset for place, o in offsets.items() if place.topic == topic)

    def delete_group(self, group: str) -> None:
        self._admin.delete_groups([group])


def _found(described: Any, name: str) -> Any:
    """The value of a setting, in whatever depth of the answer."""
    if isinstance(described, dict):
        if name in described:
            value = described[name]
            return value["value"] if isinstance(value, dict) else value
        described = list(described.values())
    for each in described if isinstance(described, list) else []:
        if (value := _found(each, name)) is not None:
            return value
    return None


if __name__ == "__main__":
    serve(KafkaPython)
