"""Clients of a simulated cluster: machines that ask brokers by real bytes, and producers on them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Any
from uuid import UUID

from kbroker.errors import ErrorCode
from kbroker.model import ZERO_UUID, TopicPartition
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from kbroker.protocol.messages.metadata import MetadataRequest
from kbroker.protocol.messages.produce import ProduceRequest
from kbroker.protocol.schema import Message
from kbroker.record.record_batch import BatchOptions, Record, build
from tests.fakes.running.virtual_loop import LoopClock, Owner
from tests.faults.replication_ledger import Ledger
from tests.faults.replication_network import ReplicationNetwork, SimulatedClient

REQUEST_TIMEOUT_MS = 3_000
PRODUCE_TIMEOUT_MS = 2_000
DELIVERY_TIMEOUT_S = 40.0
IN_FLIGHT = 5
BACKOFF_S = 0.1
PAUSES_S = (0.0, 0.1, 0.5, 1.5)  # between two rounds of a producer
# A broker that was started again knows the last batch of a producer, and takes an older one that was
# never answered for a mistake, as Apache Kafka does. Clients of Kafka fail then.
OUT_OF_ORDER_MAX = 100

RETRIABLE = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)


_LOST = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})


@dataclass(frozen=True, slots=True)
class Place:
    """Where a partition is, as a broker's metadata say."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    topic_id: UUID


class ClientMachine:
    """One client machine: a node of the network, with a connection to each broker it speaks with."""

    def __init__(
        self,
        node: int,
        network: ReplicationNetwork,
        ledger: Ledger,
        brokers: Sequence[int],
        random: Random,
    ) -> None:
        self.node = node
        self.network = network
        self.loop = network.loop
        self.clock = LoopClock(network.loop)
        self.ledger = ledger
        self.random = random
        self.owner = Owner(f"client {-node}")
        self.brokers = tuple(brokers)
        self._clients: dict[tuple[int, str], SimulatedClient] = {}
        self._places: dict[TopicPartition, Place] = {}

    def client(self, broker_id: int, purpose: str = "") -> SimulatedClient:
        """A connection; each purpose has its own, so that none waits for another's long poll."""
        key = (broker_id, purpose)
        if key not in self._clients:
            self._clients[key] = SimulatedClient(
                self.network, self.node, broker_id, f"client{-self.node}"
            )
        return self._clients[key]

    async def ask(
        self,
        broker_id: int,
        request: Message,
        *,
        purpose: str = "",
        timeout_ms: float = REQUEST_TIMEOUT_MS,
        version: int | None = None,
    ) -> Any:
        """The answer. Raises OSError."""
        client = self.client(broker_id, purpose)
        return await client.send(request, timeout_ms=timeout_ms, highest_version=version)

    async def ask_any(self, request: Message, **named: Any) -> Any:
        """As `ask`, of whichever broker."""
        return await self.ask(self.random.choice(self.brokers), request, **named)

    async def place(self, partition: TopicPartition, *, anew: bool = False) -> Place | None:
        """Where a partition is, None while no broker knows a leader. Raises OSError."""
        known = self._places.get(partition)
        if known is not None and not anew:
            return known
        topic = MetadataRequest.MetadataRequestTopic(name=partition.topic)
        answer = await self.ask_any(
            MetadataRequest(topics=[topic], allow_auto_topic_creation=False), version=12
        )
        for found in answer.topics:
            for each in found.partitions:
                if found.name == partition.topic and each.partition_index == partition.partition:
                    self._note(partition, found.topic_id, each)
        return self._places.get(partition)

    def _note(self, partition: TopicPartition, topic_id: UUID, found: Any) -> None:
        """Older news than what is known are no news (KIP-320)."""
        known = self._places.get(partition)
        if found.leader_id < 0 or (known is not None and found.leader_epoch < known.leader_epoch):
            return
        self._places[partition] = Place(
            found.leader_id, found.leader_epoch, tuple(found.replica_nodes), topic_id
        )


class ProducerKind(Enum):
    """How a producer writes."""

    IDEMPOTENT = "idempotent"
    PLAIN = "plain"
    LEADER_ONLY = "acks=1"


@dataclass(slots=True, eq=False)
class Batch:
    """What is sent, again and again with the same bytes, until there is an answer."""

    values: list[bytes]
    data: bytes
    sequence: int
    made_s: float
    is_done: bool = False


