"""Record batches as a fetch brought them: found in the bytes of an answer, then decoded.

Law: offsets below the one asked for and from the end on are left out, as a batch may begin before
and end after them; so is a last batch that is cut short. Whatever cannot be read is named with its
partition and offsets. No socket, no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import TopicPartition
from kbroker.record.bulk_records import read_records
from kbroker.record.compression import READER_MAX_BYTES
from kbroker.record.default_record import Record
from kbroker.record.legacy_record import any_records, is_intact, read_any_header
from kbroker.record.readable_records import readable_records
from kbroker.record.record_batch import MAGIC, BatchHeader

_MANY = 5_000  # records


class FetchedBatch(NamedTuple):
    """A batch as it came; wanted of it are offsets from `start` to `end` (exclusive; None: all)."""

    place: TopicPartition
    header: BatchHeader
    data: memoryview
    start: int
    end: int | None

    @property
    def is_wanted_whole(self) -> bool:
        """Whether none of its records is left out."""
        is_before_end = self.end is None or self.header.last_offset < self.end
        return self.header.base_offset >= self.start and is_before_end

    def wants(self, record: Record) -> bool:
        """Whether a record of it is not left out."""
        end = self.header.next_offset if self.end is None else self.end
        return self.start <= record.offset < min(end, self.header.next_offset)


def fetched_batches(
    place: TopicPartition, view: memoryview, position: int, end: int | None
) -> Iterator[FetchedBatch]:
    """The batches of a partition from `position` to `end` (exclusive; None: all).

    KafkaError where the first one has no header that can be; a later one is refused when it comes
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
    batches: Iterable[FetchedBatch], tell_unreadable: Callable[[str], None] | None = None
) -> Iterator[tuple[TopicPartition, list[Record]]]:
    """Partition and wanted records, those of several batches at once where they are small.

    `tell_unreadable` gets a sentence for each batch with records that cannot be read, of which the
    others come. KafkaError without it, after the records before.
    """
    gathered: list[Record] = []
    last: TopicPartition | None = None
    for batch in batches:
        if last is not None and gathered and (batch.place != last or len(gathered) >= _MANY):
            yield last, gathered
            gathered = []
        last = batch.place
        try:
            gathered += records_in(batch)
        except KafkaError as error:
            if tell_unreadable is None:
                if gathered:
                    yield last, gathered
                raise
            tell_unreadable(error.reason)
            gathered += readable_in(batch)
    if last is not None and gathered:
        yield last, gathered


def records_in(batch: FetchedBatch) -> list[Record]:
    """The wanted records of a batch. KafkaError where it is damaged, or one cannot be read; its
    message names the place.
    """
    header, data = batch.header, batch.data
    if not is_intact(header, data):
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{_named(batch)} is damaged")
    try:
        if header.magic < MAGIC:
            records = list(any_records(data, 0, READER_MAX_BYTES))
        elif header.is_control:
            return []
        else:
            records = read_records(header, data)
    except KafkaError as error:
        reason = f"{_named(batch)} cannot be read: {error.reason}"
        raise KafkaError(error.code, reason) from error
    if header.magic == MAGIC and batch.is_wanted_whole:
        return records
    return list(filter(batch.wants, records))


def readable_in(batch: FetchedBatch) -> list[Record]:
    """The wanted records of a batch that can be read, where some cannot."""
    header, data = batch.header, batch.data
    found: list[Record] = []
    if not is_intact(header, data):
        return found
    with suppress(KafkaError):
        found.extend(  # what came before an error stays
            record
            for record in readable_records(header, data, READER_MAX_BYTES)
            if isinstance(record, Record) and batch.wants(record)
        )
    return found


def _named(batch: FetchedBatch) -> str:
    first, last = batch.header.base_offset, batch.header.last_offset
    offsets = f"at offset {first}" if first == last else f"of offsets {first} to {last}"
    return f"{batch.place}: the batch {offsets}"
