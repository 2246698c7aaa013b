"""Appends records to a partition of an internal topic as one batch, and reports how it ended.

Law: every append ends with an answer, because somebody waits for it. It is done when enough
replicas have it (after the high watermark has passed it, with acks -1).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol

from kbroker.clock import Clock
from kbroker.coordinator.runtime.effects import KeyValue
from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.producers.log_append_info import AppendOrigin
from kbroker.model import TopicPartition
from kbroker.record.built_batch import build_at_one_time
from kbroker.record.record_batch import BatchOptions
from kbroker.replication.partitions.produce_result import AppendOutcome, PartitionProduceResult

_log = logging.getLogger(__name__)

OFFSET_BATCH = BatchOptions(base_sequence=0)  # Kafka's coordinator numbers batches of commits
METADATA_BATCH = BatchOptions()
_COORDINATOR = AppendOrigin.COORDINATOR  # a look into the class costs 70 ns

Results = list[PartitionProduceResult]


class Replicas(Protocol):
    """The part of ReplicaManager that coordinators use."""

    def append_records(
        self,
        entries: Sequence[tuple[TopicPartition, memoryview | bytearray]],
        required_acks: int,
        timeout_ms: int,
        origin: AppendOrigin,
    ) -> AppendOutcome:
        """Append one batch to each partition; one result for each."""
        ...


class BatchAppend:
    """Owned by the event loop."""

    def __init__(
        self, replicas: Replicas, clock: Clock, *, required_acks: int, timeout_ms: int
    ) -> None:
        self._replicas = replicas
        self._now_ms = clock.now_ms
        self.required_acks = required_acks
        self._timeout_ms = timeout_ms

    def append(
        self,
        partition: TopicPartition,
        records: Sequence[KeyValue],
        options: BatchOptions,
        required_acks: int,
    ) -> PartitionProduceResult | asyncio.Future[Results]:
        """Return the result, or a future for `result_of` if something has to be waited for."""
        now_ms = self._now_ms()
        try:
            batch = build_at_one_time(records, now_ms, options)
            results, settled, _ = self._replicas.append_records(
                [(partition, batch)], required_acks, self._timeout_ms, _COORDINATOR
            )
        except KafkaError as error:
            return PartitionProduceResult(partition, error.code)
        except Exception:
            _log.exception("Append to %s failed", partition)
            return PartitionProduceResult(partition, ErrorCode.UNKNOWN_SERVER_ERROR)
        return results[0] if settled is None else settled


def result_of(future: asyncio.Future[Results], partition: TopicPartition) -> PartitionProduceResult:
    """Return how an append ended that had to be waited for; base offset -1 if it was not made."""
    if future.cancelled():
        return PartitionProduceResult(partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    error = future.exception()
    if error is None:
        return future.result()[0]
    if isinstance(error, KafkaError):
        return PartitionProduceResult(partition, error.code)
    _log.error("Append to %s failed", partition, exc_info=error)
    return PartitionProduceResult(partition, ErrorCode.UNKNOWN_SERVER_ERROR)
