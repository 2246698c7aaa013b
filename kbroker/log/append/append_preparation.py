"""Batches that take long to check, convert or compress: prepared on a worker thread, appended by
the event loop.

Law: preparing reads the bytes, the topic's rules and a place, but no log, so that it may run on a
worker thread. What was prepared by rules, or for a place, that no longer hold when it is appended
is prepared again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kbroker.errors import KafkaError
from kbroker.log.append.append_rules import AppendPlace, AppendRules, WorkerThread
from kbroker.log.append.log_append import OpenedBatch, check_produced_batch, open_batch
from kbroker.log.append.message_set import holds_batch, whole_messages
from kbroker.log.append.trusted_append import TrustedBatches
from kbroker.log.producers.log_append_info import AppendOrigin
from kbroker.record.record_batch import MAGIC, read_header
from kbroker.record.record_stream import Pace
from kbroker.record.record_walk import SMALLEST_RECORD_BYTES


class Prepared(NamedTuple):
    """The bytes that the event loop has to write, and the conditions under which they hold."""

    ready: OpenedBatch | TrustedBatches
    rules: AppendRules
    place: AppendPlace  # counts for messages of old formats, whose offsets are inside
    converted: int = 0  # records of an OpenedBatch


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Preparation:
    """One partition's records of a Produce request; `run` may be called on a worker thread."""

    records: memoryview | bytearray
    origin: AppendOrigin
    rules: AppendRules
    place: AppendPlace

    @property
    def least_bytes(self) -> int:
        """How many bytes the records unpack to, at least, if the header is right."""
        try:
            count = read_header(self.records).record_count
        except KafkaError:  # of an old format, or broken
            count = 0
        return max(len(self.records), count * SMALLEST_RECORD_BYTES)

    def run(self, pace: Pace | None = None) -> Prepared:
        """Check and convert. Raises KafkaError as an append does, and what `pace` raises: then
        nothing is changed.
        """
        ready, converted = self._ready(pace)
        return Prepared(ready, self.rules, self.place, converted)

    def _ready(self, pace: Pace | None) -> tuple[OpenedBatch | TrustedBatches, int]:
        rules, place = self.rules, self.place
        records = self.records
        if self.origin == AppendOrigin.OLD_CLIENT:
            records = whole_messages(records)
            if not holds_batch(records):
                return self._converted(records, pace)
        header = check_produced_batch(records, place.topic_partition, rules)
        records = memoryview(records)[: header.size_bytes]
        if rules.magic != MAGIC:
            return self._converted(records, pace)
        limit = WorkerThread(pace)
        opened = open_batch(records, header, place.topic_partition, rules, place.now_ms, limit)
        return opened, 0 if opened.records is records else header.record_count

    def _converted(
        self, records: memoryview | bytearray, pace: Pace | None
    ) -> tuple[OpenedBatch | TrustedBatches, int]:
        """Convert what is not of the topic's format; one of the new format gets one batch."""
        from kbroker.log.append.message_set_append import as_one_batch, prepare_set

        if self.rules.magic != MAGIC or not records:
            return prepare_set(records, self.rules, self.place, pace), 0
        batch = as_one_batch(records, self.rules, self.place, pace)
        header = read_header(batch)
        return OpenedBatch(batch, header, header.max_timestamp), header.record_count
