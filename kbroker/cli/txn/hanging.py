"""`kbroker txn find-hanging`: prints transactions that are open in a partition and that no
coordinator will end, and says which ones a coordinator will.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import click

from kbroker.cli.arguments.completion import topic_names
from kbroker.cli.arguments.connection import (
    CommandError,
    bootstrap_option,
    cluster_links,
    tell_silent,
)
from kbroker.cli.arguments.refusals import no_such_broker, refuse
from kbroker.cli.arguments.time_argument import duration
from kbroker.cli.arguments.topic_choice import described_topics, partitions_option
from kbroker.cli.shown.output import counted, output_option, print_rows, say
from kbroker.cli.txn.owners import owned_sentences, unowned_sentences
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.hanging_transactions import OpenTransaction, Search
from kbroker.client.hanging_transactions import find_hanging as search
from kbroker.client.topic_rows import rows_of
from kbroker.client.unknown_names import no_such_partition
from kbroker.errors import ErrorCode, KafkaError, Trouble
from kbroker.model import NO_LEADER, TopicPartition

_COLUMNS = (
    "topic", "partition", "producer_id", "producer_epoch", "coordinator_epoch",
    "transaction_start_offset", "last_timestamp_ms", "idle_s",
)  # fmt: skip


@click.command("find-hanging", short_help="Print transactions that nobody will end.")
@click.argument("topics", nargs=-1, metavar="[TOPIC]...", shell_complete=topic_names)
@partitions_option("Only this partition of the one TOPIC; may be repeated.")
@click.option(
    "--broker", type=int, metavar="ID", help="Only partitions that have a replica on this broker.",
)  # fmt: skip
@click.option(
    "--max-transaction-timeout", type=duration, default="15m", show_default=True,
    metavar="DURATION",
    help="Call only those hanging in which nothing was written for so long; take the "
    "transaction.max.timeout.ms of the brokers.",
)  # fmt: skip
@output_option
@bootstrap_option
def find_hanging(
    bootstrap: str,
    output: str,
    topics: Sequence[str],
    numbers: Sequence[int],
    broker: int | None,
    max_transaction_timeout: float,
) -> None:
    """Print the transactions that are open in a partition, of these topics or of all, and that no
    coordinator knows of: who reads with read_committed waits for their end for ever, and compaction
    stops there.

    All coordinators are asked. Transactions that one of them will end are not among the rows:
    sentences say which broker ends them, and when. Others are about those that no coordinator
    knows, but that were written to lately. Exit code 1 when one hangs; `kbroker txn abort` ends it.
    """
    if numbers and len(topics) != 1:
        raise click.UsageError("--partition needs one TOPIC")
    now_s = time.time()
    now_ms, idle_ms = int(now_s * 1000), int(max_transaction_timeout * 1000)
    with cluster_links(bootstrap) as links:
        asked = _partitions(links, topics, numbers, broker)
        leaders = {place: at for place, at in asked.items() if at != NO_LEADER}
        found = search(links, leaders, now_ms, idle_ms)
    print_rows([_row(each, now_s) for each in found.hanging], _COLUMNS, output)
    tell_silent(links)
    if found.unknown_owners is not None:
        say(f"who will end open transactions is not known: {found.unknown_owners}")
    for sentence in (
        *owned_sentences(found.owned, now_ms),
        *unowned_sentences(found.unowned, now_ms, max_transaction_timeout),
    ):
        say(sentence)
    failures = [
        unknown_producers(place, at, found.refused.get(place))
        for place, at in sorted(asked.items())
        if at == NO_LEADER or place in found.refused
    ]
    searched = counted(len(asked) - len(failures), "partition")
    say(f"{counted(len(found.hanging), 'hanging transaction')} in {searched}")
    trouble = Trouble.NO_LEADER if len(leaders) < len(asked) else None
    if found.hanging:
        raise CommandError(_sentence(found, failures), trouble=Trouble.HANGING_TRANSACTION)
    refuse(failures, trouble)


def _sentence(found: Search, failures: Sequence[str]) -> str:
    """Print other failures, and return the sentence about what to do."""
    for failure in failures:
        say(f"Error: {failure}")
    first = found.hanging[0]
    command = (
        f"`kbroker txn abort {first.place.topic} --partition {first.place.partition} "
        f"--start-offset {first.start_offset}`"
    )
    if len(found.hanging) == 1:
        return f"a transaction hangs in {first.place} ({command} ends it)"
    return f"{len(found.hanging)} transactions hang ({command} ends the first)"


def _partitions(
    links: ClusterLinks, names: Sequence[str], numbers: Sequence[int], broker: int | None
) -> dict[TopicPartition, int]:
    """Return the leader of each partition to search. CommandError if one is not there."""
    described = links.describe(None)
    online = {each.node_id for each in described.brokers}
    found = dict(sorted(rows_of(described_topics(described.topics, names).values())))
    wanted = [TopicPartition(names[0], number) for number in numbers]
    unknown = [no_such_partition(place, len(found)) for place in wanted if place not in found]
    refuse(unknown)
    holders = {holder for each in found.values() for holder in each.replica_nodes}
    if broker is not None and broker not in online | holders:
        refuse([no_such_broker(broker, online, holders - online)])
    return {
        place: each.leader_id if each.leader_id >= 0 else NO_LEADER
        for place, each in found.items()
        if (not wanted or place in wanted) and (broker is None or broker in each.replica_nodes)
    }


def unknown_producers(place: TopicPartition, broker: int, error: KafkaError | None) -> str:
    """Return the sentence about a partition whose producers are not known."""
    if broker == NO_LEADER:
        return f"{place} has no leader: nobody knows which producers it has"
    if error is None:
        return f"{place}: broker {broker} does not answer"
    if error.code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
        return f"{place}: broker {broker} holds no replica of it"
    return f"{place}: broker {broker} does not say which producers it has ({error.code.name})"


def _row(each: OpenTransaction, now_s: float) -> dict[str, Any]:
    idle_s = round(now_s - each.last_timestamp_ms / 1000, 1)
    return {
        **each.place._asdict(),
        "producer_id": each.producer_id,
        "producer_epoch": each.producer_epoch,
        "coordinator_epoch": each.coordinator_epoch if each.coordinator_epoch >= 0 else None,
        "transaction_start_offset": each.start_offset,
        "last_timestamp_ms": each.last_timestamp_ms,
        "idle_s": idle_s if idle_s >= 0 else None,  # a time in the future says nothing
    }
