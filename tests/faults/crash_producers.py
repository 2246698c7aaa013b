"""What a log remembers of its producers, held against the batches in it.

A batch that is remembered is what makes an append a duplicate, so each of them has to be one that
was written: below the log start it may be gone, as Kafka forgets a producer only when it expires,
and a client that sends such a batch again is rightly told the old offset. From there on it has to
lie in the log just so, unless the cleaner was there; and those of one producer follow on each
other, or a new batch would be taken for one of an earlier row of sequences.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from kbroker.log.partition.log import Log
from kbroker.log.producers.producer_state import (
    BatchMetadata,
    ProducerStateEntry,
    advance_sequence,
)
from kbroker.record.record_batch import BatchHeader


def faults_of_remembered(
    log: Log, found: Iterable[BatchHeader], cleaned_up_to: int
) -> Iterator[str]:
    """List what is wrong with the batches that are remembered; `found` are those of the log, of which
    some below `cleaned_up_to` may be gone.
    """
    there = {header.base_offset: header for header in found}
    for entry in log.producer_state.producers.values():
        for before, after in pairwise(entry.batches):
            if after.first_sequence != advance_sequence(before.last_sequence, 1):
                yield f"producer {entry.producer_id}: {after} in one row with {before}"
            if after.first_offset <= before.last_offset:
                yield f"producer {entry.producer_id}: {after} is not after {before}"
        for batch in entry.batches:
            if batch.last_offset >= log.log_end_offset:
                yield f"producer {entry.producer_id}: {batch} is beyond {log.log_end_offset=}"
            elif batch.last_offset >= log.log_start_offset:
                header = there.get(batch.first_offset)
                if header is None and batch.first_offset < cleaned_up_to:
                    continue
                if header is None or not _is(header, entry, batch):
                    yield f"producer {entry.producer_id}: {batch} is not in the log, but {header}"


def _is(header: BatchHeader, entry: ProducerStateEntry, batch: BatchMetadata) -> bool:
    written = (header.producer_id, header.producer_epoch, header.base_sequence, header.last_offset)
    return written == (
        entry.producer_id,
        entry.producer_epoch,
        batch.first_sequence,
        batch.last_offset,
    )
