"""Which batches of an answer were aborted."""

from __future__ import annotations

from kbroker.client.fetched_batches import AbortedTransactions
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


def of(producer_id: int, *, is_transactional: bool = True) -> BatchOptions:
    return BatchOptions(
        flags=TRANSACTIONAL_BIT if is_transactional else 0,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
    )


def batch(offset: int, options: BatchOptions) -> BatchHeader:
    return read_header(build([Record(offset, 0, None, b"v")], base_offset=offset, options=options))


def marker(offset: int, producer_id: int, *, is_commit: bool) -> BatchHeader:
    control = ControlRecord(is_commit, 0)
    return read_header(build_marker(control, 0, base_offset=offset, options=of(producer_id)))


def hidden(transactions: list[tuple[int, int]], *headers: BatchHeader) -> list[int]:
    aborted = AbortedTransactions(transactions)
    return [header.base_offset for header in headers if aborted.hides(header)]


def test_an_aborted_transaction_lasts_from_its_first_offset_to_its_marker() -> None:
    log = (
        batch(0, of(7)),
        marker(1, 7, is_commit=True),
        batch(2, of(7)),
        batch(3, of(8)),
        batch(4, of(9, is_transactional=False)),
        batch(5, of(7)),
        marker(6, 7, is_commit=False),
        batch(7, of(7)),
        marker(8, 7, is_commit=True),
        marker(9, 8, is_commit=True),
    )

    assert hidden([(7, 2)], *log) == [2, 5]
    assert hidden([], *log) == []


def test_one_that_began_before_the_answer_is_known_too() -> None:
    log = (batch(20, of(7)), marker(21, 7, is_commit=False), batch(22, of(7)), batch(23, of(8)))

    assert hidden([(8, 23), (7, 2)], *log) == [20, 23]
