"""What a person reads of the transactions that coordinators will end."""

from __future__ import annotations

import pytest

from kbroker.cli.txn.owners import ending, owned_sentences, unowned_sentences
from kbroker.client.hanging_transactions import OpenTransaction, OwnedTransaction
from kbroker.client.transactions import DescribedTransaction
from kbroker.model import TopicPartition

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
START_MS, TIMEOUT_MS = 1_000_000, 60_000


def described(state: str = "Ongoing", name: str = "billing") -> DescribedTransaction:
    return DescribedTransaction(
        transactional_id=name, coordinator=3, producer_id=7, producer_epoch=0, state=state,
        timeout_ms=TIMEOUT_MS, start_ms=START_MS, partitions=(P0, P1),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("state", "open_ms", "sentence"),
    [
        ("Ongoing", 18_000, "broker 3 aborts it when its time is up, in 42 s"),
        ("Ongoing", 60_000, "its time is up: broker 3 aborts it when it looks next"),
        ("Ongoing", 75_000, "its time is up: broker 3 aborts it when it looks next"),
        ("PrepareCommit", 1, "broker 3 commits it as soon as its partitions can be reached"),
        ("PrepareAbort", 75_000, "broker 3 aborts it as soon as its partitions can be reached"),
        ("PrepareEpochFence", 1, "broker 3 aborts it as soon as its partitions can be reached"),
    ],
)
def test_the_end_of_a_transaction_is_told(state: str, open_ms: int, sentence: str) -> None:
    assert ending(described(state), START_MS + open_ms) == sentence


def test_each_is_told_with_the_partitions_where_it_is_open() -> None:
    owned = [
        OwnedTransaction(described(), (P0, P1)),
        OwnedTransaction(described(name="a b "), (P1,)),
    ]

    assert owned_sentences(owned, START_MS) == [
        "billing has an open transaction in t-0, t-1: broker 3 aborts it when its time is up, in "
        "60 s",
        "'a b ' has an open transaction in t-1: broker 3 aborts it when its time is up, in 60 s",
    ]


def test_many_are_counted() -> None:
    owned = [OwnedTransaction(described(name=f"tx-{number}"), (P0,)) for number in range(1_012)]

    *told, last = owned_sentences(owned, START_MS)

    assert [sentence.split()[0] for sentence in told] == [f"tx-{number}" for number in range(10)]
    assert last == (
        "1,002 more open transactions, younger ones, will be ended by their coordinators "
        "(`kbroker txn list --longer-than 1s`)"
    )


def unowned(last_timestamp_ms: int, place: TopicPartition = P0) -> OpenTransaction:
    return OpenTransaction(
        place=place, producer_id=7, producer_epoch=3, coordinator_epoch=-1, start_offset=5,
        last_timestamp_ms=last_timestamp_ms,
    )  # fmt: skip


def test_what_no_coordinator_knows_is_told_with_its_age_the_oldest_first() -> None:
    found = [unowned(START_MS - 12_000), unowned(START_MS + 1, P1), unowned(START_MS - 400_000)]

    assert unowned_sentences(found, START_MS, 900.0) == [
        "producer 7 has an open transaction in t-0 at offset 5 that no coordinator knows: it was "
        "written to 7 min ago, and hangs when nothing is written for 15 min",
        "producer 7 has an open transaction in t-0 at offset 5 that no coordinator knows: it was "
        "written to 12 s ago, and hangs when nothing is written for 15 min",
        "producer 7 has an open transaction in t-1 at offset 5 that no coordinator knows: it was "
        "written to 0 s ago, and hangs when nothing is written for 15 min",
    ]


def test_many_that_no_coordinator_knows_are_counted() -> None:
    found = [unowned(START_MS - number) for number in range(12)]

    *told, last = unowned_sentences(found, START_MS, 900.0)

    assert len(told) == 10
    assert last == "2 more open transactions, younger ones, that no coordinator knows"
