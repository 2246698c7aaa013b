"""What holds back the last stable offset, where very many transactions are open or wait for the
high watermark.
"""

from __future__ import annotations

from collections.abc import Callable

import hypothesis.strategies as st
import pytest
from hypothesis import given

from kbroker.log.producers.unstable_transactions import CompletedTxn, UnstableTransactions
from tests.fakes.running.counted_steps import growth

OPEN = 200
LINEAR = 2.2  # times the steps for twice as much


def with_open(count: int) -> UnstableTransactions:
    transactions = UnstableTransactions()
    for offset in range(count):
        transactions.begin(offset, offset)
    return transactions


def ends(transactions: UnstableTransactions, count: int, *, replicated: bool) -> None:
    for offset in range(count):
        completed = CompletedTxn(offset, offset, count + offset, True)
        transactions.last_stable_offset_after(completed)
        transactions.complete(completed)
        transactions.replicated(count + offset + 1 if replicated else 0)


def prompt(count: int) -> Callable[[], object]:
    transactions = with_open(count)
    return lambda: ends(transactions, count, replicated=True)


def late(count: int) -> Callable[[], object]:
    """The high watermark comes to one marker after the other when all are written."""
    transactions = with_open(count)
    ends(transactions, count, replicated=False)
    return lambda: [transactions.replicated(count + offset + 1) for offset in range(count)]


def waiting(count: int) -> Callable[[], object]:
    transactions = with_open(count)
    return lambda: ends(transactions, count, replicated=False)


@pytest.mark.parametrize("work", [prompt, late, waiting], ids=lambda work: work.__name__)
def test_twice_as_many_transactions_are_twice_the_work(
    work: Callable[[int], Callable[[], object]],
) -> None:
    assert growth(work, OPEN) < LINEAR


STEPS = st.lists(st.tuples(st.sampled_from(["begin", "end", "replicated"]), st.integers(0, 20)))


@given(STEPS)
def test_the_oldest_is_what_a_look_at_all_of_them_says(steps: list[tuple[str, int]]) -> None:
    transactions = UnstableTransactions()
    still_open: list[int] = []
    decided: dict[int, int] = {}  # first offset -> last offset
    for offset, (name, number) in enumerate(steps):
        if name == "begin":
            transactions.begin(offset, offset)
            still_open.append(offset)
        elif name == "end" and still_open:
            first = still_open.pop(number % len(still_open))
            completed = CompletedTxn(first, first, offset, False)
            expected = min(still_open, default=offset + 1)
            assert transactions.last_stable_offset_after(completed) == expected
            transactions.complete(completed)
            decided[first] = offset
        elif name == "replicated":
            transactions.replicated(offset - number)
            decided = {first: last for first, last in decided.items() if last >= offset - number}

        assert transactions.first_offset == min([*still_open, *decided], default=None)
