"""Sends requests to the handlers of transactions as they arrive: encoded in a version, answered in
it.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from kbroker.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from kbroker.protocol.schema import Message
from tests.fakes.brokers.group_broker import GroupBroker
from tests.fakes.brokers.group_caller import GroupCaller
from tests.fakes.brokers.transaction_broker import TIMEOUT_MS, TransactionBroker
from tests.fakes.clusters.peers import no_peers
from tests.fakes.requests.denying_authorizer import ask, services_without

Topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic


class TransactionCaller:
    def __init__(self, broker: TransactionBroker | None = None, *, is_peer: bool = False) -> None:
        """`is_peer`: what it sends comes in where brokers talk to each other."""
        self.broker = broker or TransactionBroker()
        peers = no_peers()
        if is_peer:
            peers = SimpleNamespace(are_heard_on=lambda _listener: True, are_there=True)
        groups = GroupCaller(GroupBroker()).services
        self.services = replace(
            groups,
            transactional=groups.transactional._replace(coordinator=self.broker.coordinator),
            metadata=self.broker.metadata,
            producer_ids=self.broker.ids,
            peers=peers,
        )

    def deny(self, *denied: Any) -> None:
        self.services = services_without(self.services, *denied)

    async def __call__(self, request: Message, version: int) -> Any:
        """The answer as a client of that version reads it."""
        return await ask(self.services, request, version)

    async def init(self, version: int = 5, name: str = "x", **fields: Any) -> Any:
        request = InitProducerIdRequest(
            transactional_id=name, transaction_timeout_ms=TIMEOUT_MS, **fields
        )
        return await self(request, version)

    async def add(
        self,
        partitions: dict[str, list[int]],
        *,
        version: int = 3,
        name: str = "x",
        producer: tuple[int, int] = (1000, 0),
    ) -> dict[tuple[str, int], int]:
        """The codes of AddPartitionsToTxn as a client sends it."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=producer[0],
            v3_and_below_producer_epoch=producer[1],
            v3_and_below_topics=topics_of(partitions),
        )
        return codes_of((await self(request, version)).results_by_topic_v3_and_below)


def topics_of(partitions: dict[str, list[int]]) -> list[Topic]:
    return [Topic(name=name, partitions=indexes) for name, indexes in partitions.items()]


def codes_of(topic_results: Any) -> dict[tuple[str, int], int]:
    return {
        (topic.name, each.partition_index): each.partition_error_code
        for topic in topic_results
        for each in topic.results_by_partition
    }
