"""Sentences about open transactions that do not hang: which broker will end them, how and when; and
how old those are that no coordinator knows.
"""

from __future__ import annotations

from collections.abc import Sequence

from kbroker.cli.shown.output import counted, duration_text, named
from kbroker.client.hanging_transactions import OpenTransaction, OwnedTransaction
from kbroker.client.transactions import DescribedTransaction
from kbroker.wording import shown

_MOST_NAMED = 10


def owned_sentences(owned: Sequence[OwnedTransaction], now_ms: int) -> list[str]:
    """Return a sentence for each of the first few, the oldest, and one for all others."""
    first = [
        f"{shown(each.owner.transactional_id)} has an open transaction in {named(each.places)}: "
        f"{ending(each.owner, now_ms)}"
        for each in owned[:_MOST_NAMED]
    ]
    rest = "will be ended by their coordinators (`kbroker txn list --longer-than 1s`)"
    return first + _of_others(len(owned), rest)


def unowned_sentences(
    unowned: Sequence[OpenTransaction], now_ms: int, hangs_after_s: float
) -> list[str]:
    """Return sentences as `owned_sentences` does, for transactions that will hang if they stay as
    they are.
    """
    oldest_first = sorted(unowned, key=lambda each: each.last_timestamp_ms)
    first = [
        f"producer {each.producer_id} has an open transaction in {each.place} at offset "
        f"{each.start_offset} that no coordinator knows: it was written to "
        f"{duration_text(max(0, now_ms - each.last_timestamp_ms) / 1000)} ago, and hangs when "
        f"nothing is written for {duration_text(hangs_after_s)}"
        for each in oldest_first[:_MOST_NAMED]
    ]
    return first + _of_others(len(unowned), "that no coordinator knows")


def _of_others(count: int, what: str) -> list[str]:
    """Return the sentence about those that have none of their own, if there are any."""
    more = count - _MOST_NAMED
    return [f"{counted(more, 'more open transaction')}, younger ones, {what}"] if more > 0 else []


def ending(owner: DescribedTransaction, now_ms: int) -> str:
    """Say how an open transaction will end, and when; coordinators look now and then for those
    whose time is up.
    """
    broker = f"broker {owner.coordinator}"
    if owner.times_out_ms is None:
        ends = "commits" if owner.state == "PrepareCommit" else "aborts"
        return f"{broker} {ends} it as soon as its partitions can be reached"
    left_s = (owner.times_out_ms - now_ms) / 1000
    if left_s <= 0:
        return f"its time is up: {broker} aborts it when it looks next"
    return f"{broker} aborts it when its time is up, in {duration_text(left_s)}"