class Producer:
    """Writes to one partition until `is_over`, and then until all is answered."""

    def __init__(
        self, machine: ClientMachine, name: str, partition: TopicPartition, kind: ProducerKind
    ) -> None:
        self.name = name.encode()
        self.partition = partition
        self.kind = kind
        self.is_over = False
        self.is_patient = False  # gives nothing up any more
        self._machine = machine
        self._ledger = machine.ledger
        self._random = machine.random
        self._version = self._random.choice((3, 7, 9, 12, 13))
        self._window: list[Batch] = []
        self._made = 0
        self._sequence = 0
        self._producer_id: tuple[int, int] | None = None
        self._must_look = False
        self._is_known = False  # to brokers, by its id
        self._has_lost = False  # the broker lacks what came before
        self._out_of_order = 0  # so often in a row
        if kind is ProducerKind.IDEMPOTENT:
            self._ledger.idempotent.add(self.name)
        if kind is not ProducerKind.LEADER_ONLY:
            self._ledger.ordered.add(self.name)

    def __repr__(self) -> str:
        return f"{self.kind.value} producer {self.name.decode()} of {self.partition}"

    @property
    def is_done(self) -> bool:
        """Nothing waits for an answer."""
        return not self._window

    async def run(self) -> None:
        """Write."""
        while not (self.is_over and self.is_done):
            try:
                await self._round()
            except OSError:
                self._must_look = True
                await asyncio.sleep(BACKOFF_S)
            self._give_up_old()
            await asyncio.sleep(self._random.choice(PAUSES_S) * self._random.random())

    async def _round(self) -> None:
        """Send what is in the window all at once, and hear what becomes of each."""
        machine = self._machine
        if self.kind is ProducerKind.IDEMPOTENT and self._producer_id is None:
            await self._identify()
        place = await machine.place(self.partition, anew=self._must_look)
        if place is None:
            await asyncio.sleep(BACKOFF_S)
            return
        self._must_look = False
        batches = self._due()
        client = machine.client(place.leader, f"producer {self.name.decode()}")
        timeout_ms, version = REQUEST_TIMEOUT_MS, self._version
        sends = [
            client.send(self._request(batch, place), timeout_ms=timeout_ms, highest_version=version)
            for batch in batches
        ]
        answers = await asyncio.gather(*sends, return_exceptions=True)
        for batch, answer in zip(batches, answers, strict=True):
            if isinstance(answer, OSError):
                self._must_look = True
            elif isinstance(answer, BaseException):
                raise answer
            else:
                self._settle(batch, answer)
        self._window = [batch for batch in self._window if not batch.is_done]
        if self._must_look:
            await asyncio.sleep(BACKOFF_S * self._random.random())

    async def _identify(self) -> None:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        answer = await self._machine.ask_any(request)
        if answer.error_code:
            raise ConnectionError(ErrorCode(answer.error_code).name)
        self._producer_id, self._sequence = (answer.producer_id, answer.producer_epoch), 0

    def _due(self) -> list[Batch]:
        """Batches to send now.

        One without an answer goes again alone, the oldest first; so does the first batch of all,
        since brokers take any sequence for a beginning.
        """
        if not self._window:
            self._fill()
            return self._window[: IN_FLIGHT if self._is_known else 1]
        return self._window[:1]

    def _fill(self) -> None:
        room = IN_FLIGHT if self.kind is ProducerKind.IDEMPOTENT else 1
        for _ in range(0 if self.is_over else self._random.randrange(room + 1)):
            self._window.append(self._batch())

    def _batch(self) -> Batch:
        random, machine = self._random, self._machine
        count = random.choice((1, 1, 1, 2, 3))
        padding = b"." * random.choice((0, 0, 20, 150))
        values = [b"%s:%d:%s" % (self.name, self._made + n, padding) for n in range(count)]
        now_ms = machine.clock.now_ms()
        rows = [
            Record(offset=n, timestamp=now_ms, key=None, value=value, headers=())
            for n, value in enumerate(values)
        ]
        sequence = self._sequence
        options = BatchOptions(compression=random.choice((0, 0, 0, 1)))
        if self._producer_id is not None:
            options = BatchOptions(
                compression=options.compression,
                producer_id=self._producer_id[0],
                producer_epoch=self._producer_id[1],
                base_sequence=sequence,
            )
        batch = Batch(values, build(rows, options=options), sequence, machine.loop.time())
        self._made += count
        self._sequence += count
        self._ledger.sent.update(values)
        return batch

    def _request(self, batch: Batch, place: Place) -> ProduceRequest:
        data = ProduceRequest.PartitionProduceData(
            index=self.partition.partition, records=memoryview(bytearray(batch.data))
        )
        topic_id = place.topic_id if self._version >= 13 else ZERO_UUID
        topic = ProduceRequest.TopicProduceData(
            name=self.partition.topic, topic_id=topic_id, partition_data=[data]
        )
        acks = 1 if self.kind is ProducerKind.LEADER_ONLY else -1
        return ProduceRequest(acks=acks, timeout_ms=PRODUCE_TIMEOUT_MS, topic_data=[topic])

    def _settle(self, batch: Batch, answer: Any) -> None:
        result = answer.responses[0].partition_responses[0]
        code = ErrorCode(result.error_code)
        if self._ledger.model.trace is not None:
            self._ledger.model.overhear(
                f"{self}: {batch.sequence}: {code.name} {result.base_offset}"
            )
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            batch.is_done = self._is_known = True
            self._out_of_order = 0
            if self.kind is not ProducerKind.LEADER_ONLY:
                offset = result.base_offset if code is ErrorCode.NONE else -1
                self._ledger.acknowledged(self.partition, offset, batch.values)
        else:
            self._must_look = True
            if code in _LOST:
                self._out_of_order += 1
                is_forgiven = self._ledger.is_excused(self.partition)
                self._has_lost = is_forgiven or self._out_of_order > OUT_OF_ORDER_MAX
            if code not in RETRIABLE:
                self._ledger.model.violate("unexpected answer", f"{self}: {code.name}")

    def _give_up_old(self) -> None:
        """As a client whose delivery.timeout.ms is over: what was sent may be there or not."""
        if not self._window:
            return
        is_late = self._machine.loop.time() - self._window[0].made_s > DELIVERY_TIMEOUT_S
        if self._has_lost or (is_late and not self.is_patient):
            self._has_lost, self._out_of_order = False, 0
            self._ledger.counts.abandoned += len(self._window)
            self._window.clear()
            self._is_known = False
            self._producer_id = None
