"""Sentences about open transactions that their coordinators will end: by whom, how, and when."""

from __future__ import annotations

from collections.abc import Sequence

from kbroker.cli.output import counted, duration_text, named
from kbroker.cli.refusals import shown
from kbroker.client.hanging_transactions import OwnedTransaction
from kbroker.client.transactions import DescribedTransaction

_MOST_TOLD = 10


def owned_sentences(owned: Sequence[OwnedTransaction], now_ms: int) -> list[str]:
    """A sentence for each of the first few, and one for all others; they are the oldest first."""
    told = [
        f"{shown(each.owner.transactional_id)} has an open transaction in {named(each.places)}: "
        f"{ending(each.owner, now_ms)}"
        for each in owned[:_MOST_TOLD]
    ]
    more = len(owned) - len(told)
    if more:
        told.append(
            f"{counted(more, 'more open transaction')}, younger ones, will be ended by their "
            "coordinators (`kbroker txn list --longer-than 1s`)"
        )
    return told


def ending(owner: DescribedTransaction, now_ms: int) -> str:
    """Tell how a transaction that is open will end, and when: a coordinator looks at times for
    those whose time is up.
    """
    broker = f"broker {owner.coordinator}"
    if owner.times_out_ms is None:
        ends = "commits" if owner.state == "PrepareCommit" else "aborts"
        return f"{broker} {ends} it as soon as its partitions can be told"
    left_s = (owner.times_out_ms - now_ms) / 1000
    if left_s <= 0:
        return f"its time is up: {broker} aborts it when it looks next"
    return f"{broker} aborts it when its time is up, in {duration_text(left_s)}"
