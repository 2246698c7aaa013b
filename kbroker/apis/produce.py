"""Produce (key 0): append record batches.

v0, v1: message format 0. v2: format 1, log append time. Both are put into the topic's format, and
any format is taken. v3: format 2, one batch per partition. v5: log start offset. v7: zstd. v8:
errors per record. v10: who leads instead (KIP-951). v11: TRANSACTION_ABORTABLE. v12: adds the
partitions of a transaction. v13: topics by id.
acks=0 has no answer; an error closes the connection, which is all the producer can notice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping

from kbroker.apis.authorization import ForEach, ForRequest, its_transactional_id, topic_or_id
from kbroker.apis.authorizer import AclOperation, Resource
from kbroker.apis.context import RequestContext
from kbroker.apis.node_address import leader_addresses, leader_hint
from kbroker.apis.now_or_later import NowOrLater, then
from kbroker.apis.registry import api
from kbroker.apis.request_parts import AS_A_WHOLE
from kbroker.apis.transaction_verification import Joining, refused_partitions
from kbroker.coordinator.add_partitions_to_txn_manager import Codes
from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.append import message_set_append  # noqa: F401  with its handler: see the registry
from kbroker.log.append.log_append_info import AppendOrigin
from kbroker.log.producers.verification import TransactionalBatch
from kbroker.model import TopicPartition
from kbroker.protocol.messages.produce import ProduceRequest, ProduceResponse
from kbroker.protocol.request import Accepted, NoResponse
from kbroker.replication.produce_request import ProduceWork
from kbroker.replication.produce_result import PartitionProduceResult
from kbroker.replication.produce_validation import is_transactional

FIRST_VERSION_WITH_BATCHES = 3
FIRST_VERSION_WITH_LEADER_HINTS = 10
FIRST_VERSION_WITH_ABORTABLE = 11
FIRST_VERSION_THAT_ADDS = 12

# A look into the class of an enum costs 70 ns.
_CLIENT, _OLD_CLIENT = AppendOrigin.CLIENT, AppendOrigin.OLD_CLIENT

Answer = ProduceResponse | NoResponse


def written_transactional_id(ctx: RequestContext, request: ProduceRequest) -> Resource | None:
    """The transactional id, where records of its transaction are written."""
    is_written = any(
        is_transactional(data.records)
        for topic in request.topic_data
        for data in topic.partition_data
    )
    return its_transactional_id(ctx, request) if is_written else None


@api(
    ProduceRequest,
    ForRequest(AclOperation.WRITE, written_transactional_id),
    ForEach(
        operation=AclOperation.WRITE, resource=topic_or_id, asked="topic_data", answered="responses"
    ),
    parts=AS_A_WHOLE,
)
def handle(ctx: RequestContext, request: ProduceRequest) -> NowOrLater[Answer]:
    """Append; answered at once unless followers have to store the records first."""
    work = ProduceWork(request, ctx.api_version, ctx.services.metadata.topic_name)
    if request.transactional_id is not None and (batches := work.transactional_batches()):
        refused = _refused(ctx, request.transactional_id, batches)
        if not isinstance(refused, dict):
            return _append_later(refused, ctx, request, work)
        work.refuse_entries(refused, ctx.api_version)
    return _append(ctx, request, work)


def _refused(
    ctx: RequestContext,
    transactional_id: str,
    batches: Mapping[TopicPartition, TransactionalBatch],
) -> NowOrLater[Codes]:
    """Say where transactional batches are not to be appended.

    KafkaError INVALID_PRODUCER_ID_MAPPING where more than one producer writes.
    """
    if len({batch[:2] for batch in batches.values()}) > 1:
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            "Transactional records contained more than one producer ID",
        )
    how = Joining.of(ctx.api_version, FIRST_VERSION_WITH_ABORTABLE, FIRST_VERSION_THAT_ADDS)
    return refused_partitions(ctx, transactional_id, batches, how)


async def _append_later(
    refused: Awaitable[Codes], ctx: RequestContext, request: ProduceRequest, work: ProduceWork
) -> Answer:
    work.refuse_entries(await refused, ctx.api_version)
    answer = _append(ctx, request, work)
    return answer if isinstance(answer, ProduceResponse | NoResponse) else await answer


def _append(ctx: RequestContext, request: ProduceRequest, work: ProduceWork) -> NowOrLater[Answer]:
    is_new = ctx.api_version >= FIRST_VERSION_WITH_BATCHES
    results = ctx.services.replicas.appends.append_records(
        work.entries,
        request.acks,
        request.timeout_ms,
        _CLIENT if is_new else _OLD_CLIENT,
    )
    if isinstance(results, list):
        return _answer(results, ctx, request, work)
    if isinstance(results, asyncio.Future):  # all is appended
        work.let_go_of(request)
        results = Accepted(results, results.result)
    return then(results, _answer, ctx, request, work)


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
        _add_leader_hints(ctx, work)
    return response


def _add_leader_hints(ctx: RequestContext, work: ProduceWork) -> None:
    leaders = set()
    for topic_partition, answer in work.not_led_here:
        leader_id, leader_epoch = leader_hint(ctx.services.metadata, topic_partition)
        answer.current_leader.leader_id = leader_id
        answer.current_leader.leader_epoch = leader_epoch
        leaders.add(leader_id)
    work.response.node_endpoints = [
        ProduceResponse.NodeEndpoint(
            node_id=broker.broker_id, host=host, port=port, rack=broker.rack
        )
        for broker, host, port in leader_addresses(ctx.connection, ctx.services.metadata, leaders)
    ]
