"""Replicas of `__consumer_offsets` that refuse, delay and lose count, as a seed says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from random import Random

from kbroker.errors import ErrorCode
from kbroker.log.producers.log_append_info import AppendOrigin
from kbroker.model import TopicPartition
from kbroker.replication.partitions.produce_result import AppendOutcome, PartitionProduceResult
from tests.fakes.brokers.group_broker import OffsetsReplicas
from tests.fakes.clusters.replication import Replication

_REFUSALS = (
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.MESSAGE_TOO_LARGE,
)
Entries = Sequence[tuple[TopicPartition, memoryview | bytearray]]
Results = list[PartitionProduceResult]


class FickleReplicas(OffsetsReplicas):
    """Appends at once, or later, or never; `wake` lets the oldest that waits go on."""

    def __init__(self, random: Random) -> None:
        super().__init__(Replication.IMMEDIATE)
        self._random = random
        # Lets a write go on; with a code it ends with that, and never reaches the log.
        self.waiting: list[Callable[[ErrorCode], None]] = []
        self.is_calm = False

    def append_records(
        self, entries: Entries, required_acks: int, timeout_ms: int, origin: AppendOrigin
    ) -> AppendOutcome:
        chance = 1.0 if self.is_calm or not required_acks else self._random.random()
        if chance > 0.45:
            return super().append_records(entries, required_acks, timeout_ms, origin)
        if chance < 0.1:
            refusal = self._random.choice(_REFUSALS)
            return AppendOutcome([PartitionProduceResult(entries[0][0], refusal)])
        future: asyncio.Future[Results]
        future = asyncio.get_running_loop().create_future()
        if chance < 0.25:
            self.waiting.append(lambda code: self._append_late(entries, future, code))
            return AppendOutcome([], future)
        results = [self._append(partition, memoryview(batch)) for partition, batch in entries]
        self.waiting.append(lambda code: self._confirm_late(results, future, code))
        return AppendOutcome(results, future)

    def wake(self) -> bool:
        """Let one go on; returns false if none waits."""
        if not self.waiting:
            return False
        self.waiting.pop(0)(ErrorCode.NONE)
        return True

    def depose(self) -> None:
        """Another broker leads: whatever waits for the log, or for followers, has failed."""
        for go_on in self.waiting:
            go_on(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.waiting.clear()

    def _append_late(
        self, entries: Entries, future: asyncio.Future[Results], code: ErrorCode
    ) -> None:
        if code is ErrorCode.NONE and not self.is_calm and self._random.random() < 0.5:
            code = self._random.choice(_REFUSALS)
        if code is not ErrorCode.NONE:
            results = [PartitionProduceResult(entries[0][0], code)]
        else:
            results = [self._append(partition, memoryview(batch)) for partition, batch in entries]
            self._confirm(results)
        if not future.done():
            future.set_result(results)

    def _confirm_late(
        self, results: Results, future: asyncio.Future[Results], code: ErrorCode
    ) -> None:
        if code is ErrorCode.NONE and (self.is_calm or self._random.random() < 0.7):
            self._confirm(results)
        else:
            for result in results:
                result.error_code = code or ErrorCode.REQUEST_TIMED_OUT
        if not future.done():
            future.set_result(results)
