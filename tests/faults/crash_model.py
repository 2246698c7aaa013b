"""What a broker has promised so far: the other side of every check of a crash image.

A batch is known by its bytes as they lie in the log. `known` holds every batch that was ever
written at an offset, `promised` those that no power loss may take: acknowledged with acks=all,
below a recovery point, or found on the disk by an earlier recovery.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from kbroker.model import TopicPartition
from kbroker.record.record_batch import BatchHeader, read_header


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

    def wrote(self, data: bytes) -> None:
        """A batch goes to the end of the log, or is about to."""
        base_offset = read_header(data).base_offset
        batches = self.known.setdefault(base_offset, [])
        if data not in batches:
            batches.append(data)

    def grew(self, *batches: bytes) -> None:
        """Batches have been appended."""
        for data in batches:
            self.wrote(data)
            self.current.append((read_header(data).next_offset, data))

    def cut(self, end_offset: int) -> None:
        """The log was truncated."""
        while self.current and self.current[-1][0] > end_offset:
            self.current.pop()

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
        )


@dataclass(slots=True)
class Promises:
    """All partitions. A topic is promised once its creation was answered."""

    partitions: dict[TopicPartition, PartitionPromise] = field(default_factory=dict)
    topics: dict[str, UUID] = field(default_factory=dict)
    deleting: set[str] = field(default_factory=set)  # asked for: it may be there or not
    deleted: set[UUID] = field(default_factory=set)  # answered: none of these may come back

    def copy(self) -> Promises:
        return Promises(
            {tp: promise.copy() for tp, promise in self.partitions.items()},
            dict(self.topics),
            set(self.deleting),
            set(self.deleted),
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
