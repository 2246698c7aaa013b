"""Hanging transactions: open in a partition, and no coordinator will ever end them (KIP-664).

Law: a transaction that is reported as hanging will be aborted, so none is reported by mistake. The
partitions are asked first, then all coordinators, then the partitions again: a transaction that is
still open there as it was, and that no coordinator knew in between, has no owner.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from kbroker.client.client_error import ClientError
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.transactions import (
    DescribedTransaction,
    Producer,
    all_transactions,
    describe_listed,
    producers_of,
)
from kbroker.errors import KafkaError
from kbroker.model import TopicPartition

_NOTHING_OPEN = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A transaction that is open in a partition; `last_timestamp_ms` is Unix time."""

    place: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int
    last_timestamp_ms: int


@dataclass(frozen=True, slots=True)
class OwnedTransaction:
    """A transaction that its coordinator will end, and the partitions in which it is open."""

    owner: DescribedTransaction
    places: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """Findings of a search. `owned`: those that coordinators will end, the oldest first. `unowned`:
    those that no coordinator knows, but that are too young to count as hanging. `refused`: the
    partitions that could not be searched, and why if a broker said so.

    `unknown_owners`: why coordinators could not be asked; only if nothing is old enough to hang.
    """

    hanging: list[OpenTransaction]
    owned: list[OwnedTransaction]
    unowned: list[OpenTransaction]
    refused: Mapping[TopicPartition, KafkaError | None]
    unknown_owners: ClientError | KafkaError | None = None


def find_hanging(
    links: ClusterLinks,
    leaders: Mapping[TopicPartition, int],
    now_ms: int,
    idle_ms: int,
) -> Search:
    """Search these partitions for open transactions that no coordinator will end. They hang if
    nothing was written for `idle_ms`; `now_ms` is Unix time.

    Raises ClientError if one may hang and not all coordinators can be asked, OSError, KafkaError.
    """
    found = producers_of(links, leaders)
    is_open = [
        each
        for place, producers in found.items()
        if isinstance(producers, list)
        for each in open_transactions(place, producers)
    ]

    def is_old(each: OpenTransaction) -> bool:
        # A producer may give a time in the future, which does not say when it wrote.
        return abs(now_ms - each.last_timestamp_ms) > idle_ms

    try:
        owners = _owners(links, {each.producer_id for each in is_open})
    except (ClientError, KafkaError) as error:
        if any(map(is_old, is_open)):
            raise
        refused = _refusals(leaders, found)
        return Search(hanging=[], owned=[], unowned=[], refused=refused, unknown_owners=error)
    unknown = [each for each in is_open if (each.producer_id, each.place) not in owners]
    again = producers_of(links, {each.place: leaders[each.place] for each in unknown})
    still_open = {
        _identity(each)
        for place, producers in again.items()
        if isinstance(producers, list)
        for each in open_transactions(place, producers)
    }
    unowned = sorted(
        (each for each in unknown if _identity(each) in still_open),
        key=lambda each: (each.place, each.start_offset),
    )
    return Search(
        hanging=[each for each in unowned if is_old(each)],
        owned=_owned(is_open, owners),
        unowned=[each for each in unowned if not is_old(each)],
        refused=_refusals(leaders, found) | _refusals({each.place for each in unknown}, again),
    )


def open_transactions(
    place: TopicPartition, producers: Iterable[Producer]
) -> list[OpenTransaction]:
    """Return the open transactions among the producers that a partition remembers."""
    return [
        OpenTransaction(
            place=place,
            producer_id=each.producer_id,
            producer_epoch=each.producer_epoch,
            coordinator_epoch=each.coordinator_epoch,
            start_offset=each.current_txn_start_offset,
            last_timestamp_ms=each.last_timestamp,
        )
        for each in producers
        if each.current_txn_start_offset != _NOTHING_OPEN
    ]


def owner_of(
    links: ClusterLinks, place: TopicPartition, producer_id: int
) -> DescribedTransaction | None:
    """Return the transaction whose coordinator will end what this producer has open here; None if
    it hangs. Raises what `find_hanging` raises.
    """
    return _owners(links, [producer_id]).get((producer_id, place))


def _owned(
    is_open: Iterable[OpenTransaction],
    owners: Mapping[tuple[int, TopicPartition], DescribedTransaction],
) -> list[OwnedTransaction]:
    places: defaultdict[DescribedTransaction, list[TopicPartition]] = defaultdict(list)
    for each in is_open:
        owner = owners.get((each.producer_id, each.place))
        if owner is not None:
            places[owner].append(each.place)
    return sorted(
        (OwnedTransaction(owner, tuple(sorted(there))) for owner, there in places.items()),
        key=lambda each: (each.owner.start_ms or 0, each.owner.transactional_id),
    )


def _refusals(
    places: Iterable[TopicPartition], answers: Mapping[TopicPartition, object]
) -> dict[TopicPartition, KafkaError | None]:
    return {
        place: result if isinstance(result, KafkaError) else None
        for place in places
        for result in [answers.get(place)]
        if not isinstance(result, list)
    }


def _identity(transaction: OpenTransaction) -> tuple[TopicPartition, int, int, int]:
    whose = transaction.producer_id, transaction.producer_epoch
    return transaction.place, *whose, transaction.start_offset


def _owners(
    links: ClusterLinks, producer_ids: Collection[int]
) -> dict[tuple[int, TopicPartition], DescribedTransaction]:
    """Return the transactions that still wait for their end, by producer id and partition."""
    if not producer_ids:
        return {}
    listed = all_transactions(links, producer_ids)
    return {
        (each.producer_id, place): each
        for each in describe_listed(links, listed)
        if each.is_open
        for place in each.partitions
    }
