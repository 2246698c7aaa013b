"""The memory that a log has of each idempotent producer: duplicates, gaps and open transactions are
decided here.

Law: no file and no clock here; time comes in as `now_ms`. `validate` refuses before the write,
`update` and `end_transaction` record after it. Recovery replays the same two calls, so that it
comes to the same state. KIP-98 (idempotence, transactions), KIP-360 (epoch bumps).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from typing import NamedTuple

from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.producers.log_append_info import AppendOrigin, LogAppendInfo
from kbroker.log.producers.unstable_transactions import CompletedTxn, UnstableTransactions
from kbroker.log.producers.verification import TransactionalBatch, VerificationState
from kbroker.model import NO_PRODUCER_EPOCH, NO_SEQUENCE, TopicPartition, new_tuple
from kbroker.record.record_batch import TRANSACTIONAL_BIT, BatchHeader, ControlRecord

BATCHES_TO_RETAIN = (
    5  # a client has at most five requests in flight, so no older batch can be sent again
)
MAX_SEQUENCE = 2**31 - 1
_PART = 5000  # producers, two milliseconds
_VERIFIED_ORIGINS = frozenset({AppendOrigin.CLIENT, AppendOrigin.COORDINATOR})  # those of leaders


class BatchMetadata(NamedTuple):
    """A recent batch of a producer. Sequences and offsets are inclusive, times in milliseconds."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class ProducerStateEntry:
    """State of one producer id in one partition. Owned by its ProducerStateManager."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "current_txn_first_offset",
        "last_timestamp",
        "producer_epoch",
        "producer_id",
    )

    def __init__(self, producer_id: int, producer_epoch: int = NO_PRODUCER_EPOCH) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.coordinator_epoch = -1
        self.last_timestamp = -1
        self.current_txn_first_offset: int | None = None
        self.batches: list[BatchMetadata] = []  # oldest first, at most BATCHES_TO_RETAIN

    def copy(self) -> ProducerStateEntry:
        """Another one that says the same."""
        other = copy(self)
        other.batches = list(self.batches)
        return other

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record, -1 when no batch is known."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def start_epoch(self, producer_epoch: int) -> None:
        """Take over a new epoch; sequences start afresh with it."""
        if producer_epoch != self.producer_epoch:
            self.producer_epoch = producer_epoch
            self.batches.clear()

    def add_batch(self, batch: BatchMetadata) -> None:
        """Remember a batch that has been written.

        One that does not follow on the last one begins a new row of sequences: the producer had
        been forgotten when it was written. Batches of the row before cannot be sent again, and
        must not be taken for those of the new one.
        """
        batches = self.batches
        if batches and batch.first_sequence != advance_sequence(batches[-1].last_sequence, 1):
            batches.clear()
        if len(batches) == BATCHES_TO_RETAIN:
            del batches[0]
        batches.append(batch)
        self.last_timestamp = batch.timestamp


class ProducerStateManager:
    """All producers of one log. Owned by the log.

    `first_unstable_offset` is the first offset of the oldest transaction that is open, or decided
    but not yet below the high watermark; None when there is none. The last stable offset is the
    smaller of it and the high watermark. `map_end_offset` (exclusive) says up to which offset the
    log has been taken into account.
    """

    __slots__ = (
        "_shares",
        "_topic_partition",
        "_unstable",
        "_verifications",
        "first_unstable_offset",
        "map_end_offset",
        "producers",
    )

    def __init__(self, topic_partition: TopicPartition) -> None:
        self._topic_partition = topic_partition
        self.producers: dict[int, ProducerStateEntry] = {}
        self.map_end_offset = 0
        self.first_unstable_offset: int | None = None
        self._shares = 0  # who reads entries: those that change are copied before
        self._unstable: UnstableTransactions | None = None  # None: most logs never have any
        self._verifications: dict[int, VerificationState] = {}  # by producer id

    def advance_to(self, end_offset: int) -> None:
        """The log has been taken into account up to there, exclusive."""
        self.map_end_offset = end_offset

    def find_duplicate(self, header: BatchHeader) -> BatchMetadata | None:
        """The retained batch with the same epoch and sequence range, if there is one."""
        entry = self.producers.get(header.producer_id)
        if entry is None or entry.producer_epoch != header.producer_epoch:
            return None
        first_sequence = header.base_sequence
        for batch in entry.batches:
            if batch.first_sequence == first_sequence and batch.last_sequence == advance_sequence(
                first_sequence, header.last_offset_delta
            ):
                return batch
        return None

    # ---- transactions that may begin (KIP-890)

    def begin_verification(
        self, batch: TransactionalBatch, now_ms: int
    ) -> VerificationState | None:
        """Where to note what the coordinator says of a batch; None if its transaction is open
        here, so that nothing has to be asked.

        KafkaError INVALID_PRODUCER_EPOCH if a newer one wrote here: no coordinator, not even
        that of another transactional id, has a say in it.
        """
        if self.has_ongoing_transaction(batch.producer_id, batch.producer_epoch):
            return None
        entry = self.producers.get(batch.producer_id)
        if entry is not None and batch.producer_epoch < entry.producer_epoch:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)
        state = self._verifications.get(batch.producer_id)
        if state is None:
            state = self._verifications[batch.producer_id] = VerificationState(batch, now_ms)
        else:
            state.note(batch)
        return state

    def end_verification(self, batch: TransactionalBatch, state: VerificationState) -> None:
        """The producer of that batch is not, or no longer, one that may write: it sends nothing
        more whose order would count.
        """
        if state.epoch == batch.producer_epoch and self.is_asked(batch, state):
            del self._verifications[batch.producer_id]

    def is_asked(self, batch: TransactionalBatch, state: VerificationState) -> bool:
        """Whether no marker of its producer has come since, nor a batch."""
        return self._verifications.get(batch.producer_id) is state

    def _verified_state(self, header: BatchHeader) -> VerificationState | None:
        """The state of a batch that begins a transaction, None if it is open here. KafkaError
        INVALID_TXN_STATE if it may not begin.
        """
        producer_id, epoch = header.producer_id, header.producer_epoch
        if self.has_ongoing_transaction(producer_id, epoch):
            return None
        state = self._verifications.get(producer_id)
        if state is None or not state.is_verified(epoch):
            raise self._refusal(
                ErrorCode.INVALID_TXN_STATE, "Record was not part of an ongoing transaction"
            )
        return state

    def _check_first(
        self, header: BatchHeader, offset: int, begun: VerificationState | None
    ) -> None:
        """Raises KafkaError for a batch of a producer that is not known here."""
        if header.producer_epoch < NO_PRODUCER_EPOCH:
            raise self._stale(header, offset, NO_PRODUCER_EPOCH)
        if begun is not None:
            self._check_first_sequence(begun, header, offset)

    def _stale(self, header: BatchHeader, offset: int, last_epoch: int) -> KafkaError:
        return self._refusal(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"Epoch of producer {header.producer_id} at offset {offset} in "
            f"{self._topic_partition} is {header.producer_epoch}, which is smaller than the last "
            f"seen epoch {last_epoch}",
        )

    def _check_first_sequence(
        self, state: VerificationState, header: BatchHeader, offset: int
    ) -> None:
        producer_id, sequence = header.producer_id, header.base_sequence
        entry = self.producers.get(producer_id)
        if sequence and state.begins_at_zero and (entry is None or not entry.batches):
            raise self._refusal(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Invalid sequence number for producer {producer_id} at offset {offset} in "
                f"partition {self._topic_partition}: {sequence} (incoming seq. number). Expected "
                "sequence 0 for transactions v2 idempotent producer with no existing state.",
            )
        if sequence > state.lowest_sequence:
            raise self._refusal(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Out of order sequence number for producer {producer_id} at offset {offset} in "
                f"partition {self._topic_partition}: {sequence} (incoming seq. "
                f"number), {state.lowest_sequence} (earliest seen sequence)",
            )

    # ---- snapshots

    def share(self) -> list[ProducerStateEntry]:
        """All entries as they are now; they stay so until `end_share`."""
        self._shares += 1
        return list(self.producers.values())

    def end_share(self) -> None:
        """End a `share`: its entries are not read any more."""
        self._shares -= 1

    def _own(self, producer_id: int) -> ProducerStateEntry:
        """A producer's entry, to be changed: a new one, or a copy."""
        entry = self.producers.get(producer_id)
        own = ProducerStateEntry(producer_id) if entry is None else entry.copy()
        self.producers[producer_id] = own
        return own

    # ---- writes

    def validate(
        self,
        header: BatchHeader,
        offset: int,
        origin: AppendOrigin,
        marker: ControlRecord | None = None,
    ) -> None:
        """Refuse a batch that may not follow what this producer wrote.

        `offset` is the base offset the batch would get. Raises KafkaError: INVALID_PRODUCER_EPOCH,
        OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_TXN_STATE, TRANSACTION_COORDINATOR_FENCED. What a
        leader has accepted (REPLICATION) is never refused, and an unknown producer may start
        anywhere: its past may have expired. A transaction begins only where
        `begin_verification` was called for it and the coordinator has said yes.
        """
        begun = None
        if header.is_transactional and marker is None and origin in _VERIFIED_ORIGINS:
            begun = self._verified_state(header)
        entry = self.producers.get(header.producer_id)
        if entry is None or origin == AppendOrigin.REPLICATION:
            if origin == AppendOrigin.CLIENT:
                self._check_first(header, offset, begun)
            return
        if header.producer_epoch < entry.producer_epoch:
            raise self._stale(header, offset, entry.producer_epoch)
        if marker is not None:
            self._check_coordinator_epoch(entry, marker, offset)
            return
        if origin == AppendOrigin.CLIENT:
            if begun is not None:
                self._check_first_sequence(begun, header, offset)
            self._check_sequence(entry, header, offset)
        if entry.current_txn_first_offset is not None and not header.is_transactional:
            raise self._refusal(
                ErrorCode.INVALID_TXN_STATE,
                f"Expected transactional write from producer {header.producer_id} at offset "
                f"{offset} in partition {self._topic_partition}",
            )

    def update(
        self, header: BatchHeader, first_offset: int, last_offset: int, timestamp: int
    ) -> None:
        """Record a data batch that has been written at `first_offset` to `last_offset`."""
        producer_id = header.producer_id
        entry = self.producers.get(producer_id)
        if entry is None or self._shares:
            entry = self._own(producer_id)
        if entry.producer_epoch != header.producer_epoch:
            entry.start_epoch(header.producer_epoch)
        first_sequence = header.base_sequence
        last_sequence = advance_sequence(first_sequence, header.last_offset_delta)
        entry.add_batch(
            new_tuple(
                BatchMetadata, (first_sequence, last_sequence, first_offset, last_offset, timestamp)
            )
        )
        if header.attributes & TRANSACTIONAL_BIT:
            self._verifications.pop(producer_id, None)
            if entry.current_txn_first_offset is None:
                entry.current_txn_first_offset = first_offset
                self._begin_transaction(first_offset, producer_id)

    def _begin_transaction(self, first_offset: int, producer_id: int) -> None:
        if self._unstable is None:
            self._unstable = UnstableTransactions()
        self._unstable.begin(first_offset, producer_id)
        self.first_unstable_offset = self._unstable.first_offset

    def end_transaction(
        self, header: BatchHeader, marker: ControlRecord, offset: int, timestamp: int
    ) -> CompletedTxn | None:
        """Record a marker written at `offset`; None when the producer had no transaction open here.

        The transaction stays unstable until `complete` is called and the high watermark has passed
        its marker.
        """
        producer_id = header.producer_id
        self._verifications.pop(producer_id, None)
        entry = self.producers.get(producer_id)
        if entry is None or self._shares:
            entry = self._own(producer_id)
        entry.start_epoch(header.producer_epoch)
        first_offset = entry.current_txn_first_offset
        entry.current_txn_first_offset = None
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp = timestamp
        if first_offset is None:
            return None
        return CompletedTxn(producer_id, first_offset, offset, not marker.is_commit)

    def last_stable_offset_after(self, completed: CompletedTxn) -> int:
        """The last stable offset once `completed` is replicated: for the transaction index."""
        assert self._unstable is not None, completed
        return self._unstable.last_stable_offset_after(completed)

    def complete(self, completed: CompletedTxn) -> None:
        """Move a transaction from open to decided, waiting for the high watermark."""
        assert self._unstable is not None, completed
        self._unstable.complete(completed)
        self.first_unstable_offset = self._unstable.first_offset

    def on_high_watermark(self, high_watermark: int) -> None:
        """Forget the decided transactions whose marker is below the high watermark."""
        if self._unstable is not None:
            self._unstable.replicated(high_watermark)
            self.first_unstable_offset = self._unstable.first_offset
            if self.first_unstable_offset is None:
                self._unstable = None

    def on_log_start_offset(self, log_start_offset: int) -> None:
        """Forget decided transactions that retention or DeleteRecords removed."""
        self.on_high_watermark(log_start_offset)
        self.map_end_offset = max(self.map_end_offset, log_start_offset)

    def has_ongoing_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """True when this producer and epoch have a transaction open in this partition (KIP-890)."""
        entry = self.producers.get(producer_id)
        return (
            entry is not None
            and entry.current_txn_first_offset is not None
            and entry.producer_epoch == producer_epoch
        )

    def remove_expired(self, now_ms: int, expiration_ms: int) -> int:
        """Forget idle producers without an open transaction; how many. What was asked of
        coordinators so long ago is forgotten, too.
        """
        return sum(self.remove_expired_in_parts(now_ms, expiration_ms))

    def remove_expired_in_parts(self, now_ms: int, expiration_ms: int) -> Iterator[int]:
        """The same in small steps, each of which tells how many it forgot."""
        if self._verifications:
            self._verifications = {
                producer_id: state
                for producer_id, state in self._verifications.items()
                if now_ms - state.began_ms < expiration_ms
            }
        producer_ids = list(self.producers)
        for start in range(0, len(producer_ids), _PART):
            expired = [
                producer_id
                for producer_id in producer_ids[start : start + _PART]
                if (entry := self.producers.get(producer_id)) is not None
                and is_expired(entry, now_ms, expiration_ms)
            ]
            for producer_id in expired:
                del self.producers[producer_id]
            yield len(expired)

    def load(self, entries: Iterable[ProducerStateEntry], end_offset: int) -> None:
        """Start from a snapshot's entries, which cover the log up to `end_offset` (exclusive)."""
        self.clear(end_offset)
        for entry in entries:
            self.producers[entry.producer_id] = entry
            if entry.current_txn_first_offset is not None:
                self._begin_transaction(entry.current_txn_first_offset, entry.producer_id)

    def clear(self, end_offset: int) -> None:
        """Forget everything; the log is taken into account up to `end_offset` (exclusive)."""
        self.producers.clear()
        self._unstable = None
        self._verifications.clear()
        self.first_unstable_offset = None
        self.map_end_offset = end_offset

    def _check_sequence(self, entry: ProducerStateEntry, header: BatchHeader, offset: int) -> None:
        first_sequence = header.base_sequence
        if header.producer_epoch != entry.producer_epoch:
            if first_sequence != 0 and entry.producer_epoch != NO_PRODUCER_EPOCH:
                raise self._refusal(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"Invalid sequence number for new epoch of producer {header.producer_id} "
                    f"at offset {offset} in partition {self._topic_partition}: "
                    f"{header.producer_epoch} (request epoch), {first_sequence} (seq. number), "
                    f"{entry.producer_epoch} (current producer epoch)",
                )
            return
        last_sequence = entry.last_sequence
        if first_sequence == last_sequence + 1 or (
            first_sequence == 0 and last_sequence == MAX_SEQUENCE
        ):
            return
        raise self._refusal(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"Out of order sequence number for producer {header.producer_id} at offset {offset} "
            f"in partition {self._topic_partition}: {first_sequence} (incoming seq. number), "
            f"{last_sequence} (current end sequence number)",
        )

    def _check_coordinator_epoch(
        self, entry: ProducerStateEntry, marker: ControlRecord, offset: int
    ) -> None:
        if entry.coordinator_epoch > marker.coordinator_epoch:
            raise self._refusal(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"Invalid coordinator epoch for producer {entry.producer_id} at offset {offset} "
                f"in partition {self._topic_partition}: {marker.coordinator_epoch} (zombie), "
                f"{entry.coordinator_epoch} (current)",
            )

    def _refusal(self, code: ErrorCode, message: str) -> KafkaError:
        return KafkaError(code, message)


def duplicate_append_info(batch: BatchMetadata, log_start_offset: int) -> LogAppendInfo:
    """The answer to a batch that was sent again: where and when it landed the first time. Kafka
    answers with that time as log append time, whatever the topic's timestamp type is.
    """
    return LogAppendInfo(
        batch.first_offset,
        batch.last_offset,
        batch.timestamp,
        batch.last_offset,
        batch.timestamp,
        log_start_offset,
        0,
        duplicate=True,
    )


def advance_sequence(sequence: int, increment: int) -> int:
    """The sequence `increment` records later; 2^31 - 1 is followed by 0."""
    return (sequence + increment) & MAX_SEQUENCE


def is_expired(entry: ProducerStateEntry, now_ms: int, expiration_ms: int) -> bool:
    """True if no transaction is open and nothing was written for `expiration_ms`."""
    return entry.current_txn_first_offset is None and now_ms - entry.last_timestamp >= expiration_ms
