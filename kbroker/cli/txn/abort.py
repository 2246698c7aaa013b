"""`kbroker txn abort`: ends a transaction in one partition, past its coordinator; or has the
coordinator end what a transactional id has open.

Law: a transaction that its coordinator may still commit must not be aborted in one of its
partitions, or half of it would be committed. So all coordinators are asked first, unless --force
says that a person knows better.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass

import click

from kbroker.cli.arguments.completion import topic_names, transactional_ids
from kbroker.cli.arguments.connection import CommandError, bootstrap_option, cluster_links
from kbroker.cli.arguments.refusals import refuse
from kbroker.cli.arguments.topic_choice import check_partitions, existing_topic
from kbroker.cli.shown.output import named, say
from kbroker.cli.txn.abort_id import abort_id
from kbroker.cli.txn.owners import ending
from kbroker.client.client_error import ClientError
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.hanging_aborts import marker_of, refusal_of_abort
from kbroker.client.hanging_transactions import OpenTransaction, open_transactions, owner_of
from kbroker.client.transactions import (
    AbortMarker,
    DescribedTransaction,
    abort_transaction,
    producers_of,
)
from kbroker.client.wall_clock import unix_now_ms
from kbroker.errors import ErrorCode, KafkaError, Trouble
from kbroker.model import NO_LEADER, TopicPartition
from kbroker.wording import shown


@dataclass(frozen=True, slots=True)
class Given:
    """A producer as a person named it."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int


@click.command(short_help="End what an id has open, or what hangs in a partition.")
@click.argument("topic", required=False, shell_complete=topic_names)
@click.option(
    "--transactional-id", metavar="ID", shell_complete=transactional_ids,
    help="Have its coordinator abort what this id has open, and shut its producer out.",
)  # fmt: skip
@click.option("--partition", "number", type=int, help="The partition of TOPIC.")
@click.option(
    "--start-offset", type=int,
    help="Where the transaction begins, as find-hanging and producers print it.",
)  # fmt: skip
@click.option("--producer-id", type=int, help="For brokers before Kafka 2.8: its producer.")
@click.option("--producer-epoch", type=int, help="The same: the producer's epoch.")
@click.option("--coordinator-epoch", type=int, help="The same: its coordinator's epoch.")
@click.option(
    "--force", is_flag=True,
    help="Do not ask whether a coordinator will end it: half of a transaction may be committed.",
)  # fmt: skip
@bootstrap_option
def abort(
    bootstrap: str,
    topic: str | None,
    transactional_id: str | None,
    number: int | None,
    start_offset: int | None,
    producer_id: int | None,
    producer_epoch: int | None,
    coordinator_epoch: int | None,
    force: bool,
) -> None:
    """Abort what a producer that is gone has left open under its transactional id, or a hanging
    transaction in one partition of TOPIC, so that readers go on.

    With --transactional-id the coordinator aborts the transaction in all its partitions, at once
    and not after its time-out, and the command waits until they have their markers. In a partition,
    a transaction that its coordinator will end is refused.
    """
    ids = (producer_id, producer_epoch, coordinator_epoch)
    if transactional_id is not None:
        if force or (topic, number, start_offset, *ids) != (None,) * 6:
            raise click.UsageError("--transactional-id stands alone: it names all partitions")
        abort_id(bootstrap, transactional_id)
        return
    if topic is None:
        raise click.UsageError("give --transactional-id, or a TOPIC and --partition")
    if number is None:
        raise click.UsageError("TOPIC needs --partition")
    _abort_in(bootstrap, TopicPartition(topic, number), _given(start_offset, *ids), force)


def _abort_in(bootstrap: str, place: TopicPartition, given: int | Given, force: bool) -> None:
    with cluster_links(bootstrap) as links:
        view = existing_topic(links, place.topic)
        check_partitions(view, [place.partition])
        leader = view.leaders[place.partition]
        if leader == NO_LEADER:
            refuse([f"{place} has no leader: its broker is away"], Trouble.NO_LEADER)
        marker = _marker(links, place, leader, given)
        if not force:
            _check_is_hanging(links, marker)
        code = abort_transaction(links, leader, marker)
    if code != ErrorCode.NONE:
        raise CommandError(refusal_of_abort(marker, code))
    say(f"{place}: transaction of producer {marker.producer_id} aborted")


