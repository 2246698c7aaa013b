"""Open transactions, which hide the records behind them, as commands report them."""

from __future__ import annotations

from collections.abc import Mapping

from kbroker.cli.shown.output import say
from kbroker.client.open_transactions import sentence_of_open
from kbroker.model import TopicPartition


def tell_open(held: Mapping[TopicPartition, int]) -> None:
    """Say at which offsets open transactions begin; nothing if there are none."""
    if held:
        say(sentence_of_open(held))
