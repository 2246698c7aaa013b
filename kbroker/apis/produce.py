"""Produce (key 0): append record batches.

v0, v1: message format 0. v2: format 1, log append time. Both are put into the topic's format, and
any format is taken. v3: format 2, one batch per partition. v5: log start offset. v7: zstd. v8:
errors per record. v10: who leads instead (KIP-951). v11: TRANSACTION_ABORTABLE. v12: adds the
partitions of a transaction. v13: topics by id.
acks=0 has no answer; an error closes the connection, which is all the producer can notice.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kbroker.acl.acl import AclOperation, AclResource
from kbroker.apis.authorization import ForEach, ForRequest, its_transactional_id, topic_or_id
from kbroker.apis.context import LargeContext, RequestContext
from kbroker.apis.now_or_later import NowOrLater
from kbroker.apis.produce_answers import (
    Answer,
    answered,
    check_producer,
    origin_of,
    refused_batches,
)
from kbroker.apis.produce_in_turns import produce_in_turns
from kbroker.apis.produce_shortcut import ProduceShortcut
from kbroker.apis.produce_validation import is_transactional
from kbroker.apis.produce_work import ProduceWork, transactional_batches
from kbroker.apis.registry import api
from kbroker.apis.request_parts import AS_A_WHOLE
from kbroker.coordinator.transaction.participation import Codes
from kbroker.log.append import message_set_append  # noqa: F401  with its handler: see the registry
from kbroker.protocol.messages.produce import ProduceRequest, ProduceResponse
from kbroker.protocol.request import Accepted, NoResponse


def written_transactional_id(ctx: RequestContext, request: ProduceRequest) -> AclResource | None:
    """Return the transactional id, if records of its transaction are written."""
    if request.transactional_id is None:
        return None
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
        operation=AclOperation.WRITE,
        resource=topic_or_id,
        asked="topic_data",
        answered="responses",
        partitions=("partition_data", "partition_responses"),
    ),
    parts=AS_A_WHOLE,
    repeats=ProduceShortcut.of,
)
def handle(
    ctx: RequestContext, request: ProduceRequest
) -> Answer | Awaitable[Answer | Accepted[Answer]]:
    """Append; answered at once unless followers have to store the records first."""
    if isinstance(ctx, LargeContext):
        return produce_in_turns(ctx, request)
    work = ProduceWork(request, ctx.api_version, ctx.services.metadata.topic_name)
    if not work.sort(request.topic_data):
        work.refuse_all(request.topic_data)
    transactional_id = request.transactional_id
    if transactional_id is not None and (batches := transactional_batches(work.entries)):
        check_producer(batches)
        refused = refused_batches(ctx, transactional_id, batches)
        if not isinstance(refused, dict):
            return _append_later(refused, ctx, request, work)
        work.refuse_entries(refused, ctx.api_version)
    return _append(ctx, request, work)


async def _append_later(
    refused: Awaitable[Codes], ctx: RequestContext, request: ProduceRequest, work: ProduceWork
) -> Answer:
    work.refuse_entries(await refused, ctx.api_version)
    answer = _append(ctx, request, work)
    return answer if isinstance(answer, ProduceResponse | NoResponse) else await answer


def _append(ctx: RequestContext, request: ProduceRequest, work: ProduceWork) -> NowOrLater[Answer]:
    outcome = ctx.services.replicas.appends.append_records(
        work.entries, request.acks, request.timeout_ms, origin_of(ctx.api_version)
    )
    return answered(outcome, ctx, request, work)
