"""Three brokers with three replicas of each partition, whose topics and roles change while they are
written to: settings, leaders, replicas that fall behind, restarts, kills. The writers are idempotent,
transactional and as old as message format 1. After each change every replica gets in sync; at the end
every acknowledged record is read once and in order from each of the replicas, by a new consumer and
by one of Kafka 0.10, and nothing of an aborted transaction is.

    python -m compat_tests.cluster.changing_rounds --changes 100
"""

from __future__ import annotations

import argparse
import logging
import random
import tempfile
from array import array
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from kafka import KafkaConsumer
from kafka import TopicPartition as OldPartition

from compat_tests.clients.transactional_writer import TransactionalWriter
from compat_tests.clients.writers import (
    NOTHING,
    PARTITIONS,
    LibrdkafkaWriter,
    OldFormatWriter,
    Places,
    Writer,
)
from compat_tests.cluster.processes import Cluster
from compat_tests.cluster.replicas import (
    SETTINGS,
    await_in_sync,
    await_leaders_without,
    create,
    elect_preferred,
    reassign,
)
from compat_tests.faults.kill_rounds import check, read_all
from compat_tests.running.waiting import until
from compat_tests.running.zookeeper_servers import zookeeper_servers
from compat_tests.wire.wire_client import INCREMENTAL_ALTER_CONFIGS, code

CLEANER = {"log.cleaner.backoff.ms": "300"}
LARGE_BYTES, SMALL_LIMIT_BYTES = 150_000, 100_000
TOPIC, SET, DELETE = 2, 0, 1
# Settings, or what else is done.
CHANGES = (
    "message.timestamp.type=LogAppendTime", "message.timestamp.type=CreateTime",
    "compression.type=gzip", "compression.type=lz4", "compression.type=uncompressed",
    "compression.type=producer", "cleanup.policy=compact,delete", "cleanup.policy=delete",
    "compact", "lower_the_limit", "require_all", "move_leaders", "restart", "kill_and_start",
    "kill_leader", "read_as_of_old",
)  # fmt: skip


class ChangingRounds:
    """Three topics under load. `run` raises AssertionError at the first broken promise."""

    def __init__(self, cluster: Cluster, name: str, seed: int, records_per_s: int = 300) -> None:
        self.cluster = cluster
        self.changes: Counter[str] = Counter()
        self._draw = random.Random(seed)
        self.topics = [f"{name}-{kind}" for kind in ("idempotent", "old", "transactional")]
        for topic in self.topics:
            create(cluster, topic, *self._orders(0), segment_ms="2000",
                min_cleanable_dirty_ratio="0.01")  # fmt: skip
        idempotent, old, transactional = self.topics
        bootstrap = cluster.bootstrap
        self._idempotent = LibrdkafkaWriter(bootstrap, idempotent, records_per_s)
        self._old = OldFormatWriter(bootstrap, old, records_per_s)
        self._transactional = TransactionalWriter(bootstrap, transactional, records_per_s)
        self.writers: list[Writer] = [self._idempotent, self._old, self._transactional]

    @property
    def acknowledged(self) -> int:
        """Records of all writers."""
        return sum(writer.acknowledged.count for writer in self.writers)

    def run(self, changes: Iterable[str]) -> None:
        """Every change once, in the order given; then all records are looked for."""
        for number, change in enumerate(changes, start=1):
            self._await_more()
            setting, is_setting, value = change.partition("=")
            if is_setting:
                self._set(setting, value)
            else:
                getattr(self, f"_{change}")()
            self.changes[change] += 1
            await_in_sync(self.cluster, *self.topics)
            if number % 10 == 0:
                print(f"{number} changes: {self.told()}", flush=True)
        self._await_more()
        for writer in self.writers:
            writer.finish()
        self._check()

    # ---- the changes

    def _set(self, name: str, value: str | None) -> None:
        config = {
            "name": name,
            "config_operation": DELETE if value is None else SET,
            "value": value,
        }
        asked = [
            {"resource_type": TOPIC, "resource_name": topic, "configs": [config]}
            for topic in self.topics
        ]
        through = next(b for b in self.cluster.ids if self.cluster.is_running(b))
        with self.cluster.wire(through) as wire:
            answer = wire.call(INCREMENTAL_ALTER_CONFIGS, 1, resources=asked)
        for said in answer.responses:
            assert code(said.error_code, said.error_message) == "0"

    def _compact(self) -> None:
        """Until each topic has been cleaned somewhere."""
        self._set("cleanup.policy", "compact")
        for topic in self.topics:
            until(lambda topic=topic: self._is_cleaned(topic), f"{topic} is cleaned")  # type: ignore[misc]

    def _is_cleaned(self, topic: str) -> bool:
        notes = [b.data / "cleaner-offset-checkpoint" for b in self.cluster.brokers.values()]
        return any(f"\n{topic} " in note.read_text() for note in notes if note.exists())

    def _lower_the_limit(self) -> None:
        """A follower that fell behind gets batches that would be too large by now."""
        follower = self._draw.choice(self.cluster.ids)
        self._kill(follower)
        writer = self._idempotent
        writer.padding_bytes = LARGE_BYTES
        self._await_more(by=150)
        writer.padding_bytes = 0
        self._await_more()  # one may be about to be sent
        until(
            lambda: any(writer.last_large in values for values in writer.acknowledged.values),
            "all large records are acknowledged",
        )
        self._set("max.message.bytes", str(SMALL_LIMIT_BYTES))
        self.cluster.start(follower)
        await_in_sync(self.cluster, *self.topics)
        self._set("max.message.bytes", None)

    def _require_all(self) -> None:
        """Nothing is acknowledged while a replica is missing, until fewer are enough again."""
        self._set("min.insync.replicas", "3")
        victim = self._draw.choice(self.cluster.ids)
        self._kill(victim)
        self._set("min.insync.replicas", "2")
        self._await_more()
        self.cluster.start(victim)

    def _kill_leader(self) -> None:
        victim = self._leader()
        self._kill(victim)
        self._await_more()
        self.cluster.start(victim)

    def _kill(self, victim: int) -> None:
        self.cluster.kill(victim)
        for topic in self.topics:
            await_leaders_without(self.cluster, topic, victim)

    def _kill_and_start(self) -> None:
        victim = self._leader()
        self.cluster.kill(victim)
        self.cluster.start(victim)

    def _restart(self) -> None:
        self.cluster.restart(self._leader())

    def _move_leaders(self) -> None:
        self._lead(self._draw.randrange(1, 3))

    def _lead(self, by: int) -> None:
        """Another replica is the first of each partition, and leads."""
        for topic in self.topics:
            wanted = dict(enumerate(self._orders(by)))
            reassign(self.cluster, topic, wanted)
            elect_preferred(self.cluster, topic, *wanted)
            self.cluster.wait_for_leaders(topic, {n: ids[0] for n, ids in wanted.items()})

    def _orders(self, by: int) -> list[list[int]]:
        ids = self.cluster.ids
        turned = [(n + by) % len(ids) for n in range(PARTITIONS)]
        return [ids[first:] + ids[:first] for first in turned]

    def _leader(self) -> int:
        return self._draw.choice(sorted(set(self.cluster.tree.leaders(self.topics[0]).values())))

    # ---- what must be true

    def _read_as_of_old(self) -> None:
        """All that is acknowledged now can be read in message format 1."""
        for writer in (self._idempotent, self._old):
            wanted = [array("q", values) for values in writer.acknowledged.values]
            found = read_as_of_old(self.cluster.bootstrap, writer.topic, [len(w) for w in wanted])
            for partition, values in enumerate(wanted):
                lost = [
                    (offset, value)
                    for offset, value in enumerate(values)
                    if value not in (NOTHING, found.value_at(partition, offset))
                ]
                assert not lost, f"{writer.topic}-{partition} lost {len(lost)}, first {lost[:3]}"

    def _check(self) -> None:
        for by in range(len(self.cluster.ids)):
            self._lead(by)
            for writer in self.writers:
                found = read_all(self.cluster.bootstrap, writer.topic, has_gaps=True)
                check(writer, found)
                if writer.is_idempotent:
                    assert found.count == writer.acknowledged.count, writer.topic
        self._read_as_of_old()
        assert self._transactional.aborted
        for broker in self.cluster.brokers.values():
            assert "Traceback" not in broker.log_text(), broker.log_text()[-3000:]

    def _await_more(self, by: int = 50) -> None:
        for writer in self.writers:
            assert writer.errors == [], (writer.topic, writer.errors[:3])
            before = writer.acknowledged.count
            until(
                lambda w=writer, n=before: w.acknowledged.count > n + by,  # type: ignore[misc]
                f"more is acknowledged in {writer.topic}",
            )

    def told(self) -> str:
        """All figures."""
        return f"{dict(self.changes)}; {self.acknowledged:,} records acknowledged"


