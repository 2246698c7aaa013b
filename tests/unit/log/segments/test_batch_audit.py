"""Which batches of a data file are sound, and where they go on behind damage."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbroker.log.disk.file_system import RealFileSystem
from kbroker.log.segments.batch_audit import BatchAudit, recoverable_batches
from kbroker.log.segments.file_records import FileRecords
from kbroker.record.compression import GZIP
from kbroker.record.default_record import Record
from kbroker.record.legacy_builder import build_legacy
from tests.fakes.logs.log_maker import NOW_MS, batch

LIMIT = 2**31


def records_of(tmp_path: Path, *batches: bytes) -> FileRecords:
    records = FileRecords(RealFileSystem(), str(tmp_path / "0.log"))
    records.append(b"".join(batches))
    return records


def wrapped(first: int, count: int) -> bytes:
    return build_legacy([Record(first + i, NOW_MS, b"k", b"v") for i in range(count)], 1, GZIP)


def at(base_offset: int, *values: bytes) -> bytearray:
    return batch(*(values or (b"v",)), base_offset=base_offset)


def verified(records: FileRecords, end_offset: int) -> int:
    """How many bytes are sound from the start."""
    audit = BatchAudit(records, records.size_bytes, end_offset)
    return audit.verify(0, 0, records.size_bytes)[0]


def test_batches_that_follow_each_other_or_leave_gaps_are_sound(tmp_path: Path) -> None:
    records = records_of(tmp_path, at(0), at(1, b"a", b"b"), at(9), wrapped(10, 3), at(20))

    assert verified(records, 21) == records.size_bytes


@pytest.mark.parametrize("moved_to", [0, 1, 3, 66])
def test_a_batch_that_was_moved_is_found_by_its_neighbours(tmp_path: Path, moved_to: int) -> None:
    records = records_of(tmp_path, at(0), at(1), at(moved_to), at(3), at(4))

    assert verified(records, 5) == 2 * len(at(0))


def test_a_last_batch_beyond_the_end_is_moved(tmp_path: Path) -> None:
    assert verified(records_of(tmp_path, at(0), at(5)), 2) == len(at(0))


def test_a_wrapper_that_was_moved_by_less_than_its_messages_is_found(tmp_path: Path) -> None:
    moved = bytearray(wrapped(3, 3))
    moved[7] ^= 2  # offset 5 becomes 7
    records = records_of(tmp_path, wrapped(0, 3), moved, wrapped(6, 3))

    assert verified(records, 9) == len(wrapped(0, 3))


@pytest.mark.parametrize("byte", [7, 8, 10, 11, 16, 66])
def test_sound_batches_go_on_behind_the_damaged_one(tmp_path: Path, byte: int) -> None:
    size = len(at(0))
    damaged = at(1)
    damaged[byte] ^= 0x20
    records = records_of(tmp_path, at(0), damaged, at(2), at(3))
    audit = BatchAudit(records, records.size_bytes, 4)

    assert audit.next_sound(size, 1, []) == 2 * size


def test_an_index_shows_the_way_where_the_next_batch_is_damaged_too(tmp_path: Path) -> None:
    size = len(at(0))
    first, second = at(1), at(2)
    first[10] ^= 1
    second[66] ^= 1
    records = records_of(tmp_path, at(0), first, second, at(3), at(4))
    audit = BatchAudit(records, records.size_bytes, 5)

    assert audit.next_sound(size, 1, [(2, 2 * size + 1), (3, 3 * size)]) == 3 * size


def recovered(records: FileRecords, *, gapless_from: int = LIMIT) -> list[int]:
    batches = recoverable_batches(records, 0, LIMIT, gapless_from=gapless_from)
    return [header.base_offset for _, header, _, _ in batches]


def test_recovery_stops_before_a_moved_batch_and_not_behind_it(tmp_path: Path) -> None:
    records = records_of(tmp_path, at(0), at(1 + 64), at(2), at(3))

    assert recovered(records) == [0]


def test_recovery_passes_over_gaps(tmp_path: Path) -> None:
    records = records_of(tmp_path, at(4), at(9), at(10), at(30))

    assert recovered(records) == [4, 9, 10, 30]
    assert recovered(records, gapless_from=30) == [4, 9, 10, 30]
    assert recovered(records, gapless_from=29) == [4, 9, 10]


def test_recovery_stops_before_a_batch_of_an_earlier_epoch_where_offsets_have_no_gap(
    tmp_path: Path,
) -> None:
    epochs = (3, 4, 3, 3)
    batches = [
        batch(b"v", base_offset=offset, partition_leader_epoch=epoch)
        for offset, epoch in enumerate(epochs)
    ]
    records = records_of(tmp_path, *batches)

    assert recovered(records, gapless_from=0) == [0, 1]
    assert recovered(records, gapless_from=2) == [0, 1, 2, 3]  # the first that this broker wrote
    assert recovered(records) == [0, 1, 2, 3]
