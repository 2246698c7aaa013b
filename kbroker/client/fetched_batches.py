"""Finds record batches in the bytes of a fetch's answer, and decodes them.

Law: offsets before the one asked for, and from the end on, are left out, because a batch may reach
beyond them; so is a last batch that is cut short. Whatever cannot be read is named with its
partition and offsets. No socket, no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import TopicPartition
from kbroker.record.bulk_records import read_records
from kbroker.record.default_record import Record
from kbroker.record.legacy_record import any_records, is_intact, read_any_header
from kbroker.record.old_messages import OldMessages
from kbroker.record.readable_records import readable_records
from kbroker.record.record_batch import MAGIC, BatchHeader, record_stream
from kbroker.record.stream_walk import walk_stream

_MANY = 5_000  # records
MANY_BYTES = 4 * 1024 * 1024  # of keys and values
HELD_BYTES = 16 * 1024 * 1024  # of a batch, uncompressed

TellUnreadable = Callable[[str], None]


class FetchedBatch(NamedTuple):
    """A batch as it came; offsets from `start` to `end` (exclusive; None: all) are wanted."""

    place: TopicPartition
    header: BatchHeader
    data: memoryview
    start: int
    end: int | None

    @property
    def is_wanted_whole(self) -> bool:
        """Whether no record of the batch is left out."""
        is_before_end = self.end is None or self.header.last_offset < self.end
        return self.header.base_offset >= self.start and is_before_end

    def wants(self, record: Record) -> bool:
        """Say whether a record of the batch is wanted."""
        end = self.header.next_offset if self.end is None else self.end
        return self.start <= record.offset < min(end, self.header.next_offset)


class AbortedTransactions:
    """The batches of a partition in one answer to a read_committed fetch that are not records.

    A broker names aborted transactions by producer id and first offset; each lasts until its
    marker (KIP-98).
    """

    def __init__(self, transactions: Iterable[tuple[int, int]]) -> None:
        """`transactions`: their producer ids and first offsets."""
        self._to_come = sorted(transactions, key=lambda entry: entry[1], reverse=True)
        self._aborted: set[int] = set()  # producers, up to their next marker

    def hides(self, header: BatchHeader) -> bool:
        """Whether the records of this batch were aborted; batches are asked about in order."""
        while self._to_come and self._to_come[-1][1] <= header.last_offset:
            self._aborted.add(self._to_come.pop()[0])
        if header.is_control:
            self._aborted.discard(header.producer_id)
            return False  # no reader takes it for records
        return header.is_transactional and header.producer_id in self._aborted


def fetched_batches(
    place: TopicPartition, view: memoryview, position: int, end: int | None
) -> Iterator[FetchedBatch]:
    """Yield the batches of a partition from `position` to `end` (exclusive; None: all).

    KafkaError if the first one has an impossible header; a later one is refused when it comes
    first.
    """
    at = 0
    while at < len(view) and (end is None or position < end):
        try:
            header = read_any_header(view, at)
        except KafkaError:
            if at:
                return
            raise
        behind = at + header.size_bytes
        if behind > len(view):
            return
        if header.last_offset >= position:
            yield FetchedBatch(place, header, view[at:behind], position, end)
            position = header.next_offset
        at = behind


def records_of(
    batches: Iterable[FetchedBatch], tell_unreadable: TellUnreadable | None = None
) -> Iterator[tuple[TopicPartition, list[Record]]]:
    """Yield partitions with wanted records, those of several small batches together.

    `tell_unreadable` gets a sentence for each batch with records that cannot be read, and the other
    records come. Without it, KafkaError ends the reading there.
    """
    gathered: list[Record] = []
    size_bytes = 0
    last: TopicPartition | None = None
    for batch in batches:
        if last is not None and gathered and batch.place != last:
            yield last, gathered
            gathered, size_bytes = [], 0
        last = batch.place
        try:
            for some in record_lists(batch, tell_unreadable):
                gathered += some
                size_bytes += sum(map(_size, some))
                if len(gathered) >= _MANY or size_bytes >= MANY_BYTES:
                    yield last, gathered
                    gathered, size_bytes = [], 0
        except KafkaError:
            if gathered:
                yield last, gathered
            raise
    if last is not None and gathered:
        yield last, gathered


def record_lists(
    batch: FetchedBatch, tell_unreadable: TellUnreadable | None = None
) -> Iterator[list[Record]]:
    """Yield the wanted records of a batch, in one list unless it is large; then in lists of some
    MiB, or of one record that is larger.

    KafkaError, before any record, if the batch is damaged or a record cannot be read; its message
    names the place. With `tell_unreadable` that gets the message, and the other records come.
    """
    header, data = batch.header, batch.data
    is_whole = is_intact(header, data)
    try:
        if not is_whole:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{_named(batch)} is damaged")
        held = _held_records(batch)
    except KafkaError as error:
        if tell_unreadable is None:
            raise
        tell_unreadable(error.reason)
        if is_whole:
            with suppress(KafkaError):  # what came before an error stays
                yield from _in_lists(batch, readable_records(header, data))
        return
    if held is None:
        yield from _in_lists(batch, any_records(data))
    elif header.magic == MAGIC and batch.is_wanted_whole:
        yield held
    else:
        yield list(filter(batch.wants, held))


def _held_records(batch: FetchedBatch) -> list[Record] | None:
    """Return all records of a batch; None if it can be read, but is too large to be held."""
    header, data = batch.header, batch.data
    try:
        if header.magic < MAGIC:
            walked = OldMessages.of(header, data).walk()
            return list(any_records(data)) if walked.size_bytes <= HELD_BYTES else None
        if header.is_control:
            return []
        try:
            return read_records(header, data, HELD_BYTES)
        except KafkaError as error:
            if error.code != ErrorCode.MESSAGE_TOO_LARGE:
                raise
        walk_stream(header, record_stream(header, data))
    except KafkaError as error:
        reason = f"{_named(batch)} cannot be read: {error.reason}"
        raise KafkaError(error.code, reason) from error
    return None


def _in_lists(
    batch: FetchedBatch, records: Iterable[Record | KafkaError]
) -> Iterator[list[Record]]:
    some: list[Record] = []
    size_bytes = 0
    for record in records:
        if not isinstance(record, Record) or not batch.wants(record):
            continue
        some.append(record)
        size_bytes += _size(record)
        if size_bytes >= MANY_BYTES or len(some) >= _MANY:
            yield some
            some, size_bytes = [], 0
    if some:
        yield some


def _size(record: Record) -> int:
    return len(record.key or b"") + len(record.value or b"")


def _named(batch: FetchedBatch) -> str:
    first, last = batch.header.base_offset, batch.header.last_offset
    offsets = f"at offset {first}" if first == last else f"of offsets {first} to {last}"
    return f"{batch.place}: the batch {offsets}"
