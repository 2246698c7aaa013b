from __future__ import annotations

import pytest

from kbroker.inspection.transaction_check import TransactionCheck
from kbroker.log.segments.transaction_index import AbortedTxn
from kbroker.record.record_batch import (
    CONTROL_BIT,
    TRANSACTIONAL_BIT,
    BatchOptions,
    ControlRecord,
    build_marker,
    read_header,
)
from tests.unit.inspection.test_segment_scan import batch

ABORTED = AbortedTxn(7, 0, 4, 5)


def data(producer_id: int, base_offset: int, count: int = 2):
    options = {"flags": TRANSACTIONAL_BIT, "producer_id": producer_id, "producer_epoch": 0}
    return read_header(batch(base_offset, count, base_sequence=0, **options))


def marker(producer_id: int, offset: int):
    options = BatchOptions(producer_id=producer_id, producer_epoch=0)
    header = read_header(
        build_marker(ControlRecord(False, 0), 1000, base_offset=offset, options=options)
    )
    assert header.attributes & CONTROL_BIT
    return header


def codes(*entries: AbortedTxn, is_commit: bool = False, is_cleaned: bool = False) -> list[str]:
    """Producer 7 writes 0 to 3 and ends with the marker 4."""
    check = TransactionCheck()
    found = list(check.begin_segment(list(entries), 0))
    check.data(data(7, 0))
    check.data(data(7, 2))
    found += check.marker(marker(7, 4), is_commit=is_commit)
    found += check.end_segment(4, is_cleaned=is_cleaned)
    return [problem.code for problem in found]


def test_an_aborted_transaction_has_its_entry() -> None:
    assert codes(ABORTED) == []
    assert codes(is_commit=True) == []


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ((), ["txnindex-missing"]),
        ((AbortedTxn(8, 0, 4, 5),), ["txnindex-entry"]),
        ((AbortedTxn(7, 2, 4, 5),), ["txnindex-entry"]),
        ((AbortedTxn(7, 0, 4, 4),), ["txnindex-entry"]),
        ((AbortedTxn(7, 0, 3, 5),), ["txnindex-missing", "txnindex-entry"]),
        ((AbortedTxn(7, 0, 9, 5),), ["txnindex-missing", "txnindex-beyond"]),
        ((AbortedTxn(7, 5, 4, 5),), ["txnindex-entry", "txnindex-entry"]),
        ((ABORTED, ABORTED), ["txnindex-order"]),
    ],
)
def test_entries_that_are_wrong_are_found(entries, expected: list[str]) -> None:
    assert sorted(codes(*entries)) == sorted(expected)


def test_an_entry_for_a_committed_transaction_is_found() -> None:
    assert codes(ABORTED, is_commit=True) == ["txnindex-entry"]


def test_a_marker_that_the_cleaner_removed_is_not_missed() -> None:
    check = TransactionCheck()
    assert not list(check.begin_segment([ABORTED], 0))

    assert not list(check.end_segment(10, is_cleaned=True))


def test_an_open_transaction_of_another_producer_holds_the_stable_offset() -> None:
    check = TransactionCheck()
    found = list(check.begin_segment([AbortedTxn(7, 2, 4, 0)], 0))
    check.data(data(8, 0))
    check.data(data(7, 2))
    found += check.marker(marker(7, 4), is_commit=False)

    assert found == []


def test_a_transaction_may_begin_in_an_earlier_segment() -> None:
    check = TransactionCheck()
    found = list(check.begin_segment([], 0))
    check.data(data(7, 0))
    found += check.end_segment(3, is_cleaned=False)
    found += check.begin_segment([ABORTED], 4)
    found += check.marker(marker(7, 4), is_commit=False)
    found += check.end_segment(4, is_cleaned=False)

    assert found == []


def test_a_marker_of_a_transaction_whose_records_are_gone_proves_nothing() -> None:
    check = TransactionCheck()
    found = list(check.begin_segment([], 4))
    found += check.marker(marker(7, 4), is_commit=False)
    found += check.end_segment(4, is_cleaned=False)

    assert found == []


def test_an_entry_that_a_running_broker_writes_during_the_walk_is_not_missed() -> None:
    check = TransactionCheck()
    found = list(check.begin_segment([], 0))
    check.data(data(7, 0))
    found += check.marker(marker(7, 4), is_commit=False)
    lacked = check.lacks_entries
    check.came_later([ABORTED])
    found += check.end_segment(4, is_cleaned=False)

    assert (lacked, found) == (True, [])
