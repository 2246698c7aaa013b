"""Random histories, cleaned at random times: whoever reads a log from its start and keeps the last
value of every key sees the same before and after, of committed data and of all that was not
aborted.

Data of aborted transactions goes, so a reader of uncommitted data does not see it any more: what it
still has of it does not count.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from random import Random

import pytest

from kbroker.log.partition.log import Log
from kbroker.log.producers.log_append_info import AppendOrigin
from kbroker.log.segments.fetch_data_info import FetchIsolation
from kbroker.record.legacy_record import any_records, read_any_header
from kbroker.record.record_batch import (
    TRANSACTIONAL_BIT,
    BatchOptions,
    ControlRecord,
    Record,
    build,
    build_marker,
)
from tests.fakes.brokers.cleaning_broker import DATA, CleaningBroker
from tests.fakes.disks.memory_file_system import MemoryFileSystem
from tests.fakes.logs.verified_batches import verified

_HOUR_MS = 3_600_000
_COMMITTED = FetchIsolation.TXN_COMMITTED
_ANY = FetchIsolation.HIGH_WATERMARK

Records = dict[int, tuple[bytes | None, bytes | None]]


@dataclass
class Producer:
    producer_id: int
    sequence: int = 0
    is_open: bool = False
    is_idempotent: bool = True


class History:
    """Writes, transactions, rolls, restarts and cleanings, as `random` has them."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.topic = {
            "segment_bytes": self.random.choice((400, 1500, 6000)),
            "index_interval_bytes": self.random.choice((0, 300)),
            "min_cleanable_dirty_ratio": 0.0,
            "delete_retention_ms": self.random.choice((0, 5 * _HOUR_MS)),
            "file_delete_delay_ms": 0,
        }
        disk = MemoryFileSystem()
        disk.make_directory(DATA)
        # The smaller map holds seven keys, so that a cleaning takes several rounds.
        self.map_bytes = self.random.choice((300, 20_000))
        self.broker = CleaningBroker(
            disk, self.topic, log_cleaner_dedupe_buffer_size=self.map_bytes
        )
        self.log = self.broker.log()
        self.producers = [Producer(number) for number in range(4)]
        self.epoch = 0
        self.cleanings = 0

    def step(self) -> None:
        self.broker.time.advance(self.random.randrange(2 * _HOUR_MS))
        action = self.random.random()
        if action < 0.70:
            self._write()
        elif action < 0.82:
            self._end_transaction()
        elif action < 0.90:
            self.broker.roll(self.log)
        elif action < 0.93:
            self.epoch += 1
        elif action < 0.96:
            self._restart()
        else:
            self.clean()

    def clean(self) -> None:
        committed, uncommitted = read(self.log, _COMMITTED), read(self.log, _ANY)
        stable = self.log.last_stable_offset
        aborted = {o for o in uncommitted if o < stable and o not in committed}
        end_offset, start_offset = self.log.log_end_offset, self.log.log_start_offset
        self.broker.clean()
        self.cleanings += len(self.broker.runner.jobs)
        self.broker.runner.jobs.clear()
        committed_after, uncommitted_after = read(self.log, _COMMITTED), read(self.log, _ANY)
        # What is left lies where it lay.
        assert committed_after.items() <= committed.items()
        assert uncommitted_after.items() <= uncommitted.items()
        assert last_values(committed_after) == last_values(committed)
        assert last_values(uncommitted_after, aborted) == last_values(uncommitted, aborted)
        assert (self.log.log_start_offset, self.log.log_end_offset) == (start_offset, end_offset)
        names = self.broker.disk.list(f"{DATA}/t-0")
        assert not [name for name in names if name.endswith((".cleaned", ".swap"))]

    def _write(self) -> None:
        producer = self.random.choice([None, *self.producers])
        now_ms = self.broker.time.now_ms()
        count = self.random.randrange(1, 6)
        records = [
            Record(
                index,
                now_ms + self.random.randrange(-5000, 5000),
                b"k%d" % self.random.randrange(12),
                None if self.random.random() < 0.2 else self.random.randbytes(20),
                (("h", b"v"),) if self.random.random() < 0.2 else (),
            )
            for index in range(count)
        ]
        options = BatchOptions(compression=self.random.randrange(5))
        if producer is not None:
            transactional = producer.is_open or self.random.random() < 0.5
            options = BatchOptions(
                flags=TRANSACTIONAL_BIT if transactional else 0,
                compression=options.compression,
                producer_id=producer.producer_id,
                producer_epoch=0,
                base_sequence=producer.sequence,
            )
            producer.is_open = transactional
            producer.sequence += count
        self._append(build(records, options=options))

    def _end_transaction(self) -> None:
        for producer in self.producers:
            if producer.is_open:
                marker = ControlRecord(self.random.random() < 0.6, 0)
                options = BatchOptions(producer_id=producer.producer_id, producer_epoch=0)
                batch = build_marker(marker, self.broker.time.now_ms(), options=options)
                self._append(batch, AppendOrigin.COORDINATOR)
                producer.is_open = False
                return

    def end_transactions(self) -> None:
        while any(producer.is_open for producer in self.producers):
            self._end_transaction()

    def _append(self, batch: bytes, origin: AppendOrigin = AppendOrigin.CLIENT) -> None:
        now_ms = self.broker.time.now_ms()
        data = verified(self.log, bytearray(batch))
        self.log.append_as_leader(data, self.epoch, now_ms, origin=origin)
        self.log.update_high_watermark(self.log.log_end_offset)

    def _restart(self) -> None:
        before = read(self.log, _COMMITTED)
        sequences = {p: e.last_sequence for p, e in self.log.producer_state.producers.items()}
        self.broker.cleaner.stop()
        self.broker.logs.shutdown()
        self.broker = CleaningBroker(
            self.broker.disk,
            self.topic,
            time=self.broker.time,
            log_cleaner_dedupe_buffer_size=self.map_bytes,
        )
        self.log = self.broker.log()
        assert read(self.log, _COMMITTED) == before
        found = {p: e.last_sequence for p, e in self.log.producer_state.producers.items()}
        assert found.items() <= sequences.items()


