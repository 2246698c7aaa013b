"""What a broker has promised so far: the other side of every check of a crash image.

A batch is known by its bytes as they lie in the log. `known` holds every batch that was ever
written at an offset, `promised` those that no power loss may take: acknowledged with acks=all,
below a recovery point, or found on the disk by an earlier recovery. The cleaner may take a record
all the same once a later one has its key.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import UUID

from kbroker.config.topic_config import TopicConfig
from kbroker.model import TopicPartition
from kbroker.record.record_batch import BatchHeader, Record, read_control, read_header, records

Value = tuple[bytes | None, bytes | None]  # key and value of a record


@dataclass(slots=True)
class PartitionPromise:
    """One partition of one incarnation of a topic."""

    topic_id: UUID
    known: dict[int, list[bytes]] = field(default_factory=dict)  # base offset: batches
    promised: dict[int, bytes] = field(default_factory=dict)  # base offset: batch
    current: list[tuple[int, bytes]] = field(default_factory=list)  # (next offset, batch): the log
    may_lack_below: int = 0  # retention or DeleteRecords may have taken what lies below
    must_lack_below: int = 0  # DeleteRecords was answered
    promised_up_to: int = 0
    may_have_gaps_below: int = 0  # the cleaner was there, or a leader sent what it had left
    values: dict[int, frozenset[Value]] = field(default_factory=dict)  # by offset

    def wrote(self, data: bytes) -> None:
        """A batch goes to the end of the log, or is about to."""
        base_offset = read_header(data).base_offset
        batches = self.known.setdefault(base_offset, [])
        if data not in batches:
            batches.append(data)

    def wrote_records(self, first_offset: int, written: Iterable[Record]) -> None:
        """These records are about to get offsets from the first one on, in whatever codec."""
        for record in written:
            offset = first_offset + record.offset
            known = self.values.get(offset, frozenset())
            self.values[offset] = known | {(record.key, record.value)}

    def knows(self, header: BatchHeader, data: bytes) -> bool:
        """Whether it was written just so; below the end of a cleaning, and in another codec than it
        was sent: whether each of its records was.
        """
        if data in self.known.get(header.base_offset, ()):
            return True
        if header.is_control or (
            header.next_offset > self.may_have_gaps_below and not header.compression
        ):
            return header.is_control and header.base_offset in self.known
        return all(
            (record.key, record.value) in self.values.get(record.offset, ())
            for record in records(data)
        )

    def may_be_aborted(self, header: BatchHeader) -> bool:
        """Whether any marker behind this batch of a transaction has ended it with an abort."""
        markers = sorted(
            (other.base_offset, marker.is_commit)
            for batches in self.known.values()
            for data in batches
            if (other := read_header(data)).is_control
            and other.producer_id == header.producer_id
            and other.base_offset > header.base_offset
            and other.record_count
            and (marker := read_control(next(records(data)))) is not None
        )
        first = markers[0][0] if markers else None
        return any(not is_commit for offset, is_commit in markers if offset == first)

    def grew(self, *batches: bytes) -> None:
        """Batches have been appended."""
        for data in batches:
            self.wrote(data)
            self.current.append((read_header(data).next_offset, data))

    def cut(self, end_offset: int) -> None:
        """The log was truncated, and what was promised of the rest with it."""
        while self.current and self.current[-1][0] > end_offset:
            self.current.pop()
        self.promised = {base: d for base, d in self.promised.items() if base < end_offset}
        self.promised_up_to = min(self.promised_up_to, end_offset)
        self.must_lack_below = min(self.must_lack_below, end_offset)

    def promise_up_to(self, end_offset: int) -> None:
        """All batches below `end_offset` are safe from now on."""
        if end_offset <= self.promised_up_to:
            return
        for next_offset, data in reversed(self.current):
            if next_offset <= self.promised_up_to:
                break
            if next_offset <= end_offset:
                self.promised[read_header(data).base_offset] = data
        self.promised_up_to = end_offset

    def copy(self) -> PartitionPromise:
        return PartitionPromise(
            self.topic_id,
            {offset: list(batches) for offset, batches in self.known.items()},
            dict(self.promised),
            [],
            self.may_lack_below,
            self.must_lack_below,
            self.promised_up_to,
            self.may_have_gaps_below,
            dict(self.values),
        )


@dataclass(slots=True)
class Promises:
    """All partitions. A topic is promised once its creation was answered."""

    partitions: dict[TopicPartition, PartitionPromise] = field(default_factory=dict)
    topics: dict[str, UUID] = field(default_factory=dict)
    deleting: set[str] = field(default_factory=set)  # asked for: it may be there or not
    deleted: set[UUID] = field(default_factory=set)  # answered: none of these may come back
    settings: dict[str, TopicConfig] = field(default_factory=dict)  # of topics; missing: as made

    def copy(self) -> Promises:
        return Promises(
            {tp: promise.copy() for tp, promise in self.partitions.items()},
            dict(self.topics),
            set(self.deleting),
            set(self.deleted),
            dict(self.settings),
        )


def split(data: bytes) -> list[tuple[BatchHeader, bytes]]:
    """The whole batches in a stretch of a log."""
    found = []
    position = 0
    while position + 61 <= len(data):
        header = read_header(data, position)
        end = position + header.size_bytes
        if end > len(data):
            break
        found.append((header, data[position:end]))
        position = end
    return found
