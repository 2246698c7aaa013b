"""Transactional producers of a simulated cluster: one run of a program with a transactional id,
which may be fenced, out of time, or gone in the middle of what it does.

Law: they do what clients of Kafka do: a request without an answer is asked again with the same
content, a transaction ends as it was asked to end, and a producer whose requests may still be under
way takes a new epoch before its next transaction (the first protocol tells a late EndTxn from that
of the next transaction by nothing else). Some are stubborn: told that they are fenced, they go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kbroker.coordinator.runtime.coordinator_finder import CoordinatorType
from kbroker.coordinator.transaction.producer import NO_PRODUCER, Producer
from kbroker.errors import ErrorCode
from kbroker.model import TopicPartition
from kbroker.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kbroker.protocol.messages.end_txn import EndTxnRequest
from kbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from kbroker.protocol.messages.produce import ProduceRequest
from kbroker.protocol.schema import Message
from kbroker.record.record_batch import TRANSACTIONAL_BIT, BatchOptions, Record, build
from tests.faults.replication_clients import BACKOFF_S, RETRIABLE, ClientMachine
from tests.faults.transaction_ledger import TransactionLedger, Txn

PRODUCE_TIMEOUT_MS = 2_000
DELIVERY_TIMEOUT_S = 15.0  # of one batch
PATIENCE_S = 60.0  # with coordinators
PAUSES_S = (0.0, 0.0, 0.1, 0.5)
TIMEOUTS_S = (2.0, 5.0, 12.0)
STUBBORN_BATCHES = 2

AGAIN = RETRIABLE - {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID} | {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
}
FENCED = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)
_NOT_PART = frozenset({ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE})
_LOST = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})


class FencedError(Exception):
    """Another producer has the transactional id, or the transaction took too long."""


class AbortError(Exception):
    """The transaction can only be aborted."""


class GoneError(Exception):
    """The program has ended, or given up."""


@dataclass(frozen=True, slots=True)
class Manner:
    """How a producer behaves: the chance of each at every occasion."""

    vanishes: float = 0.04
    dawdles: float = 0.04
    aborts: float = 0.25
    regrets: float = 0.0  # asks to commit what has just been aborted
    is_stubborn: bool = False
    has_epochs: bool = False  # the second protocol: each transaction has one of its own


class CoordinatorLink:
    """The way to a coordinator, looked up again where it has moved."""

    def __init__(
        self, machine: ClientMachine, purpose: str, kind: CoordinatorType, key: str
    ) -> None:
        self._machine = machine
        self._purpose = purpose
        self._key = key
        self._key_type = 0 if kind is CoordinatorType.GROUP else 1
        self.node: int | None = None
        self.lost = 0  # requests without an answer

    async def ask(
        self,
        request: Message,
        version: int,
        code_of: Callable[[Any], int],
        before: Callable[[], None] = lambda: None,
    ) -> tuple[ErrorCode, Any]:
        """The first answer that is no reason to ask again; `before` is called each time.

        GoneError when it takes too long.
        """
        loop, random = self._machine.loop, self._machine.random
        began_s = loop.time()
        while loop.time() - began_s < PATIENCE_S:
            try:
                node = await self._found()
                if node is not None:
                    before()
                    answer = await self._send(node, request, version)
                    code = ErrorCode(code_of(answer))
                    if code not in AGAIN:
                        return code, answer
                    if code is not ErrorCode.CONCURRENT_TRANSACTIONS:
                        self.node = None
            except OSError:
                self.node = None
            await asyncio.sleep(BACKOFF_S * (0.5 + random.random()))
        raise GoneError

    async def _send(self, node: int, request: Message, version: int) -> Any:
        try:
            return await self._machine.ask(
                node, request, purpose=self._purpose, version=version, timeout_ms=7_000
            )
        except OSError:
            self.lost += 1
            raise

    async def _found(self) -> int | None:
        if self.node is None:
            request = FindCoordinatorRequest(key_type=self._key_type, coordinator_keys=[self._key])
            answer = await self._machine.ask_any(request, version=4)
            (found,) = answer.coordinators
            if not found.error_code:
                self.node = found.node_id
        return self.node


class TransactionalClient:
    """Writes transactions until `is_over`, or until it is fenced or gone; then it `is_done`."""

    def __init__(
        self,
        machine: ClientMachine,
        transactional_id: str,
        number: int,
        partitions: Sequence[TopicPartition],
        manner: Manner,
    ) -> None:
        assert isinstance(machine.ledger, TransactionLedger)
        self.name = f"{transactional_id}.{number}"
        self.is_over = False
        self.is_done = False
        self._id = transactional_id
        self._machine = machine
        self._ledger = machine.ledger
        self._book = machine.ledger.id_book(transactional_id)
        self._random = machine.random
        self._partitions = tuple(partitions)
        self._manner = manner
        self._timeout_s = self._random.choice(TIMEOUTS_S)
        self._version = self._random.randrange(2, 5)  # of the coordinator's requests
        self._produce_version = 12 if manner.has_epochs else self._random.choice((3, 7, 9, 11))
        self._coordinator = CoordinatorLink(
            machine, self.name, CoordinatorType.TRANSACTION, transactional_id
        )
        self._producer = NO_PRODUCER
        self._sequences: dict[TopicPartition, int] = {}
        self._made = 0
        self._transactions = 0
        self._is_tainted = False  # something of it may still be under way
        self._lost_before = 0
        self._asked: int | None = None  # requests for the id when it got it, None: some waited
        self._began_s = 0.0
        self._ledger.idempotent.add(self.name.encode())
        self._ledger.ordered.add(self.name.encode())

    def __repr__(self) -> str:
        return f"transactional producer {self.name}"

    async def run(self) -> None:
        """Write."""
        try:
            await self._identify(NO_PRODUCER)
            while not self.is_over:
                await self._transact()
                await self._pause()
        except FencedError:
            self._ledger.of_transactions.fenced += 1
        except GoneError:
            self._ledger.of_transactions.vanished += 1
        self.is_done = True

    async def _pause(self) -> None:
        random = self._random
        await asyncio.sleep(random.choice(PAUSES_S) * random.random())
        if random.random() < self._manner.dawdles and not self.is_over:
            await asyncio.sleep(random.random() * 12.0)

    # ---- who it is

    async def _identify(self, expected: Producer) -> None:
        request = InitProducerIdRequest(
            transactional_id=self._id,
            transaction_timeout_ms=int(self._timeout_s * 1000),
            producer_id=expected.producer_id,
            producer_epoch=expected.epoch,
        )
        version = self._random.choice((4, 5) if expected != NO_PRODUCER else (1, 2, 4, 5))
        code, answer = await self._coordinator.ask(
            request, version, lambda found: int(found.error_code), self._count_request
        )
        self._check_coordinator(code)
        if code in FENCED and expected != NO_PRODUCER:
            raise self._fenced(code)
        if code is not ErrorCode.NONE:
            raise self._unexpected(code)
        book = self._book
        book.answered += 1
        self._asked = book.asked if book.asked == book.answered else None
        self._become(Producer(answer.producer_id, answer.producer_epoch))

    def _become(self, producer: Producer) -> None:
        """Go on under a new epoch: whatever is late belongs to an older one. GoneError."""
        self._producer = producer
        self._say(f"is {producer}")
        if not self._ledger.identified(self._id, producer):
            raise GoneError  # its batches would pass for those of the other
        self._sequences.clear()
        self._is_tainted, self._lost_before = False, self._coordinator.lost

    def _count_request(self) -> None:
        self._book.asked += 1

    # ---- one transaction

    async def _transact(self) -> None:
        may_be_late = self._is_tainted or self._coordinator.lost > self._lost_before
        if may_be_late and not self._manner.has_epochs:
            await self._identify(self._producer)
        await self._prepare()
        self._transactions += 1
        txn = Txn(self._id, f"{self.name} no. {self._transactions}", self._producer)
        self._ledger.begin(txn)
        self._began_s = self._machine.loop.time()
        try:
            is_wanted = await self._work(txn)
        except AbortError:
            is_wanted = False
        except FencedError:
            if self._manner.is_stubborn:
                await self._go_on_regardless(txn)
            raise
        if self._random.random() < self._manner.vanishes:
            raise GoneError
        if txn.values or is_wanted or self._is_tainted:
            aborts = self._random.random() < self._manner.aborts
            is_commit = is_wanted and not aborts
            await self._end(txn, is_commit=is_commit)
            if not is_commit and self._random.random() < self._manner.regrets:
                await self._regret(txn)

    async def _prepare(self) -> None:
        """Do what has to be done before a transaction."""

    async def _work(self, txn: Txn) -> bool:
        """Write; False where there is nothing to commit. AbortError."""
        random = self._random
        count = random.randrange(1, len(self._partitions) + 1)
        wanted = random.sample(self._partitions, count)
        halves = (wanted[:1], wanted[1:]) if random.random() < 0.5 else (wanted, [])
        for partitions in halves:
            if not partitions:
                continue
            await self._add_partitions(partitions)
            for _ in range(random.randrange(1, 3)):
                for partition in partitions:
                    await self._produce(txn, partition, self._values())
            await self._pause()
            if random.random() < self._manner.vanishes:
                raise GoneError
        return True

    async def _add_partitions(self, partitions: Sequence[TopicPartition]) -> None:
        if self._manner.has_epochs:
            return  # those who lead them do
        by_topic: dict[str, list[int]] = {}
        for topic, partition in partitions:
            by_topic.setdefault(topic, []).append(partition)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._id,
            v3_and_below_producer_id=self._producer.producer_id,
            v3_and_below_producer_epoch=self._producer.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=name, partitions=indexes)
                for name, indexes in by_topic.items()
            ],
        )
        code, _ = await self._coordinator.ask(request, min(self._version, 3), _code_of_partitions)
        self._check_part(code)

    def _check_part(self, code: ErrorCode) -> None:
        """Go on where something is part of the transaction now. AbortError, FencedError."""
        self._check_coordinator(code)
        if code in FENCED:
            raise self._fenced(code)
        if code is not ErrorCode.NONE:
            raise self._unexpected(code)

    async def _end(self, txn: Txn, *, is_commit: bool) -> None:
        def before() -> None:
            if is_commit:
                self._ledger.asks_to_commit(txn)

        self._say(f"{'commits' if is_commit else 'aborts'} {txn}")
        code, answer = await self._ask_for_end(txn, before, is_commit=is_commit)
        self._say(f"{txn}: {code.name}")
        self._check_coordinator(code)
        if code in FENCED:
            raise self._fenced(code)
        if code is ErrorCode.INVALID_TXN_STATE and self._has_excuse():
            raise GoneError
        if code is not ErrorCode.NONE:
            raise self._unexpected(code)
        self._ledger.ended(txn, is_commit=is_commit)
        if self._manner.has_epochs:
            self._ledger.of_transactions.with_epochs += 1
            self._become(Producer(answer.producer_id, answer.producer_epoch))

    async def _ask_for_end(
        self, txn: Txn, before: Callable[[], None] = lambda: None, *, is_commit: bool
    ) -> tuple[ErrorCode, Any]:
        request = EndTxnRequest(
            transactional_id=self._id,
            producer_id=txn.producer.producer_id,
            producer_epoch=txn.producer.epoch,
            committed=is_commit,
        )
        version = 5 if self._manner.has_epochs else self._version
        return await self._coordinator.ask(
            request, version, lambda found: int(found.error_code), before
        )

    async def _regret(self, txn: Txn) -> None:
        """Ask for the other end; an answer without an error would be a lie."""
        self._say(f"regrets the end of {txn}")
        code, _ = await self._ask_for_end(txn, is_commit=True)
        self._check_coordinator(code)
        if code in FENCED:
            raise self._fenced(code)
        if code is not ErrorCode.INVALID_TXN_STATE and self._ledger.knows_id(self._id):
            self._violate("two ends", code)

    # ---- records

    def _values(self) -> list[bytes]:
        random = self._random
        return [
            self._value(b"." * random.choice((0, 0, 20, 150)))
            for _ in range(random.choice((1, 1, 2, 3)))
        ]

    def _value(self, content: bytes) -> bytes:
        self._made += 1
        return b"%s:%d:%s" % (self.name.encode(), self._made, content)

    async def _produce(self, txn: Txn, partition: TopicPartition, values: list[bytes]) -> None:
        """Write one batch until it is acknowledged. AbortError, FencedError."""
        self._ledger.sent.update(values)
        self._ledger.txn_of.update(dict.fromkeys(values, txn))
        batch = self._batch(partition, values)
        began_s = self._machine.loop.time()
        code, must_look = ErrorCode.NONE, False
        while self._machine.loop.time() - began_s < DELIVERY_TIMEOUT_S:
            try:
                result = await self._send(partition, batch, anew=must_look)
            except OSError:
                self._is_tainted = must_look = True
            else:
                code = ErrorCode.NOT_LEADER_OR_FOLLOWER
                if result is not None:
                    code = ErrorCode(result.error_code)
                if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                    txn.values.setdefault(partition, []).extend(values)
                    offset = result.base_offset if code is ErrorCode.NONE else -1
                    self._ledger.acknowledged(partition, offset, values)
                    return
                if code not in AGAIN:
                    break
                must_look = True
            await asyncio.sleep(BACKOFF_S * (0.5 + self._random.random()))
        self._refused(partition, code)

    def _refused(self, partition: TopicPartition, code: ErrorCode) -> None:
        self._say(f"{partition}: {code.name}")
        self._is_tainted = True
        if code in FENCED:
            raise self._fenced(code)
        if code in _NOT_PART and not self._has_excuse():
            raise self._unexpected(code)
        if code not in AGAIN | _LOST | _NOT_PART | {ErrorCode.NONE}:
            raise self._unexpected(code)
        raise AbortError

    def _batch(self, partition: TopicPartition, values: list[bytes]) -> bytes:
        now_ms = self._machine.clock.now_ms()
        sequence = self._sequences.get(partition, 0)
        self._sequences[partition] = sequence + len(values)
        rows = [Record(n, now_ms, None, value) for n, value in enumerate(values)]
        options = BatchOptions(
            flags=TRANSACTIONAL_BIT,
            compression=self._random.choice((0, 0, 0, 1)),
            producer_id=self._producer.producer_id,
            producer_epoch=self._producer.epoch,
            base_sequence=sequence,
        )
        return build(rows, options=options)

    async def _send(self, partition: TopicPartition, batch: bytes, *, anew: bool) -> Any:
        """The answer for the partition, None where nobody knows its leader. OSError."""
        machine = self._machine
        place = await machine.place(partition, anew=anew)
        if place is None:
            return None
        data = ProduceRequest.PartitionProduceData(
            index=partition.partition, records=memoryview(bytearray(batch))
        )
        topic = ProduceRequest.TopicProduceData(name=partition.topic, partition_data=[data])
        request = ProduceRequest(
            transactional_id=self._id,
            acks=-1,
            timeout_ms=PRODUCE_TIMEOUT_MS,
            topic_data=[topic],
        )
        answer = await machine.ask(
            place.leader, request, purpose=self.name, version=self._produce_version
        )
        return answer.responses[0].partition_responses[0]

    # ---- refusals

    def _fenced(self, code: ErrorCode) -> FencedError:
        self._say(f"is fenced: {code.name}")
        has_expired = code is ErrorCode.INVALID_PRODUCER_ID_MAPPING and self._ledger.ids_expire
        if not (has_expired or self._has_excuse()):
            self._violate("fenced without a reason", code)
        return FencedError()

    def _check_coordinator(self, code: ErrorCode) -> None:
        """GoneError where it was refused by a coordinator that is replaced and has not heard of that:
        it knows what was, as Kafka's does.
        """
        is_refused = code in FENCED or code is ErrorCode.INVALID_TXN_STATE
        if is_refused and not self._ledger.coordinates_id(self._id, self._coordinator.node):
            raise GoneError

    def _has_excuse(self) -> bool:
        """Whether the brokers may have ended its transaction, or given its id to another."""
        return (
            self._asked != self._book.asked
            or self._producer != self._book.newest
            or self._is_tainted
            or self._coordinator.lost > self._lost_before
            or self._machine.loop.time() >= self._began_s + self._timeout_s
            or not self._ledger.knows_id(self._id)
        )

    def _unexpected(self, code: ErrorCode) -> GoneError:
        self._violate("unexpected answer", code)
        return GoneError()

    def _violate(self, kind: str, code: ErrorCode) -> None:
        self._ledger.model.violate(kind, f"{self} {self._producer}: {code.name}")

    def _say(self, text: str) -> None:
        if self._ledger.model.trace is not None:
            self._ledger.model.overhear(f"{self}: {text}")

    async def _go_on_regardless(self, txn: Txn) -> None:
        """Write and commit as if nobody had said anything. Where no successor was told who it is, the
        fence may be lost with its coordinator, and half of the work would be committed rightly.
        """
        self._say("goes on regardless")
        for partition in self._random.choices(self._partitions, k=STUBBORN_BATCHES):
            try:
                await self._produce(txn, partition, self._values())
            except (AbortError, FencedError):
                continue
        if self._ledger.is_fenced(txn):
            await self._end(txn, is_commit=True)


def _code_of_partitions(answer: Any) -> int:
    """Return the first refusal that says something; 0 where there is none."""
    codes = [
        each.partition_error_code
        for topic in answer.results_by_topic_v3_and_below
        for each in topic.results_by_partition
    ]
    told = [code for code in codes if code not in (0, ErrorCode.OPERATION_NOT_ATTEMPTED)]
    return int(told[0]) if told else 0
