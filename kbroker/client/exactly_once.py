"""Writes records and the place of their writer in one transaction, and goes on after a lost one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.record_sender import TransactionLostError
from kbroker.client.transactional_producer import (
    Position,
    TransactionalProducer,
    WriterIdentity,
)

_ATTEMPTS = 5  # in which nothing was committed
_PAUSE_S = 0.5  # after one, as somebody else may be about to end

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True, kw_only=True)
class OnceOptions(WriterIdentity):
    """The writer, and what ends its work.

    `refusals` are errors after which nothing that was written is wanted: the transaction is
    aborted, so that readers need not wait until it times out. `give_up` makes the error of a
    writer that lost several transactions and committed nothing meanwhile. `kind` may be a stand-in
    for clusters without transactions.
    """

    refusals: tuple[type[Exception], ...]
    give_up: Callable[[str], Exception]
    kind: type[TransactionalProducer] = TransactionalProducer


def write_once(
    links: ClusterLinks,
    options: OnceOptions,
    write_rest: Callable[[TransactionalProducer], ResultT | None],
    reading: Sequence[ClusterLinks] = (),
) -> ResultT:
    """Call `write_rest` to write from the producer's place on, until it returns a result; None:
    another producer shall write the rest. `reading`: other links whose requests end with a
    transaction.

    Raises what `write_rest` does, ClientError, KafkaError and OSError.
    """
    lost = 0
    last: Position | None = None
    while True:
        place = last
        try:
            producer = options.kind(links, options)
            try:
                result = write_rest(producer)
            except options.refusals:
                producer.abort()
                raise
            finally:
                place = producer.place
            if result is not None:
                return result
        except TransactionLostError as error:
            lost = lost + 1 if place == last else 1
            if lost == _ATTEMPTS:
                reason = f"{error} ({_ATTEMPTS} times one after the other; does another"
                raise options.give_up(reason) from error
            links.sleep(_PAUSE_S)
        last = place
        for each in (links, *reading):
            for link in each.busy():
                each.lose(link)  # what it still answers is of a transaction that is over
