"""Batches that are intact and cannot be read: the cleaner keeps them, and cleans all others."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbroker.log.cleaner.cleaned_transactions import CleanedTransactions
from kbroker.log.partition.log import Log
from kbroker.log.segments.transaction_index import AbortedTxn
from kbroker.record.compression import ZSTD
from kbroker.record.legacy_builder import build_legacy
from kbroker.record.record_batch import (
    CONTROL_BIT,
    HEADER_SIZE,
    TRANSACTIONAL_BIT,
    BatchOptions,
    Record,
    build,
    join_pieces,
    read_header,
)
from tests.fakes.brokers.cleaning_broker import DATA, CleaningBroker
from tests.fakes.disks.memory_file_system import MemoryFileSystem
from tests.fakes.logs.log_cleaning import clean, stored_batches
from tests.fakes.logs.log_maker import NOW_MS, open_log
from tests.fakes.logs.unreadable_batches import (
    batch_cut_short,
    unreadable_batch,
    unreadable_message,
)


def log_of(directory: Path, *batches: bytes) -> Log:
    """A compacted log of one segment of these, and an active one."""
    directory.mkdir()
    (directory / f"{0:020d}.log").write_bytes(b"".join(batches))
    log = open_log(directory, cleanup_policy=("compact",))
    log.roll(NOW_MS)
    log.update_high_watermark(log.log_end_offset)
    return log


def good(offset: int, key: bytes) -> bytes:
    return build([Record(offset, NOW_MS, key, b"%d" % offset)], base_offset=offset)


def left(log: Log) -> list[bytes]:
    return [batch for _, batch in stored_batches(log)]


@pytest.mark.parametrize(
    "unreadable",
    [
        *(pytest.param(unreadable_batch(2, 3, codec=c), id=f"codec {c}") for c in (1, 2, 3, 4, 7)),
        pytest.param(batch_cut_short(2, 3), id="cut short"),
    ],
)
def test_a_batch_that_cannot_be_read_stays_and_the_others_are_cleaned(
    tmp_path: Path, unreadable: bytes
) -> None:
    log = log_of(
        tmp_path / "t-0", good(0, b"a"), good(1, b"b"), unreadable, good(5, b"a"), good(6, b"c")
    )

    done = clean(log, NOW_MS)

    assert left(log) == [good(1, b"b"), unreadable, good(5, b"a"), good(6, b"c")]
    assert done.end_offset == 7
    assert done.stats.unreadable_batches == 1
    assert done.stats.first_unreadable.startswith("offset 2: ")


@pytest.mark.parametrize("magic", [0, 1])
def test_a_message_of_an_old_format_stays_too(tmp_path: Path, magic: int) -> None:
    def old(offset: int, key: bytes) -> bytes:
        return build_legacy([Record(offset, NOW_MS if magic else -1, key, b"v")], magic)

    unreadable = unreadable_message(1, magic)
    log = log_of(tmp_path / "t-0", old(0, b"a"), unreadable, old(2, b"a"))

    clean(log, NOW_MS)

    assert left(log) == [unreadable, old(2, b"a")]


def test_a_log_that_begins_its_dirty_part_with_one_is_cleaned_to_the_end(tmp_path: Path) -> None:
    log = log_of(tmp_path / "t-0", unreadable_batch(0, 2))

    assert clean(log, NOW_MS).end_offset == 2
    assert left(log) == [unreadable_batch(0, 2)]


def test_a_marker_that_cannot_be_read_ends_the_transaction_that_the_index_says() -> None:
    aborted = AbortedTxn(producer_id=7, first_offset=10, last_offset=20, last_stable_offset=21)
    kept: list[AbortedTxn] = []
    transactions = CleanedTransactions([aborted], kept.append)

    def data(offset: int) -> bytes:
        options = BatchOptions(flags=TRANSACTIONAL_BIT, producer_id=7, producer_epoch=0)
        return build([Record(offset, 0, b"k", b"v")], base_offset=offset, options=options)

    def marker(offset: int) -> bytes:
        return unreadable_batch(offset, flags=TRANSACTIONAL_BIT | CONTROL_BIT)

    def ends(offset: int) -> bool:
        header = read_header(marker(offset))._replace(producer_id=7)
        return transactions.is_empty_marker(header, memoryview(marker(offset)))

    assert transactions.is_aborted_data(read_header(data(10)))
    assert not ends(20)
    assert kept == [aborted]
    assert not transactions.is_aborted_data(read_header(data(21)))  # committed: it must not go
    assert not ends(22)
    assert kept == [aborted]


def test_a_cleaning_that_met_one_names_it(caplog: pytest.LogCaptureFixture) -> None:
    disk = MemoryFileSystem()
    disk.make_directory(DATA)
    broker = CleaningBroker(disk, {"min_cleanable_dirty_ratio": 0.0})
    log = broker.log()
    broker.write(log, (b"a", b"1"))
    log.append_as_follower(unreadable_batch(1, 2), NOW_MS)
    broker.write(log, (b"a", b"2"))
    broker.roll(log)

    broker.clean()

    assert log.cleaned_end_offset == 4
    assert [header.base_offset for header, _ in stored_batches(log)] == [1, 3]
    (told,) = [line for line in caplog.messages if "cannot be read" in line]
    assert told.startswith("Log t-0 keeps batches as they are that cannot be read, 1 of them, the ")
    assert "first at offset 1: " in told


def test_a_batch_that_unpacks_to_more_than_is_held_is_cleaned(tmp_path: Path) -> None:
    record = build([Record(0, NOW_MS, b"a", bytes(20_000_000))])[HEADER_SIZE:]
    records = (record, record[:6] + b"\2" + record[7:])  # at the next offset
    header = read_header(build([Record(n, NOW_MS, b"a", None) for n in range(2)]))
    packed = join_pieces(header._replace(attributes=ZSTD), records)
    log = log_of(tmp_path / "t-0", packed, good(2, b"c"))

    done = clean(log, NOW_MS)

    assert done.stats.unreadable_batches == 0
    assert [header.record_count for header, _ in stored_batches(log)] == [1, 1]
    assert [header.base_timestamp for header, _ in stored_batches(log)] == [NOW_MS] * 2