def _given(
    start_offset: int | None,
    producer_id: int | None,
    producer_epoch: int | None,
    coordinator_epoch: int | None,
) -> int | Given:
    """Return what identifies the transaction: its first offset, or its producer."""
    ids = (producer_id, producer_epoch, coordinator_epoch)
    if start_offset is not None and ids == (None, None, None):
        return start_offset
    if (
        start_offset is None
        and producer_id is not None
        and producer_epoch is not None
        and coordinator_epoch is not None
    ):
        return Given(producer_id, producer_epoch, coordinator_epoch)
    raise click.UsageError(
        "give --start-offset, or all of --producer-id, --producer-epoch and --coordinator-epoch"
    )


def _marker(
    links: ClusterLinks, place: TopicPartition, leader: int, given: int | Given
) -> AbortMarker:
    """Return the marker that ends the transaction. CommandError if none is open."""
    try:
        there = _open(links, place, leader)
    except KafkaError as error:
        is_old = error.code == ErrorCode.UNSUPPORTED_VERSION
        if not is_old or not isinstance(given, Given):
            raise
        return _named_by(place, given)
    if isinstance(given, Given):
        if all(each.producer_id != given.producer_id for each in there):
            what = f"producer {given.producer_id} has no open transaction in {place}"
            raise CommandError(f"{what}{_others(there)}")
        return _named_by(place, given)
    found = next((each for each in there if each.start_offset == given), None)
    if found is None:
        raise CommandError(
            f"no open transaction begins at offset {given} of {place}{_others(there)}"
        )
    return marker_of(found)


def _open(links: ClusterLinks, place: TopicPartition, leader: int) -> list[OpenTransaction]:
    found = producers_of(links, {place: leader}).get(place)
    if found is None:
        raise CommandError(f"{place}: broker {leader} does not answer: {links.silent[leader]}")
    if isinstance(found, KafkaError):
        raise found
    return open_transactions(place, found)


def _named_by(place: TopicPartition, given: Given) -> AbortMarker:
    return AbortMarker(
        place=place,
        producer_id=given.producer_id,
        producer_epoch=given.producer_epoch,
        coordinator_epoch=given.coordinator_epoch,
    )


def _others(there: list[OpenTransaction]) -> str:
    if not there:
        return ": none is open there"
    begin = [
        f"{each.start_offset} (producer {each.producer_id})"
        for each in sorted(there, key=lambda each: each.start_offset)
    ]
    return f": those open there begin at {named(begin)}"


def _check_is_hanging(links: ClusterLinks, marker: AbortMarker) -> None:
    """Raise CommandError if a coordinator will end it, or may."""
    try:
        owner = owner_of(links, marker.place, marker.producer_id)
    except ClientError as error:
        sentence = f"{error.sentence}, so whether the transaction hangs is not known (--force)"
        raise CommandError(f"nothing was aborted: {sentence}", trouble=error.trouble) from error
    except KafkaError as error:
        if error.code == ErrorCode.UNSUPPORTED_VERSION:
            return  # coordinators before Kafka 3.0 cannot be asked
        raise
    if owner is not None:
        raise CommandError(_not_hanging(marker, owner))


def _not_hanging(marker: AbortMarker, owner: DescribedTransaction) -> str:
    name = f"transactional id {shown(owner.transactional_id)} is {owner.state}"
    ends = ending(owner, unix_now_ms())
    if owner.times_out_ms is not None:
        quoted = shlex.quote(owner.transactional_id)
        ends = f"{ends}, or now with `kbroker txn abort --transactional-id {quoted}`"
    return (
        f"nothing was aborted: the transaction in {marker.place} does not hang, {name}, and {ends} "
        "(--force aborts it in this partition alone)"
    )
