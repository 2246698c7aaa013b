"""TransactionCoordinator: the transactions of producers whose transactional id is kept in a
partition that this broker leads (KIP-98).

Law: a thin shell, so that the decisions are pure. It finds the id, lets `transaction/` decide, and
answers when the record of the decision is stored. What follows from the decision goes on whether or
not somebody still waits for the answer. Refusals are those of Kafka 3.9.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass, replace
from itertools import filterfalse
from typing import Protocol

from kbroker.clock import Clock, Timer
from kbroker.config.transaction_config import TransactionConfig
from kbroker.coordinator.group.records import fits_a_record
from kbroker.coordinator.runtime.batch_append import BatchAppend, Replicas
from kbroker.coordinator.runtime.coordinator_finder import (
    CoordinatorFinder,
    CoordinatorType,
    TopicCreator,
)
from kbroker.coordinator.runtime.coordinator_runtime import CoordinatorRuntime
from kbroker.coordinator.runtime.pending_reply import PendingReply
from kbroker.coordinator.runtime.shard import LedPartition, Settled
from kbroker.coordinator.transaction.decisions import (
    ended,
    ended_with_epoch,
    initialized,
    is_beyond_producers,
    needs_next_producer_id,
    needs_producer_id,
    new_transaction,
    verified,
    with_partitions,
)
from kbroker.coordinator.transaction.endings import TransactionEndings
from kbroker.coordinator.transaction.machine import KeptTransaction, TransactionMachine
from kbroker.coordinator.transaction.markers import SendMarkers
from kbroker.coordinator.transaction.producer import NO_PRODUCER, Producer
from kbroker.coordinator.transaction.store import TransactionStore
from kbroker.coordinator.transaction.transaction import (
    WITHOUT_EPOCHS,
    Transaction,
    TransactionState,
)
from kbroker.coordinator.transaction.upkeep import TransactionUpkeep
from kbroker.errors import ErrorCode, KafkaError
from kbroker.events.event import Note, nobody_notes
from kbroker.model import NO_PRODUCER_ID, TRANSACTION_STATE_TOPIC, TopicPartition
from kbroker.replication.metadata_cache import MetadataCache

_log = logging.getLogger(__name__)

_APPEND_TIMEOUT_MS = 5000  # its client asks again, and hears later that it holds
_STATES = {state.label: state for state in TransactionState}


class ProducerIds(Protocol):
    """The part of ProducerIdManager that is needed here."""

    def generate(self) -> Awaitable[int]:
        """The next producer id. KafkaError COORDINATOR_LOAD_IN_PROGRESS when there is none."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class TransactionServices:
    """The services of the broker that the coordinator uses. `state_partitions` returns how many
    partitions `__transaction_state` has, 0 if it is not there; `level` returns the
    transaction.version that the cluster has settled on.
    """

    replicas: Replicas
    metadata: MetadataCache
    topics: TopicCreator
    producer_ids: ProducerIds
    send_markers: SendMarkers
    clock: Clock
    timer: Timer
    state_partitions: Callable[[], int]
    level: Callable[[], int]
    note: Note = nobody_notes  # which producers are fenced, and why


