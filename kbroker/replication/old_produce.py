"""Appends for producers of versions 0 to 2: what takes long to convert is converted on a thread.

Law: a set that is compressed or large is put into a batch of format 2 on a worker thread, one at a
time for the whole broker, and is appended like any other batch then. Small plain sets are
converted by the log itself, as are sets for topics of an old format.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from kbroker.clock import Clock
from kbroker.errors import KafkaError
from kbroker.log.log_append import AppendRules
from kbroker.log.log_append_info import AppendOrigin
from kbroker.log.message_set_append import Place, as_one_batch
from kbroker.model import TopicPartition
from kbroker.record.compression import COMPRESSION_MASK
from kbroker.record.record_batch import MAGIC
from kbroker.replication.hosted_partitions import HostedPartitions
from kbroker.replication.produce_result import PartitionProduceResult

Entries = Sequence[tuple[TopicPartition, memoryview | bytearray]]
Results = list[PartitionProduceResult]
Append = Callable[[Entries, int, int, AppendOrigin], Results | Awaitable[Results]]

_AT_ONCE_BYTES_MAX = 16 * 1024
_MAGIC_POSITION = 16
_ATTRIBUTES_POSITION = 17  # of a message of format 0 or 1


class OldProduce:
    """Owned by the event loop."""

    def __init__(self, hosted: HostedPartitions, clock: Clock, append: Append) -> None:
        self._hosted = hosted
        self._clock = clock
        self._append = append
        self._turn = asyncio.Lock()

    def append_records(
        self, entries: Entries, required_acks: int, timeout_ms: int
    ) -> Results | Awaitable[Results]:
        """As `append_records` of the ReplicaManager, for any number of messages of any format."""
        if any(_takes_long(records) for _, records in entries):
            return self._append_later(entries, required_acks, timeout_ms)
        return self._append(entries, required_acks, timeout_ms, AppendOrigin.OLD_CLIENT)

    async def _append_later(self, entries: Entries, required_acks: int, timeout_ms: int) -> Results:
        ready: list[tuple[TopicPartition, memoryview | bytearray]] = []
        refused: Results = []
        for topic_partition, records in entries:
            try:
                ready.append((topic_partition, await self._converted(topic_partition, records)))
            except KafkaError as error:
                refused.append(PartitionProduceResult(topic_partition, error.code))
        results = self._append(ready, required_acks, timeout_ms, AppendOrigin.OLD_CLIENT)
        return refused + (results if isinstance(results, list) else await results)

    async def _converted(
        self, topic_partition: TopicPartition, records: memoryview | bytearray
    ) -> memoryview | bytearray:
        partition = self._hosted.find(topic_partition)
        if partition is None or not _takes_long(records):
            return records
        rules = AppendRules.of(partition.log.config, walks_records=False)
        if rules.magic != MAGIC:
            return records
        place = Place(topic_partition, 0, -1, self._clock.now_ms())
        async with self._turn:
            return await asyncio.to_thread(as_one_batch, records, rules, place)


def _takes_long(records: memoryview | bytearray) -> bool:
    if len(records) <= _ATTRIBUTES_POSITION or records[_MAGIC_POSITION] >= MAGIC:
        return False
    is_compressed = records[_ATTRIBUTES_POSITION] & COMPRESSION_MASK
    return bool(is_compressed) or len(records) > _AT_ONCE_BYTES_MAX