def read_as_of_old(bootstrap: str, topic: str, ends: list[int]) -> Places:
    """Read what is there before these offsets as Kafka 0.10 does: by Fetch v2, in format 1."""
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, api_version=(0, 10, 0), enable_auto_commit=False
    )
    partitions = [OldPartition(topic, number) for number in range(len(ends))]
    consumer.assign(partitions)
    for partition in partitions:
        consumer.seek(partition, 0)
    found = Places()

    def is_read() -> bool:
        for batch in consumer.poll(200).values():
            for record in batch:
                found.put(record.partition, record.offset, int(record.value))
        return all(
            consumer.position(partition) >= ends[partition.partition] for partition in partitions
        )

    until(is_read, f"{topic} is read up to {ends}")
    consumer.close()
    return found


def main() -> None:
    """Parse the options and run."""
    parser = argparse.ArgumentParser(prog="python -m compat_tests.cluster.changing_rounds")
    parser.add_argument("--changes", type=int, default=100)
    parser.add_argument("--only", default=" ".join(CHANGES), help="the changes to draw from")
    parser.add_argument("--records-per-s", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", choices=("kbroker", "apache"), default="kbroker")
    parser.add_argument("--keep", type=Path, help="where data and logs are left")
    options = parser.parse_args()
    logging.disable()  # what clients say while they try again
    draw = random.Random(options.seed)
    changes = [draw.choice(options.only.split()) for _ in range(options.changes)]
    with tempfile.TemporaryDirectory(prefix="changing-rounds-") as temporary:
        directory = options.keep or Path(temporary)
        with (
            zookeeper_servers(directory=directory / "zookeeper") as zookeeper,
            Cluster(directory, zookeeper, [options.kind] * 3, SETTINGS | CLEANER) as cluster,
        ):
            cluster.start()
            rounds = ChangingRounds(cluster, "load", options.seed, options.records_per_s)
            try:
                rounds.run(changes)
            finally:
                print(rounds.told(), flush=True)
            cluster.stop()
    print("nothing was lost, nothing was doubled, on no replica")


if __name__ == "__main__":
    main()
