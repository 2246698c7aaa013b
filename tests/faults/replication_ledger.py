"""What clients of a simulated cluster were told of its records, and what must hold of that.

Law: an offset has one value for good once anybody has seen it below a high watermark, or a producer
was told of it under acks=all. Records may go where somebody asked for it, or allowed it: topics with
unclean elections, topics whose records are deleted, and partitions whose new leader had lost what it
had not synced (`excused`), which no broker can help without a sync.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from kbroker.model import NO_LEADER, LeaderAndIsr, TopicPartition
from kbroker.record.record_batch import Record
from tests.faults.cluster_model import ClusterModel

MIN_ISR = 2
Observer = tuple[int, str]  # number of the process, who looks at it


def shown(record: Record) -> bytes:
    """Return key and value of a record, as books have them."""
    value = record.value or b""
    return value if record.key is None else record.key + b"=" + value


@dataclass(slots=True)
class Book:
    """One partition."""

    values: dict[int, bytes] = field(default_factory=dict)  # committed, by offset
    acknowledged: dict[int, bytes] = field(default_factory=dict)  # under acks=all
    unplaced: list[bytes] = field(default_factory=list)  # acknowledged without an offset
    watermarks: dict[Observer, int] = field(default_factory=dict)  # the highest seen
    highest: int = 0  # of all that were seen
    deleted_before: int = 0  # somebody asked for it
    # Brokers that have lost what was not synced, each with its registration at that time.
    tainted: dict[int, int] = field(default_factory=dict)
    leader: int = NO_LEADER
    isr: frozenset[int] = frozenset()
    has_moved: bool = False  # a reassignment was asked for


@dataclass(slots=True)
class LedgerCounts:
    acknowledged: int = 0
    consumed: int = 0
    scanned: int = 0
    commits: int = 0
    excuses: int = 0
    abandoned: int = 0


@dataclass(slots=True)
class Ledger:
    """`unclean` and `shrinking` are topics that may lose records, and that delete old ones;
    `holders` counts the replicas that have an offset, or may have it as nobody can look now.
    """

    model: ClusterModel
    books: dict[TopicPartition, Book] = field(default_factory=dict)
    excused: set[TopicPartition] = field(default_factory=set)
    unclean: set[str] = field(default_factory=set)
    shrinking: set[str] = field(default_factory=set)
    sent: set[bytes] = field(default_factory=set)
    idempotent: set[bytes] = field(default_factory=set)  # names of producers
    ordered: set[bytes] = field(default_factory=set)  # those whose order is checked
    lenient: set[str] = field(default_factory=set)  # topics with min.insync.replicas below 2
    holders: Callable[[TopicPartition, int], int] = lambda _partition, _offset: MIN_ISR
    commits: dict[str, int] = field(default_factory=dict)  # acknowledged, by group
    counts: LedgerCounts = field(default_factory=LedgerCounts)

    def book(self, partition: TopicPartition) -> Book:
        found = self.books.get(partition)
        if found is None:
            found = self.books[partition] = Book()
        return found

    def used_books(self) -> list[tuple[TopicPartition, Book]]:
        """Those of which something was seen; others may have been wishes for what was never made."""
        used = ((n, b) for n, b in self.books.items() if b.values or b.acknowledged or b.watermarks)
        return sorted(used, key=lambda each: each[0])

    def is_excused(self, partition: TopicPartition) -> bool:
        """Whether this partition may lose records."""
        return partition in self.excused or partition.topic in self.unclean

    # ---- what was seen

    def seen(self, partition: TopicPartition, offset: int, value: bytes, where: str) -> None:
        """A record lies below a high watermark."""
        if self.is_excused(partition):
            return
        known = self.book(partition).values.setdefault(offset, value)
        if known != value:
            self.model.violate(
                "two values", f"{partition} at {offset}: {value!r} {where}, before {known!r}"
            )

    def acknowledged(
        self, partition: TopicPartition, base_offset: int, values: Sequence[bytes]
    ) -> None:
        """A producer was told so under acks=all; offset -1: that they are there."""
        book = self.book(partition)
        last_offset = base_offset + len(values) - 1
        if (
            not (self.is_excused(partition) or book.has_moved or partition.topic in self.lenient)
            and base_offset >= 0
            and self.holders(partition, last_offset) < MIN_ISR
        ):
            self.model.violate("acknowledged too soon", f"{partition} at {last_offset}")
        for index, value in enumerate(values):
            self.counts.acknowledged += 1
            if base_offset < 0:
                book.unplaced.append(value)
                continue
            self.seen(partition, base_offset + index, value, "as acknowledged")
            book.acknowledged[base_offset + index] = value

    def watermark(self, partition: TopicPartition, observer: Observer, high_watermark: int) -> None:
        """A process has shown a high watermark to somebody."""
        book = self.book(partition)
        before = book.watermarks.get(observer, -1)
        book.watermarks[observer] = max(before, high_watermark)
        book.highest = max(book.highest, high_watermark)
        if high_watermark < before and not self.is_excused(partition) and not book.has_moved:
            self.model.violate(
                "high watermark went back",
                f"{partition} at process {observer}: {high_watermark} after {before}",
            )

    def committed(self, group: str, offset: int) -> None:
        """A group was told that its offset is stored."""
        self.counts.commits += 1
        self.commits[group] = max(self.commits.get(group, -1), offset)

    # ---- what is forgiven

    def may_move(self, partition: TopicPartition) -> None:
        """Somebody wants other replicas: a log may be deleted, and begun anew in the same process."""
        self.book(partition).has_moved = True

    def lost_power(
        self, broker_id: int, partitions: Mapping[TopicPartition, int], registration: int
    ) -> None:
        """Note that what its replicas had not synced may be gone; the partitions come with the
        number of their replicas: no other state follows where it was the only one.
        """
        for partition, replicas in partitions.items():
            book = self.book(partition)
            book.tainted[broker_id] = registration
            if replicas == 1 and book.leader == broker_id:
                self.excuse(partition, f"{broker_id} is its only replica and lost its power")

    def on_state(
        self,
        partition: TopicPartition,
        leadership: LeaderAndIsr,
        registration_of: Callable[[int], int],
    ) -> None:
        """The tree has another leader or ISR."""
        book = self.book(partition)
        book.leader = leadership.leader
        leader, tainted = leadership.leader, book.tainted.keys()
        is_new = bool(book.isr) and leader not in {*book.isr, NO_LEADER}
        if leader in tainted or (is_new and book.isr <= tainted):
            self.excuse(partition, f"{leader} leads after a loss of power")
        isr = frozenset(leadership.isr)
        for broker_id in (isr - book.isr) & book.tainted.keys():
            if registration_of(broker_id) != book.tainted[broker_id]:
                del book.tainted[broker_id]  # since then it has copied all that its leader has
        book.isr = isr

    def excuse(self, partition: TopicPartition, reason: str) -> None:
        """From here on it may have lost records."""
        if not self.is_excused(partition):
            self.counts.excuses += 1
            self.excused.add(partition)
            self.model.say(f"excused: {partition}: {reason}")
