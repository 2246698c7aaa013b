"""Checks of transactions in a simulated cluster that has come to rest: nothing is open or on its
way, coordinators know what their logs say, and each transaction is visible as a whole, or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from kbroker.coordinator.transaction.records import read_transaction, read_transaction_log_key
from kbroker.coordinator.transaction.transaction import Transaction
from kbroker.log.partition.log import Log
from kbroker.model import TRANSACTION_STATE_TOPIC, TopicPartition
from kbroker.record.record_batch import read_control, read_header, records
from tests.faults.cluster_checks import batches_in
from tests.faults.cluster_process import BrokerProcess
from tests.faults.transaction_ledger import TransactionLedger, Txn
from tests.faults.transaction_readers import CommittedReader

# ---- what is still under way


def unsettled(processes: Sequence[BrokerProcess], ledger: TransactionLedger) -> Iterator[str]:
    """List transactions that have not ended yet, and partitions whose readers are held back: what
    lost its power may have lost a marker, or that a transaction was open.
    """
    for process in processes:
        yield from _held_back(process, ledger)
        yield from _undecided(process, ledger)
        yield from _pending_offsets(process, ledger)


def _held_back(process: BrokerProcess, ledger: TransactionLedger) -> Iterator[str]:
    for partition in process.replicas.hosted:
        log = partition.log
        is_held = log.last_stable_offset != log.high_watermark
        state = process.metadata.partition_state(partition.topic_partition)
        # As in Kafka, a broker that was away when its replica was taken away keeps the log.
        if state is None or process.broker_id not in state.replicas:
            continue
        if is_held and not ledger.may_hang(partition.topic_partition):
            yield (
                f"{partition.topic_partition} on {process} is stable up to "
                f"{log.last_stable_offset} of {log.high_watermark}"
            )


def _undecided(process: BrokerProcess, ledger: TransactionLedger) -> Iterator[str]:
    for kept in process.parts.services.transactions.store:
        if not ledger.knows_id(kept.transactional_id):
            continue  # as in Kafka, no marker can end what a partition knows a later epoch of
        transaction = kept.entry.transaction
        if kept.entry.pending is not None or not transaction.state.is_over:
            yield f"{process}: {transaction}, on its way {kept.entry.pending}"


def _pending_offsets(process: BrokerProcess, ledger: TransactionLedger) -> Iterator[str]:
    for coordinated in process.parts.services.groups.store:
        if ledger.may_hang(ledger.group_partition(coordinated.group.group_id)):
            continue
        pending = coordinated.group.offsets.pending
        if pending:
            yield f"{process}: offsets of {coordinated.group.group_id} are pending: {dict(pending)}"


def behind(readers: Sequence[CommittedReader], processes: Sequence[BrokerProcess]) -> Iterator[str]:
    """List readers that have not come to where they are held back."""
    for reader in readers:
        log = leader_log(processes, reader.partition)
        if log is not None and reader.position < log.last_stable_offset:
            yield f"{reader} has not come to {log.high_watermark}"


# ---- coordinators


def strayed_coordinators(processes: Sequence[BrokerProcess]) -> Iterator[str]:
    """Compare what coordinators know with what the next ones would find in their logs."""
    for process in processes:
        written: dict[str, Transaction] = {}
        for partition in process.replicas.hosted:
            if partition.is_leader and partition.topic_partition.topic == TRANSACTION_STATE_TOPIC:
                written |= transactions_in(partition.log)
        entries = {
            kept.transactional_id: kept.entry for kept in process.parts.services.transactions.store
        }
        for name in sorted({*written, *entries}):
            entry = entries.get(name)
            if entry is not None and entry.pending is not None:
                continue  # forgiven, or it would not be at rest
            has, wants = entry and entry.transaction, written.get(name)
            if _recorded(has) != _recorded(wants):
                yield f"{process} has {has}, its log {wants}"


def transactions_in(log: Log) -> dict[str, Transaction]:
    """The transactional ids of a partition of `__transaction_state`, as its last records have them."""
    found: dict[str, Transaction] = {}
    for _, data in batches_in(log):
        for record in records(data):
            name = read_transaction_log_key(record.key or b"").transactional_id
            found.pop(name, None)
            if record.value is not None:
                found[name] = read_transaction(name, record.value)
    return found


def _recorded(transaction: Transaction | None) -> object:
    if transaction is None:
        return None
    return (
        transaction.producer,
        transaction.state,
        transaction.partitions,
        transaction.timeout_ms,
        transaction.start_ms,
        transaction.update_ms,
    )


# ---- records


@dataclass(slots=True)
class Decided:
    """What markers of a log have decided: `committed` values by offset, and what is left `open`."""

    committed: dict[int, bytes] = field(default_factory=dict)
    open: dict[int, dict[int, bytes]] = field(default_factory=dict)  # by producer id


def decided_in(log: Log) -> Decided:
    """Read a log from its start."""
    decided = Decided()
    for _, data in batches_in(log):
        header = read_header(data)
        if header.is_control:
            (record,) = records(data)
            control = read_control(record)
            values = decided.open.pop(header.producer_id, {})
            if control is not None and control.is_commit:
                decided.committed |= values
            continue
        values = {record.offset: record.value or b"" for record in records(data)}
        if header.is_transactional:
            decided.open.setdefault(header.producer_id, {}).update(values)
        else:
            decided.committed |= values
    return decided


def leader_log(processes: Sequence[BrokerProcess], partition: TopicPartition) -> Log | None:
    """The log of the broker that leads a partition."""
    for process in processes:
        held = process.replicas.hosted.find(partition)
        if held is not None and held.is_leader:
            return held.log
    return None


class Verdict:
    """Of all transactions of a cluster at rest."""

    def __init__(
        self,
        processes: Sequence[BrokerProcess],
        ledger: TransactionLedger,
        partitions: Sequence[TopicPartition],
    ) -> None:
        self._processes = processes
        self._ledger = ledger
        self.decided: dict[TopicPartition, Decided] = {}
        for partition in partitions:
            log = leader_log(processes, partition)
            if log is not None:
                self.decided[partition] = decided_in(log)

    def broken(self) -> Iterator[str]:
        """List what is not as producers were told."""
        for partition, decided in self.decided.items():
            if decided.open and not self._ledger.may_hang(partition):
                yield f"{partition} has transactions without an end: {decided.open}"
        visible = self._visible()
        for txn in self._ledger.txns:
            if self._ledger.is_sure(txn):
                yield from _torn(txn, visible.get(txn, {}))

    def _visible(self) -> dict[Txn, dict[TopicPartition, list[bytes]]]:
        """The values of each transaction that are there, in the order of the logs."""
        found: dict[Txn, dict[TopicPartition, list[bytes]]] = {}
        for partition, decided in self.decided.items():
            if self._ledger.is_excused(partition):
                continue
            for _, value in sorted(decided.committed.items()):
                txn = self._ledger.txn_of.get(value)
                if txn is not None:
                    found.setdefault(txn, {}).setdefault(partition, []).append(value)
        return found

    def misread(self, readers: Sequence[CommittedReader]) -> Iterator[str]:
        """List readers that were shown more or less than what was committed."""
        for reader in readers:
            decided = self.decided.get(reader.partition)
            if decided is None or self._ledger.is_excused(reader.partition):
                continue
            wanted = {o: v for o, v in decided.committed.items() if o < reader.position}
            if reader.read != wanted:
                more = sorted(set(reader.read.items()) - set(wanted.items()))[:3]
                less = sorted(set(wanted.items()) - set(reader.read.items()))[:3]
                yield f"{reader} has read {more}, and has not read {less}"

    def miscopied(self, source: TopicPartition, group: str, transactional_id: str) -> Iterator[str]:
        """List records that were not copied once, up to the group's offset, or beyond it."""
        ledger = self._ledger
        if not (ledger.knows_group(group) and ledger.knows_id(transactional_id)):
            return
        if source not in self.decided or any(map(ledger.is_excused, self.decided)):
            return
        position = self.offset_of(group, source)
        wanted = [o for o in sorted(self.decided[source].committed) if o < position]
        copies = sorted(
            ledger.sources[value][1]
            for decided in self.decided.values()
            for value in decided.committed.values()
            if ledger.sources.get(value, (None, 0))[0] == source
            and ledger.txn_of[value].transactional_id == transactional_id
        )
        if copies != wanted:
            odd = sorted(set(copies) ^ set(wanted))[:5]
            yield f"{group} at {position} of {source}: {len(copies)} copies, {len(wanted)} wanted, {odd}"

    def offset_of(self, group: str, source: TopicPartition) -> int:
        """The offset that a group has committed, as its coordinator knows."""
        for process in self._processes:
            for coordinated in process.parts.services.groups.store:
                if coordinated.group.group_id == group:
                    return max(coordinated.group.offsets.fetch(source, False).offset, 0)
        return 0


def _torn(txn: Txn, visible: dict[TopicPartition, list[bytes]]) -> Iterator[str]:
    if txn.must_commit and visible != txn.values:
        yield f"{txn} was committed: {txn.values}, visible is {visible}"
    elif visible and not txn.may_commit:
        yield f"{txn} was not committed, visible is {visible}"
    elif visible and visible != txn.values:
        yield f"{txn} is torn: {txn.values}, visible is {visible}"
