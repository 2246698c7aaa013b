"""The parts of an answer to Produce: the outcome of appends, refusals of transactions, other
leaders.
"""

from __future__ import annotations

from collections.abc import Mapping

from kbroker.apis.context import RequestContext
from kbroker.apis.node_address import leader_addresses, leader_hint
from kbroker.apis.now_or_later import NowOrLater, then
from kbroker.apis.produce_work import ProduceWork
from kbroker.apis.transaction_verification import Joining, refused_partitions
from kbroker.coordinator.transaction.participation import Codes
from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.producers.log_append_info import AppendOrigin
from kbroker.log.producers.verification import TransactionalBatch
from kbroker.model import TopicPartition
from kbroker.protocol.messages.produce import ProduceRequest, ProduceResponse
from kbroker.protocol.request import Accepted, NoResponse
from kbroker.replication.partitions.produce_result import AppendOutcome, PartitionProduceResult

FIRST_VERSION_WITH_BATCHES = 3
FIRST_VERSION_WITH_LEADER_HINTS = 10
FIRST_VERSION_WITH_ABORTABLE = 11
FIRST_VERSION_THAT_ADDS = 12

Answer = ProduceResponse | NoResponse
Batches = Mapping[TopicPartition, TransactionalBatch]
NotLedHere = list[tuple[TopicPartition, ProduceResponse.PartitionProduceResponse]]

# A look into the class of an enum costs 70 ns.
_CLIENT, _OLD_CLIENT = AppendOrigin.CLIENT, AppendOrigin.OLD_CLIENT


def origin_of(version: int) -> AppendOrigin:
    """Return the origin of the records of a request."""
    return _CLIENT if version >= FIRST_VERSION_WITH_BATCHES else _OLD_CLIENT


def check_producer(batches: Batches) -> None:
    """Raise KafkaError INVALID_PRODUCER_ID_MAPPING if more than one producer writes."""
    if len({batch[:2] for batch in batches.values()}) > 1:
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            "Transactional records contained more than one producer ID",
        )


def refused_batches(
    ctx: RequestContext, transactional_id: str, batches: Batches
) -> NowOrLater[Codes]:
    """Return the partitions to which transactional batches of one producer are not appended."""
    how = Joining.of(ctx.api_version, FIRST_VERSION_WITH_ABORTABLE, FIRST_VERSION_THAT_ADDS)
    return refused_partitions(ctx, transactional_id, batches, how)


def name_leaders(ctx: RequestContext, not_led_here: NotLedHere) -> set[int]:
    """Put into some answers who leads instead; return these leaders."""
    leaders = set()
    for topic_partition, answer in not_led_here:
        leader_id, leader_epoch = leader_hint(ctx.services.metadata, topic_partition)
        answer.current_leader.leader_id = leader_id
        answer.current_leader.leader_epoch = leader_epoch
        leaders.add(leader_id)
    return leaders


def add_addresses(ctx: RequestContext, work: ProduceWork, leaders: set[int]) -> None:
    """Add the addresses of these leaders to the answer."""
    work.response.node_endpoints = [
        ProduceResponse.NodeEndpoint(
            node_id=broker.broker_id, host=host, port=port, rack=broker.rack
        )
        for broker, host, port in leader_addresses(ctx.connection, ctx.services.metadata, leaders)
    ]


def answered(
    outcome: AppendOutcome, ctx: RequestContext, request: ProduceRequest, work: ProduceWork
) -> NowOrLater[Answer]:
    """Return the answer to a request whose appends came to this, or are to come to."""
    results, settled, appended = outcome
    if settled is None:
        return _answer(results, ctx, request, work)
    if appended is not None:
        return then(settled, _answer, ctx, request, work)
    work.let_go_of(request)
    return Accepted(settled, lambda: _answer(settled.result(), ctx, request, work))


def _answer(
    results: list[PartitionProduceResult],
    ctx: RequestContext,
    request: ProduceRequest,
    work: ProduceWork,
) -> Answer:
    response = work.fill(results)
    if work.has_error:
        ctx.tell_refusals(request, response)
    if request.acks == 0:
        return NoResponse(close=work.has_error)
    if work.not_led_here and ctx.api_version >= FIRST_VERSION_WITH_LEADER_HINTS:
        add_addresses(ctx, work, name_leaders(ctx, work.not_led_here))
    return response
