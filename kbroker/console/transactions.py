"""Transactions: the ids that producers use, what is open and since when, and the producers that
partitions remember.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kbroker.client.aborted_ids import PATIENCE_S, abort_what_is_open, sentence_of_abort
from kbroker.client.client_error import ClientError
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.cluster_requests import TRANSACTIONAL_ID, check_all_listed
from kbroker.client.exit_code import ExitCode
from kbroker.client.topic_figures import leaders_of
from kbroker.client.transactions import (
    OPEN_STATES,
    DescribedTransaction,
    ListedTransaction,
    Producer,
    describe_listed,
    describe_transaction,
    listed_transactions,
    producers_of,
)
from kbroker.client.unknown_names import no_such
from kbroker.console.consoled_cluster import ConsoledCluster, Work
from kbroker.console.gaps import Gaps, reason_of
from kbroker.console.pages import Page, Wanted, page_of
from kbroker.console.topic_lookup import NotFoundError, topic_named
from kbroker.errors import KafkaError
from kbroker.model import TopicPartition
from kbroker.wording import shown

MOST_PRODUCERS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionRow:
    """A transactional id; `start_ms` is Unix time, None if nothing is open or it is not known."""

    transactional_id: str
    state: str
    coordinator: int
    producer_id: int
    start_ms: int | None
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionPage:
    """A page of transactional ids, sorted by name."""

    page: Page[TransactionRow]
    gaps: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerRow:
    """A producer that a partition remembers; what is None is not known, or, for
    `open_since_offset`, not there: no transaction is open.
    """

    place: TopicPartition
    producer_id: int
    producer_epoch: int
    last_sequence: int | None
    last_timestamp_ms: int | None
    open_since_offset: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Producers:
    """The producers that the partitions of a topic remember."""

    producers: tuple[ProducerRow, ...]
    gaps: tuple[str, ...]


async def transactions(
    cluster: ConsoledCluster, wanted: Wanted, *, only_open: bool = False
) -> TransactionPage:
    """List transactional ids; what is open is asked for those of the page only.

    Raises ClientError.
    """
    return await cluster.ask(lambda work: _transactions(work, wanted, only_open=only_open))


async def transaction(cluster: ConsoledCluster, name: str) -> DescribedTransaction:
    """Describe a transactional id. Raises NotFoundError if nobody uses it, ClientError."""
    return await cluster.ask(lambda work: _transaction(work.links, name))


async def abort(cluster: ConsoledCluster, name: str) -> str:
    """Abort what an id has open, wait until its partitions know, and return a sentence.

    Raises NotFoundError if nobody uses the id, ClientError if that takes too long, KafkaError.
    """
    return await cluster.ask(lambda work: _abort(work.links, name))


async def producers(cluster: ConsoledCluster, topic: str) -> Producers:
    """List the producers that the leaders of a topic remember, those with an open transaction
    first. Raises NotFoundError if there is no such topic, ClientError.
    """
    return await cluster.ask(lambda work: _producers(work, topic))


def _transactions(work: Work, wanted: Wanted, *, only_open: bool) -> TransactionPage:
    links, gaps = work.links, Gaps()
    listed: list[ListedTransaction] = []
    with gaps.around("transactional ids"):
        listed = listed_transactions(links, OPEN_STATES if only_open else ())
        check_all_listed(links, TRANSACTIONAL_ID)
    page = page_of(listed, wanted, lambda each: each.transactional_id)
    described: dict[str, DescribedTransaction] = {}
    is_open = [each for each in page.rows if each.state in OPEN_STATES]
    with gaps.around("partitions of open transactions"):
        described = {each.transactional_id: each for each in describe_listed(links, is_open)}
    gaps.tell_silent(links.silent)
    rows = tuple(_row(each, described.get(each.transactional_id)) for each in page.rows)
    return TransactionPage(
        page=Page(rows=rows, total=page.total, number=page.number, pages=page.pages),
        gaps=gaps.sentences(),
    )


def _row(listed: ListedTransaction, described: DescribedTransaction | None) -> TransactionRow:
    return TransactionRow(
        transactional_id=listed.transactional_id,
        state=listed.state if described is None else described.state,
        coordinator=listed.coordinator,
        producer_id=listed.producer_id,
        start_ms=None if described is None else described.start_ms,
        partitions=() if described is None else described.partitions,
    )


def _transaction(links: ClusterLinks, name: str) -> DescribedTransaction:
    found = describe_transaction(links, name) if name else None  # none is empty
    if found is None:
        known = [each.transactional_id for each in listed_transactions(links)]
        raise NotFoundError(no_such("transactional id", name, known, "txn"))
    return found


def _abort(links: ClusterLinks, name: str) -> str:
    _transaction(links, name)
    done = abort_what_is_open(links, name)
    if done is None:
        raise NotFoundError(no_such("transactional id", name, (), "txn"))
    if not done.is_ended:
        raise ClientError(
            f"{shown(name)}: its partitions did not all get their markers in {PATIENCE_S:.0f} s; "
            f"broker {done.after.coordinator} goes on",
            ExitCode.TIMEOUT,
        )
    return sentence_of_abort(done)


def _producers(work: Work, name: str) -> Producers:
    links, gaps = work.links, Gaps()
    leaders = leaders_of([topic_named(links, name)])
    rows: list[ProducerRow] = []
    with gaps.around("producers"):
        for place, answer in sorted(producers_of(links, leaders).items()):
            if isinstance(answer, KafkaError):
                gaps.tell(f"producers of {place} are not known: {reason_of(answer)}")
            else:
                rows += _producer_rows(place, answer)
    rows.sort(key=lambda row: (row.open_since_offset is None, row.place, row.producer_id))
    if len(rows) > MOST_PRODUCERS:
        gaps.tell(f"{len(rows) - MOST_PRODUCERS:,} producers are not shown")
    gaps.tell_silent(links.silent)
    return Producers(producers=tuple(rows[:MOST_PRODUCERS]), gaps=gaps.sentences())


def _producer_rows(place: TopicPartition, answer: Iterable[Producer]) -> list[ProducerRow]:
    return [
        ProducerRow(
            place=place,
            producer_id=each.producer_id,
            producer_epoch=each.producer_epoch,
            last_sequence=_known(each.last_sequence),
            last_timestamp_ms=_known(each.last_timestamp),
            open_since_offset=_known(each.current_txn_start_offset),
        )
        for each in answer
    ]


def _known(number: int) -> int | None:
    return number if number >= 0 else None
