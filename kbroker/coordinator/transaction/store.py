"""The transactional ids this broker coordinates, and the shards of `__transaction_state` that keep
them.

Law: owned by the event loop. An id is here exactly while this broker leads its partition and has
loaded it. What is decided of an id is pending until its record is stored, and nothing else is
decided of the id before: a record that enough replicas do not have yet may be lost with this
broker, and the next coordinator would not know of what had been built on it (markers, a partition
that takes part). So a record that is in the log and was not confirmed in time stays pending, though
its client got an error: as long as this broker leads, its log is what will be confirmed, and then
the decision holds. A record that the log has refused never was.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from kbroker.coordinator.runtime.append_errors import append_errors
from kbroker.coordinator.runtime.coordinator_runtime import CoordinatorRuntime
from kbroker.coordinator.runtime.shard import UNCONFIRMED, Settled, nothing
from kbroker.coordinator.transaction.decisions import TransactionEntry, aborted_by_fence
from kbroker.coordinator.transaction.machine import (
    KeptTransaction,
    TransactionMachine,
    TransactionShard,
)
from kbroker.coordinator.transaction.records import expired_record, transaction_record
from kbroker.coordinator.transaction.transaction import (
    WITH_EPOCHS,
    WITHOUT_EPOCHS,
    Transaction,
)
from kbroker.errors import NO_ERROR, ErrorCode, KafkaError

_log = logging.getLogger(__name__)

LOOK_AGAIN_MS = 200.0  # whether enough replicas have a record by now
WRITE_AGAIN_MS = 1000.0  # what has to be written, and was refused
_APPEND_ERRORS = {
    **append_errors(too_large=ErrorCode.UNKNOWN_SERVER_ERROR),
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}


class TransactionStore:
    """Finds transactional ids and writes what is decided of them."""

    def __init__(
        self,
        runtime: CoordinatorRuntime[TransactionMachine],
        on_decided: Callable[[KeptTransaction], None],
        level: Callable[[], int],
    ) -> None:
        """`on_decided` is called when it is stored how a transaction ends, or was loaded so;
        `level` returns the transaction.version of the cluster.
        """
        self.runtime = runtime
        self._level = level
        self.on_decided = on_decided
        self._homes: dict[TransactionMachine, None] = {}

    # ---- look up

    def find(self, transactional_id: str) -> KeptTransaction | None:
        """Return None for an id that nobody uses.

        KafkaError: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS.
        """
        return self._home(transactional_id).kept.get(transactional_id)

    def create(self, transaction: Transaction) -> KeptTransaction:
        """Keep an id that was not here; nothing is written yet. KafkaError as `find`."""
        home = self._home(transaction.transactional_id)
        assert transaction.transactional_id not in home.kept
        created = KeptTransaction(TransactionEntry(transaction), home)
        home.kept[transaction.transactional_id] = created
        return created

    def _home(self, transactional_id: str) -> TransactionMachine:
        shard = self.runtime.shard_for(transactional_id)
        if shard is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        if shard.machine is None:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return shard.machine

    def homes(self) -> list[TransactionMachine]:
        """The partitions that serve here."""
        return list(self._homes)

    def __len__(self) -> int:
        return sum(len(home.kept) for home in self.homes())

    def __iter__(self) -> Iterator[KeptTransaction]:
        for home in self.homes():
            yield from list(home.kept.values())

    # ---- write

    def write(self, kept: KeptTransaction, decided: Transaction, heard: Settled) -> None:
        """Write what was decided; `heard` is called once, NONE when it holds.

        Otherwise with the code for clients: COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR,
        UNKNOWN_SERVER_ERROR. It may hold later all the same.
        """

        def refused(error: ErrorCode) -> None:
            kept.entry.pending = None
            heard(_APPEND_ERRORS.get(error, error))

        self._append(kept, decided, heard, refused)

    def abort(self, kept: KeptTransaction, fenced: Transaction, heard: Settled) -> None:
        """Abort an open transaction as `fence` has decided; `heard` as by `write`.

        Its producer is refused from now on, even if the abort cannot be written.
        """
        kept.entry.hold_off(fenced)
        client_version = WITH_EPOCHS if self._level() >= WITH_EPOCHS else WITHOUT_EPOCHS
        now_ms = self.runtime.now().wall_ms
        self.write(kept, aborted_by_fence(fenced, now_ms, client_version), heard)

    def complete(self, kept: KeptTransaction) -> None:
        """Write that all partitions know how a transaction has ended, until that is stored."""
        completed = kept.entry.pending
        assert completed is not None

        def refused(error: ErrorCode) -> None:
            _log.warning(
                "The end of transaction %s is not stored, and written again: %s",
                kept.transactional_id,
                error.name,
            )
            self._later(kept, WRITE_AGAIN_MS, lambda: self.complete(kept))

        self._append(kept, completed, lambda _: None, refused)

    def _append(
        self, kept: KeptTransaction, decided: Transaction, heard: Settled, refused: Settled
    ) -> None:
        record = transaction_record(decided, self._level())
        kept.entry.pending = decided

        def settled(error: ErrorCode) -> None:
            if not kept.home.is_led:
                heard(ErrorCode.NOT_COORDINATOR)
            elif error is NO_ERROR:
                kept.entry.take_over()
                heard(NO_ERROR)
                self._go_on(kept)
            elif error in UNCONFIRMED:
                heard(_APPEND_ERRORS[error])
                self._await_replicas(kept, kept.home.shard.log.log_end_offset)
            else:
                refused(error)

        kept.home.shard.write([record], nothing, settled)

    def _await_replicas(self, kept: KeptTransaction, end_offset: int) -> None:
        """Let what is pending hold when enough replicas have the log up to `end_offset`."""
        if kept.home.shard.log.high_watermark < end_offset:
            self._later(kept, LOOK_AGAIN_MS, lambda: self._await_replicas(kept, end_offset))
        else:
            kept.entry.take_over()
            self._go_on(kept)

    def _later(self, kept: KeptTransaction, delay_ms: float, work: Callable[[], None]) -> None:
        def fire() -> None:
            if kept.home.is_led:
                work()

        self.runtime.set_timer(kept, self.runtime.monotonic_ms() + delay_ms, fire)

    def _go_on(self, kept: KeptTransaction) -> None:
        if kept.entry.transaction.state.is_ending:
            self.on_decided(kept)

    # ---- forget

    def forget(self, home: TransactionMachine, expired: list[KeptTransaction]) -> None:
        """Write the tombstones of ids of one partition; the ids are gone when its log has them.

        They need no replicas: what gets lost is found to be expired again, and whatever is written
        of these ids later stands after the tombstones.
        """
        for kept in expired:
            kept.entry.pending = kept.entry.transaction.dead()

        def settled(error: ErrorCode) -> None:
            if error is not NO_ERROR:
                _log.warning("Tombstones of %d transactional ids: %s", len(expired), error.name)
            for kept in expired:
                kept.entry.pending = None
                if error is NO_ERROR:
                    home.kept.pop(kept.transactional_id, None)

        tombstones = [expired_record(kept.transactional_id) for kept in expired]
        home.shard.write_in_parts(tombstones, lambda _: None, settled)

    # ---- shards

    def new_machine(self, shard: TransactionShard) -> TransactionMachine:
        """The transactional ids of a partition that is led from now on."""
        return TransactionMachine(shard, self._take_in, self._give_up)

    def _take_in(self, home: TransactionMachine) -> None:
        """The ids of a partition are here now; transactions that were about to end do so."""
        self._homes[home] = None
        end_offset = home.shard.log.log_end_offset
        for kept in home.to_go_on:
            if kept.entry.pending is not None:
                self._await_replicas(kept, end_offset)
            else:
                self._go_on(kept)
        home.to_go_on.clear()

    def _give_up(self, home: TransactionMachine) -> None:
        del self._homes[home]
