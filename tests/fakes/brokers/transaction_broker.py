"""A broker around a transaction coordinator.

Partitions of __transaction_state are in memory, time stands still, and markers go to a list.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from kbroker.config.transaction_config import TransactionConfig
from kbroker.coordinator.transaction.markers import SendMarkers, TransactionMarkers
from kbroker.coordinator.transaction.producer import NO_PRODUCER, Producer
from kbroker.coordinator.transaction.records import (
    expired_record,
    read_transaction,
    read_transaction_log_key,
    transaction_record,
)
from kbroker.coordinator.transaction.transaction import Transaction
from kbroker.coordinator.transaction_coordinator import (
    TransactionCoordinator,
    TransactionServices,
)
from kbroker.errors import ErrorCode, KafkaError
from kbroker.events.event import Event
from kbroker.model import TRANSACTION_STATE_TOPIC, TopicPartition
from kbroker.record.record_batch import Record, build, read_header
from kbroker.replication.metadata_cache import MetadataCache
from tests.fakes.brokers.group_broker import (
    BROKER_ID,
    OffsetsLog,
    OffsetsPartition,
    OffsetsReplicas,
    metadata_of,
)
from tests.fakes.clusters.replication import Replication
from tests.fakes.running.loop_turns import until_idle
from tests.fakes.running.virtual_time import VirtualTime

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
TIMEOUT_MS = 60_000
NOW_MS = 1_700_000_000_000
_TURNS = 30  # of the loop, until all that can go on has


class CountedIds:
    """Producer ids from 1000 on; with `waiting` they come when it is set."""

    def __init__(self) -> None:
        self.next = 1000
        self.waiting: asyncio.Event | None = None
        self.error = ErrorCode.NONE

    async def generate(self) -> int:
        if self.waiting is not None:
            await self.waiting.wait()
        if self.error is not ErrorCode.NONE:
            raise KafkaError(self.error)
        self.next += 1
        return self.next - 1


class MarkerList:
    """Takes markers at once, or with `holds` when `release` is called; `errors` come first."""

    def __init__(self) -> None:
        self.sent: list[TransactionMarkers] = []
        self.cancelled: list[TransactionMarkers] = []
        self.errors: list[Exception] = []
        self.holds = False
        self._held: list[asyncio.Future[None]] = []

    async def __call__(self, markers: TransactionMarkers) -> None:
        self.sent.append(markers)
        if self.errors:
            raise self.errors.pop(0)
        if self.holds:
            self._held.append(asyncio.get_running_loop().create_future())
            try:
                await self._held[-1]
            except asyncio.CancelledError:
                self.cancelled.append(markers)
                raise

    def release(self) -> None:
        held, self._held = self._held, []
        for each in held:
            if not each.done():
                each.set_result(None)

    def fail(self, error: Exception) -> None:
        held, self._held = self._held, []
        for each in held:
            each.set_exception(error)


class TransactionBroker:
    """The coordinator, with everything it talks to.

    Creating __transaction_state makes this broker lead it. `time` is a Clock and Timer, one that
    stands still if nothing else is said; `send_markers` makes what takes the place of the list.
    """

    def __init__(
        self,
        *,
        partitions: int = 1,
        lead: bool = True,
        time: Any = None,
        mode: Replication | None = None,
        level: int = 0,
        send_markers: Callable[[MetadataCache], SendMarkers] | None = None,
        **settings: object,
    ) -> None:
        self.level = level  # of transaction.version
        self.config = TransactionConfig(
            **{"transaction_state_log_num_partitions": partitions, **settings}
        )
        self.time: Any = time or VirtualTime()
        self.replicas = OffsetsReplicas(mode)
        self.metadata = MetadataCache(BROKER_ID)
        self.metadata.update(metadata_of({"t": 4}))
        self.ids = CountedIds()
        self.markers = MarkerList()
        self.noted: list[Event] = []
        self._partitions = partitions
        self.coordinator = TransactionCoordinator(
            self.config,
            TransactionServices(
                replicas=self.replicas,
                metadata=self.metadata,
                topics=self,
                producer_ids=self.ids,
                send_markers=send_markers(self.metadata) if send_markers else self.markers,
                clock=self.time,
                timer=self.time,
                state_partitions=lambda: self.metadata.partition_count(TRANSACTION_STATE_TOPIC),
                level=lambda: self.level,
                note=self.noted.append,
            ),
        )
        if lead:
            self.lead()

    def listed(self, **filters: Any) -> tuple[list[Transaction], list[str]]:
        """The ids that pass these filters, and unknown names of states."""
        kept, passes, unknown = self.coordinator.list_transactions(**filters)
        return [each.entry.transaction for each in kept if passes(each)], unknown

    # ---- partitions

    async def auto_create(self, topics: Iterable[str]) -> dict[str, ErrorCode]:
        self.lead()
        return dict.fromkeys(topics, ErrorCode.NONE)

    def lead(self, *logs: OffsetsLog, epoch: int = 0) -> None:
        """Lead all partitions of __transaction_state, with these logs or the ones there are."""
        self.metadata.update(metadata_of({TRANSACTION_STATE_TOPIC: self._partitions}))
        partitions = []
        for index in range(self._partitions):
            name = TopicPartition(TRANSACTION_STATE_TOPIC, index)
            log = logs[index] if logs else self.replicas.logs.get(name) or OffsetsLog()
            self.replicas.logs[name] = log
            partitions.append(OffsetsPartition(name, log, epoch))
        self.coordinator.on_leadership_change(partitions, [])

    def resign(self) -> None:
        partitions = [OffsetsPartition(name, log) for name, log in self.replicas.logs.items()]
        self.coordinator.on_leadership_change([], partitions)

    def log(self, partition: int = 0) -> OffsetsLog:
        return self.replicas.logs[TopicPartition(TRANSACTION_STATE_TOPIC, partition)]

    def restarted(self, *, records: int | None = None, **settings: Any) -> TransactionBroker:
        """Another broker with what this one's logs hold, or with the first batches of the log."""
        other = TransactionBroker(
            partitions=self._partitions,
            lead=False,
            mode=self.replicas.mode,
            time=self.time,
            level=self.level,
            **settings,
        )
        other.ids.next = self.ids.next  # ids never come twice
        other.lead(
            *(
                OffsetsLog(b"".join(whole_batches(log)[:records]))
                for log in self.replicas.logs.values()
            ),
            epoch=1,
        )
        return other

    def written(self, partition: int = 0) -> list[Transaction | None]:
        """The records of the log, None for tombstones."""
        return [
            None
            if record.value is None
            else read_transaction(
                read_transaction_log_key(record.key or b"").transactional_id, record.value
            )
            for _, records in self.log(partition).batches()
            for record in records
        ]

    def states(self, partition: int = 0) -> list[str]:
        """The states in the log, in their order."""
        return [each.state.label if each else "-" for each in self.written(partition)]

    # ---- requests

    async def init(
        self, name: str = "x", expected: Producer = NO_PRODUCER, timeout_ms: int = TIMEOUT_MS
    ) -> Producer:
        return await self.coordinator.init_producer_id(name, timeout_ms, expected)

    async def begun(self, name: str = "x", *partitions: TopicPartition) -> Producer:
        """A producer with an open transaction."""
        producer = await self.init(name)
        await self.coordinator.add_partitions(name, producer, partitions or (A,))
        return producer

    async def end(self, producer: Producer, name: str = "x", *, is_commit: bool = True) -> None:
        await self.coordinator.end(name, producer, is_commit=is_commit)

    def state(self, name: str = "x") -> str:
        return self.coordinator.describe(name).state.label

    async def pass_time(self, ms: float) -> None:
        """In steps, so that what a timer begins goes on before the next one fires."""
        await turns()
        steps = 20
        for _ in range(steps):
            self.time.advance(ms / steps)
            await turns()


async def turns() -> None:
    """Let all that can go on do so."""
    await until_idle(_TURNS)


async def code_of(work: Awaitable[object]) -> ErrorCode:
    """How a request ended."""
    try:
        await work
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


def log_of(*transactions: Transaction | str) -> OffsetsLog:
    """A log with these states of ids; a name is the tombstone of an id."""
    log = OffsetsLog()
    for each in transactions:
        key, value = expired_record(each) if isinstance(each, str) else transaction_record(each, 0)
        log.append(memoryview(bytearray(build([Record(0, NOW_MS, key, value)]))))
    log.confirm()
    return log


def whole_batches(log: OffsetsLog) -> list[bytes]:
    """The batches of a log, each as its bytes."""
    found, position = [], 0
    while position < len(log.data):
        size = read_header(log.data, position).size_bytes
        found.append(bytes(log.data[position : position + size]))
        position += size
    return found
