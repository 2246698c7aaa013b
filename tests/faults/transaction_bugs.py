"""Known mistakes of transactions, each a context manager that makes brokers commit this one.

The simulation of transactions must find every one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from kbroker.coordinator import transaction_coordinator
from kbroker.coordinator.group.offsets import GroupOffsets
from kbroker.coordinator.group.replay import GroupReplay
from kbroker.coordinator.runtime.batch_append import BatchAppend
from kbroker.coordinator.transaction import decisions
from kbroker.coordinator.transaction import endings as transaction_endings
from kbroker.coordinator.transaction import upkeep as transaction_upkeep
from kbroker.coordinator.transaction.add_partitions_to_txn_manager import AddPartitionsToTxnManager
from kbroker.coordinator.transaction.endings import TransactionEndings
from kbroker.coordinator.transaction.machine import KeptTransaction, TransactionMachine
from kbroker.coordinator.transaction.store import TransactionStore
from kbroker.coordinator.transaction.transaction import Transaction, TransactionState
from kbroker.coordinator.transaction.upkeep import TransactionUpkeep
from kbroker.errors import ErrorCode
from kbroker.log.partition.log_offsets import LogOffsets
from kbroker.log.producers.producer_state import ProducerStateManager
from kbroker.log.segments.transaction_index import TransactionIndex
from kbroker.model import TRANSACTION_STATE_TOPIC
from tests.faults.replication_bugs import producers_forgotten

Mistake = Callable[[], AbstractContextManager[Any]]
_ONGOING = TransactionState.ONGOING


# ---- fences


def epoch_not_raised_for_the_next_producer() -> AbstractContextManager[Any]:
    """InitProducerId tells a producer the epoch of the one before."""

    def next_epoch(transaction: Transaction, _expected: int) -> tuple[int, int]:
        return max(transaction.producer.epoch, 0), transaction.last_epoch

    return patch.object(decisions, "_next_epoch", next_epoch)


def open_transaction_left_to_the_next_producer() -> AbstractContextManager[Any]:
    """InitProducerId does not abort what is open."""
    original = transaction_coordinator.initialized

    def initialized(entry: Any, *args: Any) -> Transaction:
        transaction = entry.transaction
        if transaction.state is _ONGOING and entry.pending is None:
            entry = decisions.TransactionEntry(replace(transaction, state=TransactionState.EMPTY))
        return original(entry, *args)

    return patch.object(transaction_coordinator, "initialized", initialized)


def epoch_not_raised_by_a_time_out() -> AbstractContextManager[Any]:
    """A transaction that took too long is aborted under its own epoch."""

    def fence(entry: decisions.TransactionEntry) -> Transaction:
        return entry.transaction.fenced(entry.transaction.producer.epoch)

    return patch.object(transaction_upkeep, "fence", fence)


def producers_not_compared() -> AbstractContextManager[Any]:
    """The coordinator takes requests of producers whose epoch has gone by."""
    return patch.object(decisions, "_check_producer", lambda *_: None)


def participation_not_verified() -> AbstractContextManager[Any]:
    """A batch begins a transaction whatever its coordinator knows."""

    def verify(_manager: Any, asked: Any) -> Any:
        return asked.all_are(ErrorCode.NONE)

    return patch.object(AddPartitionsToTxnManager, "verify", verify)


# ---- decisions and their log


def decided_before_it_is_stored() -> AbstractContextManager[Any]:
    """EndTxn is answered, and markers are sent, when the leader alone has the decision."""
    original = BatchAppend.append

    def append(self: BatchAppend, partition: Any, rows: Any, options: Any, acks: int) -> Any:
        is_state = partition.topic == TRANSACTION_STATE_TOPIC
        return original(self, partition, rows, options, 1 if is_state else acks)

    return patch.object(BatchAppend, "append", append)


def decided_while_something_is_on_its_way() -> AbstractContextManager[Any]:
    """A partition is added although it is stored how the transaction ends."""

    def with_partitions(
        entry: Any, producer: Any, partitions: Any, now_ms: int, client_version: int = 0
    ) -> Any:
        transaction = entry.transaction
        decisions._check_producer(transaction, producer)
        if transaction.state is _ONGOING and transaction.partitions.issuperset(partitions):
            return None
        return transaction.with_partitions(partitions, now_ms, client_version)

    return patch.object(transaction_coordinator, "with_partitions", with_partitions)


def other_end_accepted() -> AbstractContextManager[Any]:
    """EndTxn is answered with success where the transaction has ended otherwise."""
    original = transaction_coordinator.ended

    def ended(entry: Any, *args: Any, **named: Any) -> Any:
        if entry.pending is None and entry.transaction.state is TransactionState.COMPLETE_ABORT:
            named["is_commit"] = False
        return original(entry, *args, **named)

    return patch.object(transaction_coordinator, "ended", ended)


def time_outs_abort_what_is_to_be_committed() -> AbstractContextManager[Any]:
    """A transaction that has taken too long is aborted although its commit is stored."""

    def time_out(upkeep: TransactionUpkeep) -> Iterator[None]:
        for kept in upkeep._store:
            transaction = kept.entry.transaction
            is_late = transaction.start_ms + transaction.timeout_ms < upkeep._runtime.now().wall_ms
            if is_late and transaction.state in (_ONGOING, TransactionState.PREPARE_COMMIT):
                fenced = decisions.fence(kept.entry)
                upkeep._store.abort(kept, fenced, lambda _: None)
            yield

    return patch.object(TransactionUpkeep, "_time_out", time_out)


def loaded_without_the_last_record() -> AbstractContextManager[Any]:
    """A coordinator reads all but the last record of an id."""
    original = TransactionMachine.record

    def record(machine: TransactionMachine, key: Any, value: Any, *args: Any) -> None:
        before = getattr(machine, "held_back", None)
        if before is not None:
            original(machine, *before)
        vars(machine)["held_back"] = (key, value, *args)

    return patch.object(TransactionMachine, "record", record)


def coordinating_after_it_has_moved() -> AbstractContextManager[Any]:
    """A coordinator that another has replaced goes on with what it knows."""
    original = TransactionStore._home

    def home(store: TransactionStore, transactional_id: str) -> TransactionMachine:
        for machine in _homes_of_the_past(store):
            if transactional_id in machine.kept:
                return machine
        return original(store, transactional_id)

    def give_up(store: TransactionStore, machine: TransactionMachine) -> None:
        _homes_of_the_past(store).append(machine)
        del store._homes[machine]

    def on_resigned(machine: TransactionMachine) -> None:
        machine._resigned(machine)

    return _all(
        patch.object(TransactionStore, "_home", home),
        patch.object(TransactionStore, "_give_up", give_up),
        patch.object(TransactionMachine, "on_resigned", on_resigned),
    )


def _homes_of_the_past(store: TransactionStore) -> list[TransactionMachine]:
    found: list[TransactionMachine] = vars(store).setdefault("homes_of_the_past", [])
    return found


# ---- markers


def one_partition_without_a_marker() -> AbstractContextManager[Any]:
    """The last partition of several is not told how a transaction ends."""
    original = transaction_endings._markers_of

    def markers_of(prepared: Transaction, coordinator_epoch: int) -> Any:
        markers = original(prepared, coordinator_epoch)
        return replace(markers, partitions=frozenset(sorted(markers.partitions)[:-1] or ()))

    return patch.object(transaction_endings, "_markers_of", markers_of)


def completed_before_its_markers() -> AbstractContextManager[Any]:
    """A transaction is written as complete, and then its markers are sent."""

    async def end(endings: TransactionEndings, kept: KeptTransaction, prepared: Any) -> None:
        endings._store.complete(kept)
        markers = transaction_endings._markers_of(prepared, kept.home.shard.epoch)
        await endings._error_of(markers)

    return patch.object(TransactionEndings, "_end", end)


def markers_not_sent_again_after_a_load() -> AbstractContextManager[Any]:
    """The next coordinator takes what its predecessor began to end for ended."""
    original = TransactionStore._take_in

    def take_in(store: TransactionStore, machine: TransactionMachine) -> None:
        ended = [k for k in machine.kept.values() if k.entry.transaction.state.is_ending]
        for kept in ended:
            completed = kept.entry.transaction.completed(store.runtime.now().wall_ms)
            kept.entry.transaction, kept.entry.pending = completed, None
        original(store, machine)

    return patch.object(TransactionStore, "_take_in", take_in)


# ---- offsets of groups


def pending_offsets_visible() -> AbstractContextManager[Any]:
    """Offsets count before their transaction ends."""
    original = GroupOffsets.replay

    def replay(offsets: GroupOffsets, partition: Any, value: Any, _producer_id: Any) -> None:
        original(offsets, partition, value, None)

    return patch.object(GroupOffsets, "replay", replay)


def offsets_of_aborted_transactions_kept() -> AbstractContextManager[Any]:
    """Offsets count however their transaction ends."""
    original = GroupOffsets.end_transaction

    def end(offsets: GroupOffsets, producer_id: int, _is_commit: bool) -> None:
        original(offsets, producer_id, True)

    return patch.object(GroupOffsets, "end_transaction", end)


def offsets_of_transactions_not_loaded() -> AbstractContextManager[Any]:
    """The next coordinator of a group does not read what was committed in transactions."""
    original = GroupReplay.record

    def record(replay: GroupReplay, key: Any, value: Any, at: int, producer_id: Any) -> None:
        if producer_id is None:
            original(replay, key, value, at, producer_id)

    return patch.object(GroupReplay, "record", record)


# ---- what readers of committed records are shown


def stable_offset_of_the_high_watermark() -> AbstractContextManager[Any]:
    """Open transactions hold nobody back."""
    return patch.object(LogOffsets, "last_stable_offset", lambda offsets, _: offsets.high_watermark)


def aborted_transactions_cut_off() -> AbstractContextManager[Any]:
    """A log that is cut forgets all its aborted transactions."""

    def truncate_to(index: TransactionIndex, _offset: int) -> None:
        index._entries = []

    return patch.object(TransactionIndex, "truncate_to", truncate_to)


def aborted_transactions_not_loaded() -> AbstractContextManager[Any]:
    """A broker that starts forgets which transactions were aborted."""
    return patch.object(TransactionIndex, "_load", lambda _: [])


def open_transactions_not_loaded() -> AbstractContextManager[Any]:
    """A snapshot of producers says nothing of transactions that are open."""
    original = ProducerStateManager.load

    def load(state: ProducerStateManager, entries: Any, end_offset: int) -> None:
        known = list(entries)
        for entry in known:
            entry.current_txn_first_offset = None
        original(state, known, end_offset)

    return patch.object(ProducerStateManager, "load", load)


def _all(*mistakes: AbstractContextManager[Any]) -> AbstractContextManager[Any]:
    stack = ExitStack()
    for mistake in mistakes:
        stack.enter_context(mistake)
    return stack


# A seed, and the steps of its history, with which each is found soon, where that is not the first.
FOUND_SOON: dict[Mistake, tuple[int, int]] = {
    epoch_not_raised_for_the_next_producer: (2, 30),
    producers_forgotten: (2, 30),
    completed_before_its_markers: (11, 30),
    open_transaction_left_to_the_next_producer: (7, 6),
    epoch_not_raised_by_a_time_out: (23, 20),
    producers_not_compared: (23, 6),
    participation_not_verified: (16, 6),
    other_end_accepted: (24, 30),
    time_outs_abort_what_is_to_be_committed: (43, 6),
    loaded_without_the_last_record: (33, 15),
    coordinating_after_it_has_moved: (170, 30),
    one_partition_without_a_marker: (5, 6),
    markers_not_sent_again_after_a_load: (43, 6),
    pending_offsets_visible: (16, 6),
    offsets_of_aborted_transactions_kept: (40, 10),
    offsets_of_transactions_not_loaded: (23, 6),
    stable_offset_of_the_high_watermark: (2, 6),
    aborted_transactions_cut_off: (55, 60),
    aborted_transactions_not_loaded: (6, 60),
    open_transactions_not_loaded: (12, 30),
    decided_before_it_is_stored: (33, 10),
}
PLANTED: tuple[Mistake, ...] = (
    epoch_not_raised_for_the_next_producer,
    open_transaction_left_to_the_next_producer,
    epoch_not_raised_by_a_time_out,
    producers_not_compared,
    participation_not_verified,
    decided_before_it_is_stored,
    decided_while_something_is_on_its_way,
    other_end_accepted,
    time_outs_abort_what_is_to_be_committed,
    loaded_without_the_last_record,
    coordinating_after_it_has_moved,
    one_partition_without_a_marker,
    completed_before_its_markers,
    markers_not_sent_again_after_a_load,
    pending_offsets_visible,
    offsets_of_aborted_transactions_kept,
    offsets_of_transactions_not_loaded,
    stable_offset_of_the_high_watermark,
    aborted_transactions_cut_off,
    aborted_transactions_not_loaded,
    open_transactions_not_loaded,
    producers_forgotten,
)
