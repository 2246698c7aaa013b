"""A coordinator of sums, to show that the runtime knows nothing of groups.

record = key, the sum in decimal; a tombstone where it is forgotten
"""

from __future__ import annotations

from collections.abc import Generator, Iterable

from kbroker.coordinator.runtime.batch_append import BatchAppend
from kbroker.coordinator.runtime.coordinator_runtime import CoordinatorRuntime
from kbroker.coordinator.runtime.effects import KeyValue
from kbroker.coordinator.runtime.shard import Shard
from kbroker.coordinator.runtime.timeline import TimelineDict
from kbroker.errors import ErrorCode
from kbroker.model import TopicPartition
from tests.fakes.brokers.group_broker import OffsetsLog, OffsetsPartition, OffsetsReplicas
from tests.fakes.running.virtual_time import VirtualTime

TOPIC = "__tally"
PARTITION = TopicPartition(TOPIC, 0)


class TallyMachine:
    """The sums of one partition; each addition rests on the one before."""

    def __init__(self, shard: Shard[TallyMachine]) -> None:
        self.sums: TimelineDict[str, int] = TimelineDict(shard.timeline)
        self.events: list[str] = []

    def decide(self, key: str, number: int) -> tuple[KeyValue, int]:
        """The record of an addition, and the sum that is answered."""
        total = self.sums.get(key, 0) + number
        return KeyValue(key.encode(), b"%d" % total), total

    def record(
        self, key: bytes | None, value: bytes | None, batch_offset: int, producer_id: int | None
    ) -> None:
        """One for both: what is read at the start, and what was written just now."""
        name = (key or b"").decode()
        if value is None:
            self.sums.pop(name, None)
        else:
            self.sums[name] = int(value)

    def marker(self, producer_id: int, is_commit: bool) -> None:
        raise AssertionError("nobody adds in transactions")

    def open_producers(self) -> Iterable[int]:
        return ()

    def finish_load(self) -> Generator[None, None, bool]:
        yield from ()
        return True

    def on_loaded(self) -> None:
        self.events.append("loaded")

    def on_resigned(self) -> None:
        self.events.append("resigned")


class Tally:
    """The coordinator: its runtime, and what was answered."""

    def __init__(self, *logs: OffsetsLog) -> None:
        self.time = VirtualTime()
        self.replicas = OffsetsReplicas()
        append = BatchAppend(self.replicas, self.time, required_acks=-1, timeout_ms=5000)
        self.runtime: CoordinatorRuntime[TallyMachine] = CoordinatorRuntime(
            TOPIC, append, self.time, self.time, lambda: 1
        )
        self.answers: list[tuple[ErrorCode, int]] = []
        self.lead(*logs)

    def lead(self, log: OffsetsLog | None = None, epoch: int = 0) -> None:
        log = log or self.replicas.logs.get(PARTITION) or OffsetsLog()
        self.replicas.logs[PARTITION] = log
        self.partition = OffsetsPartition(PARTITION, log, epoch)
        self.runtime.on_leadership_change([self.partition], [], TallyMachine)

    def move(self) -> None:
        """A copy takes the log's place."""
        log = OffsetsLog(bytes(self.log.data))
        self.replicas.logs[PARTITION] = self.partition.log = log

    def resign(self) -> None:
        partition = OffsetsPartition(PARTITION, self.log)
        self.runtime.on_leadership_change([], [partition], TallyMachine)

    @property
    def log(self) -> OffsetsLog:
        return self.replicas.logs[PARTITION]

    @property
    def shard(self) -> Shard[TallyMachine]:
        shard = self.runtime.shard_for("any")
        assert shard is not None
        return shard

    @property
    def machine(self) -> TallyMachine:
        machine = self.shard.machine
        assert machine is not None
        return machine

    def add(self, key: str, number: int) -> None:
        machine = self.machine
        (name, value), total = machine.decide(key, number)
        self.shard.write(
            [KeyValue(name, value)],
            lambda offset: machine.record(name, value, offset, None),
            lambda error: self.answers.append((error, total)),
        )
