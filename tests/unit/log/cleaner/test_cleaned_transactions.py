"""What the cleaner makes of transactions, batch by batch."""

from __future__ import annotations

from kbroker.log.cleaner.cleaned_transactions import CleanedTransactions
from kbroker.log.segments.transaction_index import AbortedTxn
from kbroker.record.record_batch import (
    TRANSACTIONAL_BIT,
    BatchHeader,
    BatchOptions,
    ControlRecord,
    Record,
    build,
    build_marker,
    read_header,
)

ABORTED = AbortedTxn(producer_id=7, first_offset=10, last_offset=20, last_stable_offset=21)


def data(offset: int, producer_id: int = 7, flags: int = TRANSACTIONAL_BIT) -> BatchHeader:
    options = BatchOptions(flags=flags, producer_id=producer_id, producer_epoch=0)
    return read_header(build([Record(offset, 0, b"k", b"v")], base_offset=offset, options=options))


def marker(offset: int, *, is_commit: bool, producer_id: int = 7) -> tuple[BatchHeader, memoryview]:
    options = BatchOptions(producer_id=producer_id, producer_epoch=0)
    batch = build_marker(ControlRecord(is_commit, 0), 0, base_offset=offset, options=options)
    return read_header(batch), memoryview(batch)


def test_data_of_an_aborted_transaction_is_known_and_its_marker_stays_once() -> None:
    kept: list[AbortedTxn] = []
    transactions = CleanedTransactions([ABORTED], kept.append)
    assert not transactions.is_aborted_data(data(9, flags=0))
    assert transactions.is_aborted_data(data(10))
    assert not transactions.is_aborted_data(data(11, producer_id=8))
    assert not transactions.is_empty_marker(*marker(20, is_commit=False))
    assert kept == [ABORTED]
    assert not transactions.is_aborted_data(data(21))


def test_the_marker_of_an_abort_without_data_is_empty() -> None:
    kept: list[AbortedTxn] = []
    transactions = CleanedTransactions([ABORTED], kept.append)
    assert transactions.is_empty_marker(*marker(20, is_commit=False))
    assert kept == []


def test_the_marker_of_a_commit_stays_while_there_is_data() -> None:
    transactions = CleanedTransactions([])
    assert not transactions.is_aborted_data(data(5))
    assert not transactions.is_empty_marker(*marker(6, is_commit=True))
    assert transactions.is_empty_marker(*marker(7, is_commit=True))


def test_a_control_batch_without_records_is_empty() -> None:
    header, batch = marker(5, is_commit=True)
    assert CleanedTransactions([]).is_empty_marker(header._replace(record_count=0), batch)
