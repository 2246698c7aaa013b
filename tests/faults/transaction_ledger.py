"""What transactional clients of a simulated cluster were told, and what must hold of that.

Law: a transaction is whole: all that was acknowledged of it is visible, in every partition and with
its offsets, or nothing of it ever is. It is visible if its commit was answered, and it is not where
nobody asked to commit it, or only a producer whose successor had its epoch by then (a zombie).
Between the two the brokers decide, and all of it is decided alike. What a power loss took from
`__transaction_state` or from a partition is forgiven there, as in `replication_ledger`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kbroker.coordinator.transaction.producer import NO_PRODUCER, Producer
from kbroker.model import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, TopicPartition
from tests.faults.replication_ledger import Ledger

Source = tuple[TopicPartition, int]  # partition and offset of a record that was copied


@dataclass(slots=True, eq=False)
class Txn:
    """One transaction of one producer; `values` were acknowledged, in this order."""

    transactional_id: str
    name: str
    producer: Producer
    values: dict[TopicPartition, list[bytes]] = field(default_factory=dict)
    group: str | None = None
    offset: int = -1  # to be committed for the group
    may_commit: bool = False
    must_commit: bool = False

    def __repr__(self) -> str:
        return f"transaction {self.name} of {self.producer}"


@dataclass(slots=True)
class IdBook:
    """One transactional id: requests for a producer id, their answers, all that were told, and the
    newest of them; `producer_ids` in the order in which it got them.
    """

    asked: int = 0
    answered: int = 0
    newest: Producer = NO_PRODUCER
    told: set[Producer] = field(default_factory=set)
    producer_ids: list[int] = field(default_factory=list)

    def is_newer(self, producer: Producer, than: Producer) -> bool:
        """Whether a producer was told later than another who it is, or has a higher epoch."""
        return self._rank(producer) > self._rank(than)

    def _rank(self, producer: Producer) -> tuple[int, int]:
        known = self.producer_ids
        at = known.index(producer.producer_id) if producer.producer_id in known else -1
        return at, producer.epoch


@dataclass(slots=True)
class TransactionCounts:
    begun: int = 0
    committed: int = 0
    aborted: int = 0
    with_epochs: int = 0  # ended by the second protocol
    vanished: int = 0
    unsure: int = 0  # touched by a loss of power
    fenced: int = 0
    rivals: int = 0
    copied: int = 0
    read_committed: int = 0
    ambushes: int = 0


@dataclass(slots=True)
class TransactionLedger(Ledger):
    """`state_partition` and `group_partition` are where the brokers keep an id and a group; `leads`
    says whether a broker leads a partition by now.
    """

    txns: list[Txn] = field(default_factory=list)
    txn_of: dict[bytes, Txn] = field(default_factory=dict)  # by value
    ids: dict[str, IdBook] = field(default_factory=dict)
    sources: dict[bytes, Source] = field(default_factory=dict)  # of values that are copies
    offsets: dict[str, dict[int, list[Txn]]] = field(default_factory=dict)  # by group and offset
    ids_expire: bool = False  # those that nobody uses
    of_transactions: TransactionCounts = field(default_factory=TransactionCounts)
    state_partition: Callable[[str], TopicPartition] = lambda _: TopicPartition(
        TRANSACTION_STATE_TOPIC, 0
    )
    group_partition: Callable[[str], TopicPartition] = lambda _: TopicPartition(
        GROUP_METADATA_TOPIC, 0
    )
    leads: Callable[[TopicPartition, int | None], bool] = lambda _partition, _broker: True

    def id_book(self, transactional_id: str) -> IdBook:
        return self.ids.setdefault(transactional_id, IdBook())

    # ---- what was told

    def identified(self, transactional_id: str, producer: Producer) -> bool:
        """A producer was told who it is from now on; False where another was told the same before:
        a coordinator that has lost its log may do that, and partitions cannot tell the two apart.
        """
        book = self.id_book(transactional_id)
        before, is_first = book.newest, producer not in book.told
        book.told.add(producer)
        if producer.producer_id not in book.producer_ids:
            book.producer_ids.append(producer.producer_id)
        if book.is_newer(producer, before):
            book.newest = producer
        if not self.knows_id(transactional_id):
            return is_first
        has_changed = before != NO_PRODUCER and producer.producer_id != before.producer_id
        if has_changed and not self.ids_expire:
            self.model.violate(
                "producer id changed", f"{transactional_id}: {producer} after {before}"
            )
        if not is_first:
            self.model.violate("an epoch for two", f"{transactional_id}: {producer}")
        return is_first

    def is_fenced(self, txn: Txn) -> bool:
        """Whether a successor of its producer has been told so."""
        book = self.id_book(txn.transactional_id)
        return book.is_newer(book.newest, txn.producer)

    def begin(self, txn: Txn) -> None:
        self.of_transactions.begun += 1
        self.txns.append(txn)

    def asks_to_commit(self, txn: Txn) -> None:
        """From here on it may be visible."""
        if not self.is_fenced(txn):
            txn.may_commit = True

    def ended(self, txn: Txn, *, is_commit: bool) -> None:
        """A producer was told that its transaction ends as it asked."""
        if not is_commit:
            self.of_transactions.aborted += 1
            return
        self.of_transactions.committed += 1
        txn.must_commit = True
        if not txn.may_commit and self.knows_id(txn.transactional_id):
            self.model.violate("commit of a zombie", f"{txn} after {self.newest_of(txn)}")

    def newest_of(self, txn: Txn) -> Producer:
        return self.id_book(txn.transactional_id).newest

    def offset_on_its_way(self, txn: Txn, group: str, offset: int) -> None:
        """A producer is about to commit an offset within its transaction."""
        txn.group, txn.offset = group, offset
        self.offsets.setdefault(group, {}).setdefault(offset, []).append(txn)

    def offset_told(self, group: str, offset: int) -> None:
        """Somebody was told what a group has committed."""
        if offset < 0 or not self.knows_group(group):
            return
        txns = self.offsets.get(group, {}).get(offset, [])
        if any(txn.may_commit or not self.knows_id(txn.transactional_id) for txn in txns):
            return
        self.model.violate("offset before its commit", f"group {group} has {offset}: {txns}")

    def read_committed(self, partition: TopicPartition, offset: int, value: bytes) -> None:
        """A reader that waits for the end of transactions was shown a record."""
        self.of_transactions.read_committed += 1
        txn = self.txn_of.get(value)
        if txn is None or txn.may_commit or not self.knows_id(txn.transactional_id):
            return
        if not self.is_excused(partition):
            self.model.violate(
                "read without a commit", f"{partition} at {offset}: {value!r} of {txn}"
            )

    # ---- what is forgiven

    def coordinates_id(self, transactional_id: str, broker_id: int | None) -> bool:
        """Whether a broker coordinates an id by now: one that has lost it without having heard of
        that knows what was.
        """
        return self.leads(self.state_partition(transactional_id), broker_id)

    def coordinates_group(self, group: str, broker_id: int | None) -> bool:
        """As `coordinates_id`."""
        return self.leads(self.group_partition(group), broker_id)

    def knows_id(self, transactional_id: str) -> bool:
        """Whether its coordinator must have kept all that it answered for."""
        return not self.is_excused(self.state_partition(transactional_id))

    def knows_group(self, group: str) -> bool:
        """Whether its coordinator must have kept all that it answered for."""
        return not self.is_excused(self.group_partition(group))

    def may_hang(self, partition: TopicPartition) -> bool:
        """Whether a transaction may be open there for good."""
        states = (p for p in self.excused if p.topic == TRANSACTION_STATE_TOPIC)
        return self.is_excused(partition) or any(states)

    def is_sure(self, txn: Txn) -> bool:
        """Whether no loss of power has touched what it is made of."""
        return self.knows_id(txn.transactional_id) and not any(map(self.is_excused, txn.values))
