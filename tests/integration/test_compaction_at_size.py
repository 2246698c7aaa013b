"""Many records over few keys, all codecs among them: exactly the last value of each key is left, at
its offset, within the memory that was set. `python -m benchmarks compaction` does the same to five
million records through a broker.
"""

from __future__ import annotations

from kbroker.record.record_batch import BatchOptions, Record, build
from tests.fakes.brokers.cleaning_broker import DATA, CleaningBroker
from tests.fakes.disks.memory_file_system import MemoryFileSystem
from tests.fakes.logs.log_cleaning import stored_records

RECORDS = 100_000
KEYS = 5_000
BATCH = 500
HOUR_MS = 3_600_000
# Room for three thousand keys, so that it takes several rounds.
MAP_BYTES = 120_000


def key_of(number: int) -> bytes:
    return b"k%d" % (number * 7919 % KEYS)


def test_of_many_records_the_last_of_each_key_are_left() -> None:
    disk = MemoryFileSystem()
    disk.make_directory(DATA)
    topic = {"segment_bytes": 1 << 20, "min_cleanable_dirty_ratio": 0.0}
    broker = CleaningBroker(
        disk,
        topic | {"delete_retention_ms": HOUR_MS, "file_delete_delay_ms": 0},
        log_cleaner_dedupe_buffer_size=MAP_BYTES,
    )
    log = broker.log()
    deleted = {b"k%d" % number for number in range(0, KEYS, 10)}
    written: dict[bytes, tuple[int, bytes | None]] = {}
    for first in range(0, RECORDS, BATCH):
        numbers = range(first, first + BATCH)
        is_end = first >= RECORDS - KEYS
        records = [
            Record(
                number,
                broker.time.now_ms(),
                key_of(number),
                None if is_end and key_of(number) in deleted else b"%0100d" % number,
            )
            for number in numbers
        ]
        options = BatchOptions(compression=first // BATCH % 5)
        batch = build(records, base_offset=first, options=options)
        log.append_as_follower(batch, broker.time.now_ms())
        written |= {key_of(r.offset): (r.offset, r.value) for r in records}
    log.update_high_watermark(log.log_end_offset)
    broker.roll(log)

    rounds = 0
    while log.cleaned_end_offset != RECORDS:
        broker.clean()
        rounds += 1
    kept = stored_records(log)
    assert rounds > 3
    assert {r.key: (r.offset, r.value) for r in kept} == written
    assert len(kept) == KEYS

    broker.time.advance(HOUR_MS)
    broker.write(log, (b"end", b"1"))
    broker.roll(log)
    broker.clean()
    left = {r.key: (r.offset, r.value) for r in stored_records(log)}
    assert left.keys() == written.keys() - deleted | {b"end"}
    assert all(left[key] == written[key] for key in written.keys() - deleted)
