"""`kbroker txn`: transactional ids and their transactions, the producers of partitions, and hanging
transactions.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from kbroker.cli.arguments.completion import topic_names, transactional_ids
from kbroker.cli.arguments.connection import bootstrap_option, cluster_links, tell_silent
from kbroker.cli.arguments.refusals import no_such_broker, refuse
from kbroker.cli.arguments.time_argument import duration
from kbroker.cli.arguments.topic_choice import (
    check_partitions,
    existing_topic,
    partitions_option,
)
from kbroker.cli.lazy_commands import CommandGroup
from kbroker.cli.shown.output import counted, output_option, print_rows, say
from kbroker.cli.txn.abort import abort
from kbroker.cli.txn.hanging import find_hanging, unknown_producers
from kbroker.client.cluster_links import TopicView
from kbroker.client.cluster_requests import TRANSACTIONAL_ID, check_all_listed
from kbroker.client.transactions import (
    OPEN_STATES,
    STATES,
    DescribedTransaction,
    ListedTransaction,
    Producer,
    describe_listed,
    describe_transaction,
    listed_transactions,
    producers_of,
)
from kbroker.client.unknown_names import no_such
from kbroker.errors import KafkaError, Trouble
from kbroker.model import NO_LEADER, TopicPartition

_LISTED = ("transactional_id", "state", "coordinator", "producer_id")
_OPEN = ("start_ms", "open_s")
_DESCRIBED = (
    "transactional_id", "state", "coordinator", "producer_id", "producer_epoch", "timeout_ms",
    "start_ms", "open_s", "partitions",
)  # fmt: skip
_PRODUCERS = (
    "topic", "partition", "producer_id", "producer_epoch", "last_sequence", "last_timestamp_ms",
    "coordinator_epoch", "transaction_start_offset",
)  # fmt: skip


@click.group(cls=CommandGroup)
def txn() -> None:
    """Show transactions and their producers, find and abort hanging ones."""


@txn.command("list", short_help="Print state, producer and coordinator of transactions.")
@click.option(
    "--state",
    "states",
    type=click.Choice(STATES, case_sensitive=False),
    multiple=True,
    metavar="STATE",
    help="Only ids in this state, such as Ongoing; may be repeated.",
)
@click.option(
    "--producer-id", "producer_ids", type=int, multiple=True,
    help="Only the id of this producer; may be repeated.",
)  # fmt: skip
@click.option(
    "--longer-than", type=duration, metavar="DURATION",
    help="Only transactions that have been open longer, such as 30s or 5m.",
)  # fmt: skip
@output_option
@bootstrap_option
def list_transactions(
    bootstrap: str,
    output: str,
    states: Sequence[str],
    producer_ids: Sequence[int],
    longer_than: float | None,
) -> None:
    """Print one line per transactional id: its state, its producer, and the broker that coordinates
    it.
    """
    wanted = (
        states if longer_than is None else [s for s in states or OPEN_STATES if s in OPEN_STATES]
    )
    with cluster_links(bootstrap) as links:
        listed = listed_transactions(links, wanted, producer_ids)
        rows = [_listed_row(each) for each in listed]
        if longer_than is not None:
            rows = _open_longer(describe_listed(links, listed), longer_than) if wanted else []
        print_rows(rows, _LISTED if longer_than is None else (*_LISTED, *_OPEN), output)
        tell_silent(links)
        check_all_listed(links, TRANSACTIONAL_ID)
    if not rows:
        is_all = not (states or producer_ids or longer_than)
        reason = ": there is one when a producer has used it" if is_all else " like that"
        say(f"no transactional ids{reason}")


@txn.command("describe", short_help="Print state, producer and partitions of transactions.")
@click.argument(
    "names", nargs=-1, required=True, metavar="TRANSACTIONAL_ID...",
    shell_complete=transactional_ids,
)  # fmt: skip
@output_option
@bootstrap_option
def describe(bootstrap: str, output: str, names: Sequence[str]) -> None:
    """Print what the coordinator of each transactional id has stored: its state, its producer, and
    while a transaction is open, since when and in which partitions.

    The coordinator aborts a transaction that has been open longer than TIMEOUT_MS.
    """
    with cluster_links(bootstrap) as links:
        found = {
            name: describe_transaction(links, name) if name else None  # none is empty
            for name in dict.fromkeys(names)
        }
        missing = [name for name, each in found.items() if each is None]
        known = [each.transactional_id for each in listed_transactions(links)] if missing else []
    rows = [_described_row(each, time.time()) for each in found.values() if each is not None]
    print_rows(rows, _DESCRIBED, output)
    refuse([no_such("transactional id", name, known, "txn") for name in missing])


@txn.command("producers", short_help="Print the producers that partitions remember.")
@click.argument("topic", shell_complete=topic_names)
@partitions_option()
@click.option(
    "--broker", type=int, metavar="ID",
    help="What this broker's replicas remember (default: the leaders').",
)  # fmt: skip
@output_option
@bootstrap_option
def producers(
    bootstrap: str, output: str, topic: str, numbers: Sequence[int], broker: int | None
) -> None:
    """Print the idempotent and transactional producers that the partitions of TOPIC remember.

    TRANSACTION_START_OFFSET is the first offset of an open transaction; read_committed readers
    read up to the first of them.
    """
    with cluster_links(bootstrap) as links:
        view = existing_topic(links, topic)
        check_partitions(view, numbers)
        online = {each.node_id for each in links.describe([]).brokers}
        if broker is not None and broker not in online:
            refuse([no_such_broker(broker, online)])
        asked = _asked(view, numbers, broker)
        found = producers_of(links, {place: at for place, at in asked.items() if at != NO_LEADER})
    rows = [
        _producer_row(place, each)
        for place, answer in sorted(found.items())
        if not isinstance(answer, KafkaError)
        for each in answer
    ]
    print_rows(rows, _PRODUCERS, output)
    tell_silent(links)
    say(f"{topic}: {summary_of_producers(rows)}")
    answers = {place: found.get(place) for place in asked}
    refuse(
        [
            unknown_producers(place, asked[place], answer)
            for place, answer in answers.items()
            if answer is None or isinstance(answer, KafkaError)
        ],
        Trouble.NO_LEADER if NO_LEADER in asked.values() else None,
    )


def summary_of_producers(rows: Iterable[Mapping[str, Any]]) -> str:
    """Count producers, each of which may have written to many partitions."""
    ids = {row["producer_id"] for row in rows}
    open_ids = {row["producer_id"] for row in rows if row["transaction_start_offset"] is not None}
    return f"{counted(len(ids), 'producer')}, {counted(len(open_ids), 'open transaction')}"


def _asked(
    view: TopicView, numbers: Sequence[int], broker: int | None
) -> dict[TopicPartition, int]:
    return {
        TopicPartition(view.name, number): leader if broker is None else broker
        for number, leader in view.leaders.items()
        if not numbers or number in numbers
    }


def _listed_row(listed: ListedTransaction) -> dict[str, Any]:
    return {
        "transactional_id": listed.transactional_id,
        "state": listed.state,
        "coordinator": listed.coordinator,
        "producer_id": listed.producer_id,
    }


def _open_longer(described: Iterable[DescribedTransaction], seconds: float) -> list[dict[str, Any]]:
    now_s = time.time()
    rows = [_described_row(each, now_s) for each in described]
    longer = [row for row in rows if row["open_s"] is not None and row["open_s"] > seconds]
    return sorted(longer, key=lambda row: str(row["transactional_id"]))


def _described_row(described: DescribedTransaction, now_s: float) -> dict[str, Any]:
    start_ms = described.start_ms
    return {
        "transactional_id": described.transactional_id,
        "state": described.state,
        "coordinator": described.coordinator,
        "producer_id": described.producer_id,
        "producer_epoch": described.producer_epoch,
        "timeout_ms": described.timeout_ms,
        "start_ms": start_ms,
        "open_s": None if start_ms is None else max(0.0, round(now_s - start_ms / 1000, 1)),
        "partitions": [str(place) for place in described.partitions],
    }


def _producer_row(place: TopicPartition, producer: Producer) -> dict[str, Any]:
    return {
        **place._asdict(),
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
        "last_sequence": _known(producer.last_sequence),
        "last_timestamp_ms": _known(producer.last_timestamp),
        "coordinator_epoch": _known(producer.coordinator_epoch),
        "transaction_start_offset": _known(producer.current_txn_start_offset),
    }


def _known(figure: int) -> int | None:
    return None if figure < 0 else figure


txn.add_command(abort)
txn.add_command(find_hanging)