class TransactionCoordinator:
    """Owned by the event loop."""

    def __init__(self, config: TransactionConfig, services: TransactionServices) -> None:
        self._config = config
        self._producer_ids = services.producer_ids
        self._runtime: CoordinatorRuntime[TransactionMachine] = CoordinatorRuntime(
            TRANSACTION_STATE_TOPIC,
            BatchAppend(
                services.replicas, services.clock, required_acks=-1, timeout_ms=_APPEND_TIMEOUT_MS
            ),
            services.clock,
            services.timer,
            lambda: services.state_partitions() or config.transaction_state_log_num_partitions,
        )
        self.store = TransactionStore(self._runtime, self._on_decided, services.level)
        self._endings = TransactionEndings(self.store, services.send_markers)
        self._upkeep = TransactionUpkeep(config, self.store, services.note)
        self._note = services.note
        self._is_active = True
        self.find_coordinator = CoordinatorFinder(
            {CoordinatorType.TRANSACTION: self._runtime}, services.metadata, services.topics
        ).find
        self.partition_for = self._runtime.partition_for

    # ---- life

    def start(self) -> None:
        """Begin to look for transactions out of time, and for ids that nobody uses any more."""
        self._upkeep.start()

    def shutdown(self) -> None:
        """Answer whoever waits, stop all timers and markers; every later request is refused."""
        self._is_active = False
        self._runtime.resign_all()
        self._runtime.close()

    def on_leadership_change(
        self, became_leader: Iterable[LedPartition], became_follower: Iterable[LedPartition]
    ) -> None:
        """The replica manager's news: partitions of `__transaction_state` are read, or given up."""
        self._runtime.on_leadership_change(became_leader, became_follower, self.store.new_machine)

    # ---- producers

    async def init_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: Producer
    ) -> Producer:
        """Answer InitProducerId: the producer from now on; `expected` is who it says it was.

        KafkaError: INVALID_REQUEST, INVALID_TRANSACTION_TIMEOUT, CONCURRENT_TRANSACTIONS (also
        while an open transaction is aborted first), PRODUCER_FENCED, and those of an id that is
        kept elsewhere or a record that is not stored.
        """
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        if not 0 < timeout_ms <= self._config.transaction_max_timeout_ms:
            raise KafkaError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        if not fits_a_record(transactional_id):
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        kept, new_id = await self._with_producer_id(transactional_id, timeout_ms, expected)
        before = kept.entry.transaction
        decided = initialized(kept.entry, expected, timeout_ms, self._now_ms(), new_id)
        if decided.state is TransactionState.PREPARE_EPOCH_FENCE:
            await _stored(lambda heard: self.store.abort(kept, decided, heard))
            self._note_replaced(before)
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        await self._written(kept, decided)
        _log.info("Transactional id %.200r has %s", transactional_id, decided.producer)
        if expected == NO_PRODUCER and before.has_a_producer:
            self._note_replaced(before)
        return decided.producer

    def _note_replaced(self, before: Transaction) -> None:
        from kbroker.coordinator.transaction.fencing import replaced  # by those with such producers

        self._note(replaced(before))

    async def _with_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: Producer
    ) -> tuple[KeptTransaction, int | None]:
        """Return the id, made if nobody has used it, and the producer id it needs, if it needs one.

        Everything is checked again after each wait, as others may have come first.
        """
        spare: int | None = None
        while True:
            kept = self.store.find(transactional_id)
            if kept is None and spare is not None:
                now_ms = self._now_ms()
                new = new_transaction(transactional_id, spare, timeout_ms, now_ms)
                return self.store.create(new), None
            if kept is not None:
                is_needed = needs_producer_id(kept.entry, expected)
                if not is_needed or spare is not None:
                    return kept, spare if is_needed else None
            spare = await self._producer_ids.generate()

    # ---- transactions

    async def add_partitions(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Collection[TopicPartition],
        *,
        client_version: int = WITHOUT_EPOCHS,
    ) -> None:
        """Let partitions take part in the producer's transaction (AddPartitionsToTxn,
        AddOffsetsToTxn).

        The `client_version` is WITH_EPOCHS if the leaders of the partitions ask.

        KafkaError: INVALID_REQUEST, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED,
        CONCURRENT_TRANSACTIONS, and those of an id that is kept elsewhere or a record that is not
        stored.
        """
        kept = self._used(transactional_id)
        now_ms = self._now_ms()
        decided = with_partitions(kept.entry, producer, partitions, now_ms, client_version)
        if decided is not None:
            await self._written(kept, decided)

    def verify(
        self, transactional_id: str, producer: Producer, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Return NONE for partitions that take part, TRANSACTION_ABORTABLE for the others.

        KafkaError as `add_partitions`.
        """
        return verified(self._used(transactional_id).entry, producer, partitions)

    async def end(self, transactional_id: str, producer: Producer, *, is_commit: bool) -> None:
        """EndTxn: return when it is stored how the transaction ends; its markers are sent then.

        KafkaError as `add_partitions`, and INVALID_TXN_STATE.
        """
        kept = self._used(transactional_id)
        decided = ended(kept.entry, producer, self._now_ms(), is_commit=is_commit)
        if decided is not None:
            await self._written(kept, decided)

    async def end_with_epoch(
        self, transactional_id: str, producer: Producer, *, is_commit: bool
    ) -> Producer:
        """End a transaction, and the epoch with it (KIP-890); return the producer from now on."""
        spare = NO_PRODUCER_ID
        while True:
            kept = self._used(transactional_id)
            decided = ended_with_epoch(
                kept.entry,
                producer,
                self._now_ms(),
                is_commit=is_commit,
                next_producer_id=spare,
            )
            if decided is None:
                return kept.entry.transaction.producer
            if not needs_next_producer_id(decided):
                break
            spare = await self._producer_ids.generate()
        if not is_beyond_producers(decided):
            decided = replace(decided, next_producer_id=NO_PRODUCER_ID)
        await self._written(kept, decided)
        return decided.next_producer

    def _used(self, transactional_id: str) -> KeptTransaction:
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        kept = self.store.find(transactional_id)
        if kept is None:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return kept

    def _on_decided(self, kept: KeptTransaction) -> None:
        self._endings.begin(kept)

    async def _written(self, kept: KeptTransaction, decided: Transaction) -> None:
        await _stored(lambda heard: self.store.write(kept, decided, heard))

    def _now_ms(self) -> int:
        return self._runtime.now().wall_ms

    # ---- administration

    def describe(self, transactional_id: str) -> Transaction:
        """A transactional id as it is stored, for DescribeTransactions.

        KafkaError: TRANSACTIONAL_ID_NOT_FOUND, INVALID_REQUEST, COORDINATOR_NOT_AVAILABLE,
        NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS.
        """
        self._check_active()
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        kept = self.store.find(transactional_id)
        if kept is None:
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        return kept.entry.transaction

    def list_transactions(
        self,
        states: Collection[str] = (),
        producer_ids: Collection[int] = (),
        longer_than_ms: int = -1,
    ) -> tuple[TransactionStore, Callable[[KeptTransaction], bool], list[str]]:
        """Return, for ListTransactions, the transactional ids of this broker, which may be very
        many, a function that finds those that pass the filters, and unknown names of states, of
        which `states` may have very many, each once.

        Empty filters and a duration below 0 let all pass.
        KafkaError: COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS.
        """
        self._check_active()
        if self._runtime.is_loading():
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        wanted = {state for name, state in _STATES.items() if name in states}
        begun_before_ms = self._now_ms() - longer_than_ms

        def passes(kept: KeptTransaction) -> bool:
            each = kept.entry.transaction
            return (
                (not states or each.state in wanted)
                and (not producer_ids or each.producer.producer_id in producer_ids)
                and (longer_than_ms < 0 or each.start_ms < begun_before_ms)
            )

        return self.store, passes, list(filterfalse(_STATES.__contains__, states))

    def _check_active(self) -> None:
        if not self._is_active:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)


async def _stored(write: Callable[[Settled], None]) -> None:
    """Begin a write and wait for its end; KafkaError if it is not stored."""
    reply: PendingReply[ErrorCode] = PendingReply()
    write(reply.answer)
    outcome = reply.outcome()
    error = outcome if isinstance(outcome, ErrorCode) else await outcome
    if error is not ErrorCode.NONE:
        raise KafkaError(error)