def read(log: Log, isolation: FetchIsolation) -> Records:
    """All records by their offsets, as a consumer of that level has them."""
    records: Records = {}
    offset = log.log_start_offset
    while True:
        info = log.read(offset, 1000, isolation, min_one_message=True)
        data = info.records.read()
        aborted = {(a.producer_id, a.first_offset) for a in info.aborted_transactions or ()}
        position = 0
        skipped: set[int] = set()
        while len(data) - position >= 61:
            header = read_any_header(data, position)
            if position + header.size_bytes > len(data):
                break
            batch = data[position : position + header.size_bytes]
            position += header.size_bytes
            # A consumer starts to skip a producer at the first offset, and stops at its marker.
            skipped |= {p for p, first in aborted if first <= header.last_offset}
            if header.is_control:
                skipped.discard(header.producer_id)
                aborted = {
                    a for a in aborted if a[0] != header.producer_id or a[1] > header.last_offset
                }
            elif not (header.is_transactional and header.producer_id in skipped):
                for record in any_records(batch):
                    if record.offset >= offset:
                        records[record.offset] = (record.key, record.value)
            offset = header.next_offset
        if not position:
            break
    return records


def last_values(records: Records, left_out: Collection[int] = ()) -> dict[bytes | None, bytes]:
    """Return the table that the log stands for; keys with a tombstone are not in it."""
    values: dict[bytes | None, bytes] = {}
    for offset, (key, value) in sorted(records.items()):
        if offset not in left_out:
            values.pop(key, None)
            if value is not None:
                values[key] = value
    return values


@pytest.mark.parametrize("seed", range(12))
def test_the_last_values_are_the_same_before_and_after_every_cleaning(
    seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    history = History(seed)
    for _ in range(120):
        history.step()
    history.end_transactions()
    history.broker.roll(history.log)
    history.clean()
    assert history.cleanings > 0
    assert "will not be cleaned" not in caplog.text
