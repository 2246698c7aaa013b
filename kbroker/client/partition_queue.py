"""PartitionQueue: the records on their way to one partition, and the order in which they go.

Law: batches are written in the order they were gathered, each once. A batch that was not written
holds back those after it until it is; one that is refused for good leaves its sequence numbers to
the next, and batches in flight after it are refused as out of order. Brokers do so only once they
know the producer: until the first batch is accepted only one is in flight, and never more for a
producer without sequence numbers (KIP-98).

No socket, no clock.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, chain

from kbroker.record.bulk_records import MOST_AROUND_BODY, MOST_OF_TIME
from kbroker.record.packed_batch import PackedBatch

IN_FLIGHT_MAX = 5  # a broker remembers as many batches of a producer
_MAX_SEQUENCE = 0x7FFF_FFFF


@dataclass(slots=True, eq=False)
class SentBatch:
    """Records that are sent together; `give_up_s` is the time at which they have taken too long."""

    partition: int
    bodies: list[bytes]
    timestamps: int | list[int]  # Unix ms: of all, or of each
    give_up_s: float
    sequence: int | None = None  # None: the next one, when it is sent
    packed: PackedBatch | None = None  # goes as it is, and `bodies` is empty
    may_be_written: bool = False  # by a request whose answer got lost

    @property
    def count(self) -> int:
        return self.packed.record_count if self.packed is not None else len(self.bodies)

    def unpack(self) -> None:
        """Replace the packed batch by the bodies of its records."""
        if self.packed is not None:
            self.bodies, self.timestamps = self.packed.unpacked()
            self.packed = None


class PartitionQueue:
    """Gathers records, hands out batches to be sent, and takes note of what became of each."""

    def __init__(self, partition: int, *, has_sequences: bool) -> None:
        self.gathered_bytes = 0
        self._partition = partition
        self._has_sequences = has_sequences
        self._gathered: list[bytes] = []
        self._times: list[int] = []  # of each that is gathered, or none
        self._waiting: deque[SentBatch] = deque()
        self._in_flight: deque[SentBatch] = deque()
        self._failed: deque[SentBatch] = deque()
        self._next_sequence = 0
        self._is_known = False  # the broker has taken a batch of this producer
        self._renewed_give_up_s = 0.0  # nothing has taken too long before

    @property
    def is_gathering(self) -> bool:
        """Whether records wait for others to fill a batch with."""
        return bool(self._gathered)

    @property
    def waiting(self) -> int:
        return len(self._waiting) + len(self._failed)

    @property
    def is_idle(self) -> bool:
        return not (self._gathered or self._waiting or self._in_flight or self._failed)

    @property
    def has_in_flight(self) -> bool:
        return bool(self._in_flight)

    @property
    def give_up_s(self) -> float | None:
        """The time at which the oldest batch has taken too long, if no other is written by then."""
        queues = (self._failed, self._in_flight, self._waiting)
        oldest = [queue[0].give_up_s for queue in queues if queue]
        return max(min(oldest), self._renewed_give_up_s) if oldest else None

    @property
    def uncertain(self) -> int:
        """How many records were sent that may or may not be written."""
        asked = sum(batch.count for batch in self._in_flight)
        lost = (*self._failed, *self._waiting)
        return asked + sum(batch.count for batch in lost if batch.may_be_written)

    def gather(self, bodies: Sequence[bytes], times: Sequence[int] = ()) -> None:
        """Add records; `times` (Unix ms): of each, if they have their own."""
        assert len(times) == len(bodies) or not (times or self._times), "each has one, or none has"
        self._gathered += bodies
        self._times += times
        around = MOST_AROUND_BODY + (MOST_OF_TIME if times else 0)
        self.gathered_bytes += sum(map(len, bodies)) + around * len(bodies)

    def cut(self, most_bytes: int, timestamp_ms: int, give_up_s: float) -> int:
        """Make batches of all gathered records, and return how many."""
        count = self.cut_full(most_bytes, timestamp_ms, give_up_s)
        if not self._gathered:
            return count
        times = self._times or timestamp_ms
        self._waiting.append(SentBatch(self._partition, self._gathered, times, give_up_s))
        self._gathered, self._times, self.gathered_bytes = [], [], 0
        return count + 1

    def cut_full(self, most_bytes: int, timestamp_ms: int, give_up_s: float) -> int:
        """Make full batches of the gathered records, each of one at least, and keep the rest;
        return how many batches.
        """
        if self.gathered_bytes <= most_bytes:
            return 0
        around = MOST_AROUND_BODY + (MOST_OF_TIME if self._times else 0)
        ends = list(accumulate(map(around.__add__, map(len, self._gathered))))
        begin = cut_bytes = count = 0
        while self.gathered_bytes - cut_bytes > most_bytes:
            end = max(bisect_right(ends, cut_bytes + most_bytes), begin + 1)
            bodies, times = self._gathered[begin:end], self._times[begin:end] or timestamp_ms
            self._waiting.append(SentBatch(self._partition, bodies, times, give_up_s))
            begin, cut_bytes, count = end, ends[end - 1], count + 1
        del self._gathered[:begin], self._times[:begin]
        self.gathered_bytes -= cut_bytes
        return count

    def add(self, packed: PackedBatch, give_up_s: float) -> None:
        """Add a packed batch; nothing is gathered."""
        assert not self._gathered, "they go before it"
        self._waiting.append(SentBatch(self._partition, [], 0, give_up_s, packed=packed))

    def next_batch(self) -> SentBatch | None:
        """Return the batch to send now, which then is in flight; None if it has to wait."""
        if self._failed and not self._in_flight:
            self._waiting.extendleft(reversed(self._failed))
            self._failed.clear()
        most = IN_FLIGHT_MAX if self._is_known and self._has_sequences else 1
        if self._failed or not self._waiting or len(self._in_flight) >= most:
            return None
        if self._in_flight and self.fails_by_another(self._in_flight[-1]):
            return None  # its sequence numbers are those that this one would have now
        batch = self._waiting.popleft()
        if self._has_sequences and batch.sequence is None:
            batch.sequence = self._next_sequence
            self._next_sequence = (batch.sequence + batch.count) & _MAX_SEQUENCE
        self._in_flight.append(batch)
        return batch

    # Notes of what became of a batch in flight.

    def accept(self, batch: SentBatch, renewed_give_up_s: float = 0.0) -> None:
        """Note that a batch is written; those behind it get a new deadline."""
        self._in_flight.remove(batch)
        self._is_known = True
        self._renewed_give_up_s = renewed_give_up_s

    def fail(self, batch: SentBatch, *, may_be_written: bool = True) -> None:
        """Note that a batch must be sent again, before those after it. `may_be_written`: it is not
        known whether it was.
        """
        batch.may_be_written |= may_be_written
        self._in_flight.remove(batch)
        self._failed.append(batch)

    def fails_by_another(self, batch: SentBatch) -> bool:
        """Say whether a batch came out of order because one before it was not written."""
        return bool(self._failed) or (self._has_sequences and batch.sequence is None)

    def halve(self, batch: SentBatch) -> None:
        """Note that a batch is too large: it is sent again as two."""
        self._in_flight.remove(batch)
        half, sequence = len(batch.bodies) // 2, batch.sequence
        for part in (slice(half), slice(half, None)):
            times = (
                batch.timestamps if isinstance(batch.timestamps, int) else batch.timestamps[part]
            )
            self._failed.append(
                SentBatch(batch.partition, batch.bodies[part], times, batch.give_up_s, sequence)
            )
            if sequence is not None:
                sequence = (sequence + half) & _MAX_SEQUENCE

    def refuse(self, batch: SentBatch) -> None:
        """Note that a batch will never be written. Those that failed were sent before it."""
        self._in_flight.remove(batch)
        if batch.sequence is not None:
            self._next_sequence = batch.sequence
            for behind in chain(self._in_flight, self._waiting):
                if behind.sequence is None:
                    break  # nor has any after it
                behind.sequence = None
