"""Segments with bytes that are no intact batch: they stay as they are, and all others are cleaned."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbroker.log.cleaner.cleaned_transactions import CleanedTransactions
from kbroker.log.partition.log import Log
from kbroker.log.segments.transaction_index import AbortedTxn
from kbroker.record.record_batch import (
    TRANSACTIONAL_BIT,
    BatchOptions,
    ControlRecord,
    Record,
    build,
    build_marker,
    read_header,
)
from tests.fakes.brokers.cleaning_broker import DATA, CleaningBroker
from tests.fakes.disks.memory_file_system import MemoryFileSystem
from tests.fakes.logs.log_cleaning import clean, stored_batches
from tests.fakes.logs.log_maker import NOW_MS, open_log

LENGTH, MAGIC, ATTRIBUTES, RECORDS = 11, 16, 21, 66


def segments(directory: Path, *keys: bytes) -> Log:
    """A compacted log with a segment for each of these strings of keys, and an active one."""
    log = open_log(directory, cleanup_policy=("compact",))
    for some in keys:
        for key in some:
            record = Record(0, NOW_MS, bytes([key]), b"%d" % log.log_end_offset)
            log.append_as_leader(bytearray(build([record])), 0, NOW_MS)
        log.roll(NOW_MS)
    log.update_high_watermark(log.log_end_offset)
    return log


def damage(log: Log, index: int, position: int) -> bytes:
    """Turn a bit of a segment's file; its bytes then."""
    path = Path(log.segments[index].records.path)
    data = bytearray(path.read_bytes())
    data[position] ^= 0x40
    path.write_bytes(data)
    return bytes(data)


@pytest.mark.parametrize("position", [LENGTH, MAGIC, 20, ATTRIBUTES, 61, RECORDS])
@pytest.mark.parametrize("index", [0, 1, 2])
def test_a_damaged_segment_stays_and_the_others_are_cleaned(
    index: int, position: int, tmp_path: Path
) -> None:
    log = segments(tmp_path, b"aab", b"aab", b"aab")
    left = damage(log, index, position)

    done = clean(log, NOW_MS)

    assert done.end_offset == 9
    assert done.stats.damaged_segments == 1
    assert f"{3 * index:020d}.log at position 0: " in done.stats.first_damaged
    assert not list(tmp_path.glob("*.cleaned"))
    files = {int(path.stem): path.read_bytes() for path in tmp_path.glob("*.log")}
    assert files.pop(3 * index) == left
    kept = [
        header.base_offset
        for data in files.values()
        for header in [read_header(data, at) for at in range(0, len(data), max(len(left) // 3, 1))]
    ]
    assert sorted(kept) == ([7, 8] if index < 2 else [4, 5])


def test_segments_around_a_damaged_one_are_merged_with_neither_it_nor_each_other(
    tmp_path: Path,
) -> None:
    log = segments(tmp_path, b"ab", b"ac", b"ad", b"ae", b"af")
    damage(log, 2, RECORDS)

    clean(log, NOW_MS)

    assert log.segments.base_offsets == [0, 4, 6, 10]


def test_a_tombstone_stays_while_damage_before_it_keeps_what_it_deletes(tmp_path: Path) -> None:
    log = segments(tmp_path, b"ab")
    log.append_as_leader(bytearray(build([Record(0, NOW_MS, b"a", None)])), 0, NOW_MS)
    log.roll(NOW_MS)
    log.update_high_watermark(log.log_end_offset)
    path = Path(log.segments[0].records.path)
    damage(log, 0, path.stat().st_size - 1)  # of `b`: `a` can be read

    for days in (0, 2, 4):
        clean(log, NOW_MS + days * 86_400_000)

    found = [(header.base_offset, header.record_count) for header, _ in stored_batches(log)]
    assert found == [(0, 1), (1, 1), (2, 1)]


def test_a_cut_off_batch_is_damage_too(tmp_path: Path) -> None:
    log = segments(tmp_path, b"a", b"a")
    path = Path(log.segments[0].records.path)
    path.write_bytes(path.read_bytes()[:-1])

    assert "a batch is cut off" in clean(log, NOW_MS).stats.first_damaged


def test_a_cleaning_names_the_damage_and_the_log_is_cleaned_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = MemoryFileSystem()
    disk.make_directory(DATA)
    broker = CleaningBroker(disk, {"min_cleanable_dirty_ratio": 0.0})
    log = broker.log()
    broker.write(log, (b"a", b"1"))
    broker.roll(log)
    path = log.segments[0].records.path
    file = disk.open(path)
    file.pwrite(b"X", RECORDS)
    for number in (b"2", b"3"):
        broker.write(log, (b"a", number))
        broker.write(log, (b"a", number))
        broker.roll(log)
        broker.clean()

    assert log.cleaned_end_offset == 5
    assert [header.base_offset for header, _ in stored_batches(log)] == [0, 4]
    told = [line for line in caplog.messages if "damaged" in line]
    assert (
        told
        == [
            f"Log t-0 keeps segments as they are that are damaged, 1 of them, the first is {path} at "
            "position 0: a batch has a wrong checksum"
        ]
        * 2
    )


PRODUCER = BatchOptions(flags=TRANSACTIONAL_BIT, producer_id=7, producer_epoch=0)


def is_kept(transactions: CleanedTransactions, offset: int, *, commit: bool) -> bool:
    marker = build_marker(ControlRecord(commit, 0), 0, base_offset=offset, options=PRODUCER)
    return not transactions.is_empty_marker(read_header(marker), memoryview(marker))


def is_aborted(transactions: CleanedTransactions, offset: int) -> bool:
    data = build([Record(offset, 0, b"k", b"v")], base_offset=offset, options=PRODUCER)
    return transactions.is_aborted_data(read_header(data))


def test_a_commit_after_damage_stays_once_as_its_data_may_be_there() -> None:
    transactions = CleanedTransactions([])
    transactions.pass_damage(10)

    assert is_kept(transactions, 10, commit=True)
    assert not is_kept(transactions, 11, commit=True)


def test_an_abort_that_began_before_the_end_of_damage_stays() -> None:
    kept: list[AbortedTxn] = []
    aborted = [AbortedTxn(7, first, last, last + 1) for first, last in ((1, 3), (5, 20), (25, 30))]
    transactions = CleanedTransactions(aborted, kept.append)
    transactions.pass_damage(10)

    assert is_aborted(transactions, 12)
    assert is_kept(transactions, 20, commit=False)
    assert kept == [aborted[1]]
    assert not is_aborted(transactions, 22)
    assert is_kept(transactions, 23, commit=True)
    assert not is_kept(transactions, 30, commit=False)


def test_data_after_an_abort_that_ended_amid_damage_is_not_aborted() -> None:
    transactions = CleanedTransactions([AbortedTxn(7, 1, 8, 9)])
    assert is_aborted(transactions, 1)
    transactions.pass_damage(10)

    assert not is_aborted(transactions, 12)
