"""What `kbroker txn producers` says of the producers of a topic."""

from __future__ import annotations

from typing import Any

import pytest

from kbroker.cli.txn.commands import summary_of_producers

ROWS: list[dict[str, Any]] = [
    {"partition": 0, "producer_id": 7, "transaction_start_offset": 3},
    {"partition": 1, "producer_id": 7, "transaction_start_offset": 9},
    {"partition": 1, "producer_id": 8, "transaction_start_offset": None},
]


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([], "0 producers, 0 open transactions"),
        (ROWS, "2 producers, 1 open transaction"),
        (ROWS[:2], "1 producer, 1 open transaction"),
        (ROWS[2:], "1 producer, 0 open transactions"),
    ],
)
def test_a_producer_of_several_partitions_counts_once(
    rows: list[dict[str, Any]], sentence: str
) -> None:
    assert summary_of_producers(rows) == sentence
