"""A broker that leads some partitions over real logs, with work that a test can hold back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from kbroker.config.replication_config import ReplicationConfig
from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.partition.log import Log
from kbroker.log.producers.log_append_info import AppendOrigin
from kbroker.model import LeaderAndIsr, ReplicaAssignment, TopicPartition
from kbroker.record.record_stream import Pace
from kbroker.replication.long_work import LongWork
from kbroker.replication.partitions.partition import Partition
from kbroker.replication.waiting.purgatories import Purgatories, running_loop_future
from kbroker.replication.writes.appends import Appends, Results
from tests.fakes.logs.log_maker import NOW_MS, FixedClock


class HeldWork(LongWork):
    """Does nothing until the test says so, and then one piece at a time, on the test's thread."""

    def __init__(self) -> None:
        super().__init__()
        self._gate = asyncio.Semaphore(0)
        self.asked = 0
        self.least_bytes = 0  # of the work that was asked for last
        self.bug: Exception | None = None  # what the work ends in as long as it is set

    async def run(self, work: Callable[[Any, Pace], Any], given: Any, least_bytes: int = 0) -> Any:
        self.asked += 1
        self.least_bytes = least_bytes
        await self._gate.acquire()
        if self.bug is not None:
            raise self.bug
        return work(given, _no_pace)

    async def let_through(self, count: int = 1) -> None:
        for _ in range(count):
            self._gate.release()
        await settled()


def _no_pace(_size_bytes: int) -> None:
    pass


async def settled() -> None:
    """Everything that can go on has gone on."""
    for _ in range(20):
        await asyncio.sleep(0)


class _NoTimer:
    def call_later(self, _delay_ms: float, _callback: Callable[[], None]) -> Any:
        return self

    def cancel(self) -> None:
        pass


class LongAppendsBroker:
    def __init__(self, logs: dict[TopicPartition, Log], work: LongWork | None = None) -> None:
        self.partitions = {where: Partition(where, log, 0) for where, log in logs.items()}
        self.work: Any = work or LongWork()
        self.woken: list[TopicPartition] = []
        hosted: Any = self
        clock: Any = FixedClock()
        timer: Any = _NoTimer()
        fetches: Any = self
        waiting = Purgatories(clock, timer, ReplicationConfig(), running_loop_future)
        waiting.fetches = fetches
        self.appends = Appends(hosted, clock, waiting, self.work)
        for where in logs:
            self.lead(where, 0)

    def lead(
        self,
        where: TopicPartition,
        leader_epoch: int,
        *,
        leader: int = 0,
        isr: tuple[int, ...] | None = None,
    ) -> None:
        isr = isr or (leader,)
        change = LeaderAndIsr(
            leader=leader, leader_epoch=leader_epoch, isr=isr, partition_epoch=leader_epoch
        )
        assignment = ReplicaAssignment(replicas=(0, 1)[: 1 + max(isr)])
        partition = self.partitions[where]
        if leader == 0:
            partition.make_leader(change, assignment, 1, NOW_MS)
        else:
            partition.make_follower(change, assignment, 1)

    def find(self, where: TopicPartition) -> Partition | None:
        return self.partitions.get(where)

    def get(self, where: TopicPartition) -> Partition:
        if where not in self.partitions:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return self.partitions[where]

    def check_and_complete(self, where: TopicPartition) -> None:
        self.woken.append(where)

    async def append(
        self,
        entries: Sequence[tuple[TopicPartition, bytes | bytearray]],
        origin: AppendOrigin = AppendOrigin.CLIENT,
        acks: int = 1,
    ) -> Results:
        found = self.appends.append_records(
            [(where, bytearray(data)) for where, data in entries], acks, 1_000, origin
        )
        return await found.settled if found.settled else found.results
