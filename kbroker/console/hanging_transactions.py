"""Transactions that no coordinator will end: found in the partitions of a topic or of all, and
aborted in one partition.

Law: what a coordinator may still end is not aborted here, or half of it would be committed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kbroker.client.client_error import ClientError
from kbroker.client.hanging_aborts import marker_of, refusal_of_abort
from kbroker.client.hanging_transactions import (
    OpenTransaction,
    find_hanging,
    open_transactions,
    owner_of,
)
from kbroker.client.topic_figures import leaders_of
from kbroker.client.transactions import abort_transaction, producers_of
from kbroker.console.consoled_cluster import ConsoledCluster, Work
from kbroker.console.gaps import Gaps, reason_of
from kbroker.console.topic_lookup import topic_named
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import TopicPartition
from kbroker.wording import counted, shown

_SEARCH_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HangingTransactions:
    """The transactions that are open in partitions and that no coordinator knows: those that hang,
    and those that were written to too lately for that. `owned` counts those that coordinators will
    end.
    """

    hanging: tuple[OpenTransaction, ...]
    young: tuple[OpenTransaction, ...]
    owned: int
    partitions: int  # that were searched
    gaps: tuple[str, ...]


async def hanging_transactions(
    cluster: ConsoledCluster, topics: Sequence[str], now_ms: int, idle_ms: int
) -> HangingTransactions:
    """Search topics, or all of them if none is named. A transaction hangs if nothing was written
    for `idle_ms`; `now_ms` is Unix time.

    Raises NotFoundError for a topic that is not there, ClientError, KafkaError.
    """
    return await cluster.ask(lambda work: _hanging(work, topics, now_ms, idle_ms), _SEARCH_S)


async def abort_hanging(cluster: ConsoledCluster, place: TopicPartition, start_offset: int) -> str:
    """Abort the transaction that begins at an offset of a partition, and return a sentence.

    Raises ClientError, with a sentence, if it does not hang or is not there, and KafkaError.
    """
    return await cluster.ask(lambda work: _abort(work, place, start_offset))


def _hanging(work: Work, topics: Sequence[str], now_ms: int, idle_ms: int) -> HangingTransactions:
    links, gaps = work.links, Gaps()
    described = [topic_named(links, name) for name in topics]
    leaders = leaders_of(described if topics else links.describe(None).topics)
    found = find_hanging(links, leaders, now_ms, idle_ms)
    if found.unknown_owners is not None:
        gaps.tell(f"who will end open transactions is not known: {found.unknown_owners}")
    for place, error in sorted(found.refused.items()):
        why = "its leader does not answer" if error is None else reason_of(error)
        gaps.tell(f"producers of {place} are not known: {why}")
    gaps.tell_silent(links.silent)
    return HangingTransactions(
        hanging=tuple(found.hanging),
        young=tuple(found.unowned),
        owned=len(found.owned),
        partitions=len(leaders) - len(found.refused),
        gaps=gaps.sentences(),
    )


def _abort(work: Work, place: TopicPartition, start_offset: int) -> str:
    links = work.links
    leaders = leaders_of([topic_named(links, place.topic)])
    if place not in leaders:
        raise ClientError(f"{place} is not there, or has no leader")
    answer = producers_of(links, {place: leaders[place]}).get(place)
    if answer is None:
        raise ClientError(f"the leader of {place} does not answer")
    if isinstance(answer, KafkaError):
        raise answer
    there = open_transactions(place, answer)
    found = next((each for each in there if each.start_offset == start_offset), None)
    if found is None:
        others = f"{counted(len(there), 'other transaction')} open there" if there else "none"
        raise ClientError(f"no open transaction begins at {start_offset} of {place}: {others}")
    owner = owner_of(links, place, found.producer_id)
    if owner is not None:
        raise ClientError(
            f"nothing was aborted: the transaction in {place} does not hang, it is that of "
            f"transactional id {shown(owner.transactional_id)}, which is {owner.state}"
        )
    marker = marker_of(found)
    code = abort_transaction(links, leaders[place], marker)
    if code != ErrorCode.NONE:
        raise ClientError(refusal_of_abort(marker, code))
    return f"{place}: transaction of producer {found.producer_id} aborted"
