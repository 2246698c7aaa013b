"""Writes records and the place of their writer in one transaction, and goes on after a lost one.

Law: a group of the target keeps how far its writer is, in the transactions that hold the records.
Whoever goes on, in this process or the next, asks it first; so whatever happened to a transaction,
its records are there once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from kbroker.client.cluster_links import ClusterLinks, TopicView
from kbroker.client.record_sender import RecordSender, SendOptions, TransactionLostError
from kbroker.client.transactional_producer import Position, TransactionalProducer
from kbroker.client.untransacted import UntransactedCopies
from kbroker.model import TopicPartition
from kbroker.record.compression import NONE

_ATTEMPTS = 5  # in which nothing was committed
_PAUSE_S = 0.5  # after one, as somebody else may be about to end

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True, kw_only=True)
class OnceOptions:
    """Who writes: the same in each run, and nobody else. Its place is what `group` has committed of
    `partition`. Nobody ends an open transaction for `timeout_ms`; brokers that are away are waited
    for.

    `refusals` are errors after which nothing that was written is wanted: the transaction is
    aborted, so that readers need not wait for its time to be over. `give_up` makes the error of a
    writer that lost several transactions, and committed nothing meanwhile. `stand_in` is for
    clusters without transactions.
    """

    transactional_id: str
    group: str
    partition: TopicPartition
    timeout_ms: int = 60_000
    patience_s: float = 60.0
    refusals: tuple[type[Exception], ...]
    give_up: Callable[[str], Exception]
    stand_in: UntransactedCopies | None = None


class Transactions:
    """One after the other, by one producer. Methods raise as those of TransactionalProducer."""

    def __init__(self, links: ClusterLinks, options: OnceOptions) -> None:
        self._links, self._options = links, options
        self.producer = options.stand_in or TransactionalProducer(
            links,
            options.transactional_id,
            timeout_ms=options.timeout_ms,
            patience_s=options.patience_s,
        )
        self.place = self.producer.committed(options.group, options.partition)

    @property
    def is_to_end(self) -> bool:
        """Whether another producer should write the rest: a late answer could end what comes."""
        return self.producer.lost_an_answer

    def sender(
        self,
        view: TopicView,
        compression: int = NONE,
        on_written: Callable[[int, int, int], None] = lambda _partition, _records, _offset: None,
    ) -> RecordSender:
        """Return the sender into a topic; each body ends with its own headers."""
        options = SendOptions(
            compression=compression,
            headers=None,
            patience_s=self._options.patience_s,
            producer=self.producer.producer,
            on_written=on_written,
        )
        return RecordSender(self._links, view, options)

    def commit(self, place: Position) -> None:
        """Make what was written visible, with this place."""
        self.producer.commit(self._options.group, {self._options.partition: place})
        self.place = place


def write_once(
    links: ClusterLinks,
    options: OnceOptions,
    write_rest: Callable[[Transactions], ResultT | None],
    reading: Sequence[ClusterLinks] = (),
    sleep: Callable[[float], None] = time.sleep,
) -> ResultT:
    """Have the rest written, from the place on, until `write_rest` returns something; None: the
    rest is another producer's. `reading`: links on which nothing may be under way for that.

    Raises what `write_rest` does, ClientError, KafkaError and OSError.
    """
    lost = 0
    last: Position | None = None
    while True:
        place = last
        try:
            transactions = Transactions(links, options)
            try:
                result = write_rest(transactions)
            except options.refusals:
                transactions.producer.abort()
                raise
            finally:
                place = transactions.place
            if result is not None:
                return result
        except TransactionLostError as error:
            lost = lost + 1 if place == last else 1
            if lost == _ATTEMPTS:
                reason = f"{error} ({_ATTEMPTS} times one after the other; does another"
                raise options.give_up(reason) from error
            sleep(_PAUSE_S)
        last = place
        for each in (links, *reading):
            for link in each.busy():
                each.lose(link)  # what it still answers is of a transaction that is over
