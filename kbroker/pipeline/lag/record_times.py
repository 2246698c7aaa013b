"""When the next record that a group will read was written: read from the record itself.

No request tells the timestamp at an offset, so the record is fetched. One consumer asks each leader
for many partitions at once; what a batch holds besides is not decoded.

Law: bounded in time. A partition that does not answer in time has no timestamp, and nothing waits
for it: a look at lag must not hang on one broker.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from itertools import islice
from typing import Any, cast

from kafka.errors import CorruptRecordError, UnsupportedCodecError
from kafka.structs import TopicPartition

from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.connection import client_options
from kbroker.client.fetched_batches import record_lists
from kbroker.client.library_consumer import library_consumer
from kbroker.client.next_batches import next_batches
from kbroker.model import TopicPartition as ModelPartition

# Two batches of a producer with default settings. A larger one is answered only as the first of
# its fetch, so it takes a round trip of its own.
_PARTITION_BYTES = 32_768
_FETCH_BYTES = 16 << 20
_FETCH_WAIT_MS = 100
_PARTITIONS_AT_ONCE = 100  # the client goes through all of its partitions for every record
DEADLINE_S = 10.0
_CANNOT_READ = (CorruptRecordError, UnsupportedCodecError)

Positions = Mapping[TopicPartition, Collection[int]]
Times = dict[tuple[TopicPartition, int], int | None]


def consumer_options(bootstrap: str) -> dict[str, Any]:
    """Settings of a `KafkaConsumer` that reads one record here and there, and is in no group."""
    return {
        "client_id": "kbroker-lag",
        "group_id": None,
        "enable_auto_commit": False,
        "auto_offset_reset": "earliest",  # where retention took the record meanwhile
        "max_partition_fetch_bytes": _PARTITION_BYTES,
        "fetch_max_bytes": _FETCH_BYTES,
        "fetch_max_wait_ms": _FETCH_WAIT_MS,
    } | client_options(bootstrap)


@contextmanager
def lag_consumer(bootstrap: str) -> Iterator[Any]:
    """Such a consumer, closed afterwards."""
    opened = library_consumer(**consumer_options(bootstrap))
    try:
        yield _LagConsumer(opened, bootstrap)
    finally:
        opened.close()


class _LagConsumer:
    """A `KafkaConsumer` that also reads what the library cannot, such as names of headers that are
    not UTF-8, where it has one partition: the library does not say of which it speaks.
    """

    def __init__(self, consumer: Any, bootstrap: str) -> None:
        self._consumer, self._bootstrap = consumer, bootstrap

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)

    def poll(self, timeout_ms: int, max_records: int) -> Mapping[TopicPartition, Sequence[Any]]:
        """As the library's."""
        try:
            return cast(
                "Mapping[TopicPartition, Sequence[Any]]",
                self._consumer.poll(timeout_ms=timeout_ms, max_records=max_records),
            )
        except _CANNOT_READ:
            assigned = self._consumer.assignment()
            records = self._read_exactly(*assigned) if len(assigned) == 1 else []
            if not records:
                raise
            return {next(iter(assigned)): records}

    def _read_exactly(self, partition: TopicPartition) -> Sequence[Any]:
        place, at = ModelPartition(*partition), self._consumer.position(partition)
        with closing(ClusterLinks(self._bootstrap)) as links:
            batches = next_batches(links, {place: at}, only_committed=False)
            lists = (some for batch in batches for some in record_lists(batch, lambda _: None))
            return next(lists, [])


def record_times(
    open_consumer: Callable[[], AbstractContextManager[Any]],
    positions: Positions,
    ends: Mapping[TopicPartition, int],
    clock: Callable[[], float] = time.monotonic,
) -> Times:
    """Timestamp (Unix ms) of the first record at or after each position.

    None where no record follows before the end: only markers of transactions, or holes that
    compaction left. A position that was not answered in time, or where a batch stands that cannot
    be read, is not in the result.
    """
    deadline = clock() + DEADLINE_S
    found: Times = {}
    # A consumer that comes back to a partition first goes through what it kept of the visit before:
    # the second place in a partition is read by a second consumer.
    for index in range(max(map(len, positions.values()), default=0)):
        places = (
            (partition, sorted(offsets)[index])
            for partition, offsets in positions.items()
            if index < len(offsets)
        )
        with open_consumer() as consumer:
            while part := dict(islice(places, _PARTITIONS_AT_ONCE)):
                _read(consumer, part, ends, found, lambda: clock() < deadline)
    return found


def _read(
    consumer: Any,
    wanted: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    found: Times,
    has_time: Callable[[], bool],
) -> None:
    consumer.assign(list(wanted))
    for partition, offset in wanted.items():
        consumer.seek(partition, offset)
    waiting = dict(wanted)
    while waiting and has_time():
        # One record: the rest of its batch stays undecoded when the partition is paused.
        try:
            answer = consumer.poll(timeout_ms=_FETCH_WAIT_MS, max_records=1)
        except _CANNOT_READ:  # the client says not where
            for partition, offset in waiting.items() if len(wanted) > 1 else ():
                _read(consumer, {partition: offset}, ends, found, has_time)
            return
        for partition, records in answer.items():
            if records and partition in waiting:
                timestamp = records[0].timestamp
                found[partition, waiting.pop(partition)] = timestamp if timestamp >= 0 else None
                consumer.pause(partition)
        if not answer:  # markers and holes move a consumer on without a record
            for partition in [p for p in waiting if consumer.position(p) >= ends[p]]:
                found[partition, waiting.pop(partition)] = None
                consumer.pause(partition)
