"""The records that a broker at work is sent: each value once, few keys, in some codec."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from kbroker.clock import Clock
from kbroker.log.producers.producer_state import ProducerStateEntry
from kbroker.record.compression import GZIP, NONE
from kbroker.record.record_batch import (
    TRANSACTIONAL_BIT,
    BatchOptions,
    ControlRecord,
    Record,
    build,
    build_marker,
)

CODECS = (NONE, NONE, NONE, GZIP)


class RecordMaker:
    """Makes them under a seed."""

    def __init__(self, random: Random, clock: Clock) -> None:
        self._random = random
        self._clock = clock
        self._value = 0

    def batch(self, producer_id: int, entry: ProducerStateEntry | None) -> bytes:
        """The next batch of a producer, of which the log remembers `entry`."""
        options = BatchOptions(compression=self._random.choice(CODECS))
        if producer_id >= 0:
            options = replace(
                options,
                flags=TRANSACTIONAL_BIT if producer_id >= 3 else 0,
                producer_id=producer_id,
                producer_epoch=max(entry.producer_epoch, 0) if entry else 0,
                base_sequence=entry.last_sequence + 1 if entry else 0,
            )
        return build(self.records(), options=options)

    def sent_by_leader(self, base_offset: int, epoch: int) -> tuple[list[Record], bytes]:
        """Records, counted from 0, and the batch in which another broker has them."""
        written = self.records()
        options = BatchOptions(partition_leader_epoch=epoch)
        placed = [record._replace(offset=base_offset + record.offset) for record in written]
        return written, build(placed, base_offset=base_offset, options=options)

    def marker(self, entry: ProducerStateEntry) -> bytes:
        """The end of a producer's transaction."""
        options = BatchOptions(producer_id=entry.producer_id, producer_epoch=entry.producer_epoch)
        is_commit = self._random.random() < 0.5
        return build_marker(ControlRecord(is_commit, 1), self._clock.now_ms(), options=options)

    def records(self) -> list[Record]:
        """Some records of now, or a little late."""
        random = self._random
        now_ms = self._clock.now_ms() - random.choice((0, 0, 0, 5_000))
        count = random.choice((1, 1, 2, 5))
        size = random.choice((5, 40, 300, 700)) // count
        found = []
        for index in range(count):
            self._value += 1
            value = b"%d." % self._value + b"v" * size
            found.append(Record(index, now_ms, b"k%d" % (self._value % 7), value))
        return found
