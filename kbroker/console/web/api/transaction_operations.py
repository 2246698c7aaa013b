"""Operations of the API on transactions and the producers of a topic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kbroker.client.transactions import DescribedTransaction
from kbroker.client.wall_clock import unix_now_ms
from kbroker.console.done import Done
from kbroker.console.hanging_transactions import (
    HangingTransactions,
    abort_hanging,
    hanging_transactions,
)
from kbroker.console.transactions import (
    Producers,
    TransactionPage,
    abort,
    producers,
    transaction,
    transactions,
)
from kbroker.console.web.api.operation import PAGE_PARAMETERS, Given, Operation, Parameter
from kbroker.console.web.api.topic_operations import wanted_of
from kbroker.console.web.console import Console
from kbroker.model import TopicPartition

_IDLE_MS = 900_000  # the default of transaction.max.timeout.ms


@dataclass(frozen=True, slots=True, kw_only=True)
class HangingToAbort:
    """A transaction that hangs in a partition, by its first offset there."""

    topic: str
    partition: int
    start_offset: int


async def _transactions(console: Console, given: Given) -> TransactionPage:
    only_open = given.query.flag("open")
    return await transactions(console.cluster, wanted_of(given), only_open=only_open)


async def _transaction(console: Console, given: Given) -> DescribedTransaction:
    return await transaction(console.cluster, given.places["id"])


async def _abort(console: Console, given: Given) -> Done:
    return Done(said=(await abort(console.cluster, given.places["id"]),), refused=())


async def _hanging(console: Console, given: Given) -> HangingTransactions:
    now_ms, topic = unix_now_ms(), given.query.text("topic")
    idle_ms = given.query.number("idle_ms", _IDLE_MS)
    topics = [topic] if topic else []
    return await hanging_transactions(console.cluster, topics, now_ms, idle_ms)


async def _abort_hanging(console: Console, given: Given) -> Done:
    body: HangingToAbort = given.body
    place = TopicPartition(body.topic, body.partition)
    sentence = await abort_hanging(console.cluster, place, body.start_offset)
    return Done(said=(sentence,), refused=())


async def _producers(console: Console, given: Given) -> Producers:
    return await producers(console.cluster, given.places["topic"])


OPERATIONS: Final = (
    Operation(
        name="listTransactions",
        path="/transactions",
        summary="Transactional ids with their states, a page at a time.",
        answer=TransactionPage,
        function=_transactions,
        parameters=(
            *PAGE_PARAMETERS,
            Parameter(name="open", summary="Only open ones.", type=bool, default=False),
        ),
    ),
    Operation(
        name="getTransaction",
        path="/transactions/{id}",
        summary="A transactional id, with the partitions of what it has open.",
        answer=DescribedTransaction,
        function=_transaction,
    ),
    Operation(
        name="abortTransaction",
        method="POST",
        path="/transactions/{id}/abort",
        summary="Have the coordinator abort what an id has open, and shut its producer out.",
        answer=Done,
        function=_abort,
    ),
    Operation(
        name="findHangingTransactions",
        path="/hanging-transactions",
        summary="Transactions that are open in partitions, and that no coordinator will end.",
        answer=HangingTransactions,
        function=_hanging,
        parameters=(
            Parameter(name="topic", summary="Only of this topic."),
            Parameter(
                name="idle_ms",
                summary="They hang if nothing was written for so long.",
                type=int,
                default=_IDLE_MS,
            ),
        ),
    ),
    Operation(
        name="abortHangingTransaction",
        method="POST",
        path="/hanging-transactions/abort",
        summary="Abort a hanging transaction in its partition.",
        answer=Done,
        function=_abort_hanging,
        body=HangingToAbort,
    ),
    Operation(
        name="listProducersOfTopic",
        path="/topics/{topic}/producers",
        summary="The producers that the partitions of a topic remember.",
        answer=Producers,
        function=_producers,
    ),
)
