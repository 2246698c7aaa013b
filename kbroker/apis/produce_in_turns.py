"""A Produce to very many partitions: each step of it is done for some of them at a time, with other
requests in between.

Law: as in `produce`, nothing is appended before all of it was looked at. What waits for followers
or the disk when all is appended holds nothing that others wait for.
"""

from __future__ import annotations

import asyncio

from kbroker.apis.context import LargeContext
from kbroker.apis.produce_answers import (
    FIRST_VERSION_WITH_LEADER_HINTS,
    add_addresses,
    check_producer,
    name_leaders,
    origin_of,
    refused_batches,
)
from kbroker.apis.produce_work import ProduceWork, transactional_batches
from kbroker.log.producers.verification import TransactionalBatch
from kbroker.model import TopicPartition
from kbroker.protocol.messages.produce import ProduceRequest, ProduceResponse
from kbroker.protocol.request import Accepted, NoResponse
from kbroker.replication.partitions.produce_result import AppendOutcome
from kbroker.slices import slices, slices_of_topics
from kbroker.turns import ENTRIES, turn

VERIFIED_AT_ONCE = 4 * ENTRIES  # each time may be a write to the transaction's log

Answer = ProduceResponse | NoResponse


async def produce_in_turns(ctx: LargeContext, request: ProduceRequest) -> Answer | Accepted[Answer]:
    """Append; Accepted if all is appended and the answer waits for followers or the disk."""
    work = ProduceWork(request, ctx.api_version, ctx.services.metadata.topic_name)
    await _sort(request, work)
    if request.transactional_id is not None:
        await _verify(ctx, request.transactional_id, work)
    outcomes = await _append(ctx, request, work)
    answer = _answer(ctx, request, work, outcomes)
    if all(outcome.settled is None for outcome in outcomes):
        return await answer
    work.let_go_of(request)
    answering = asyncio.get_running_loop().create_task(answer, name="produce")
    return Accepted(answering, answering.result)


async def _sort(request: ProduceRequest, work: ProduceWork) -> None:
    for topics in slices_of_topics(request.topic_data, "partition_data", ENTRIES):
        if not work.sort(topics):
            break
        await turn()
    else:
        return
    for topics in slices_of_topics(request.topic_data, "partition_data", ENTRIES):
        work.refuse_all(topics)
        await turn()


async def _verify(ctx: LargeContext, transactional_id: str, work: ProduceWork) -> None:
    batches: dict[TopicPartition, TransactionalBatch] = {}
    for entries in slices(list(work.entries), ENTRIES):
        batches |= transactional_batches(entries)
        await turn()
    check_producer(batches)
    for some in slices(list(batches.items()), VERIFIED_AT_ONCE):
        refused = refused_batches(ctx, transactional_id, dict(some))
        codes = refused if isinstance(refused, dict) else await refused
        await turn()
        work.refuse_entries(codes, ctx.api_version)
        await turn()


async def _append(
    ctx: LargeContext, request: ProduceRequest, work: ProduceWork
) -> list[AppendOutcome]:
    appends, origin = ctx.services.replicas.appends, origin_of(ctx.api_version)
    outcomes: list[AppendOutcome] = []
    try:
        for entries in slices(list(work.entries), ENTRIES):
            outcomes.append(
                appends.append_records(entries, request.acks, request.timeout_ms, origin)
            )
            await turn()
        if appending := [each.appended for each in outcomes if each.appended is not None]:
            await asyncio.wait(appending)
    except BaseException:
        _give_up(outcomes)
        raise
    return outcomes


def _give_up(outcomes: list[AppendOutcome]) -> None:
    for outcome in outcomes:
        if outcome.settled is not None:
            outcome.settled.cancel()


async def _answer(
    ctx: LargeContext, request: ProduceRequest, work: ProduceWork, outcomes: list[AppendOutcome]
) -> Answer:
    filled = 0
    try:
        for results, settled, _ in outcomes:
            if settled is not None:
                await settled
            work.fill(results, filled)
            filled += len(results)
            await turn()
    except BaseException:
        _give_up(outcomes)
        raise
    response = work.response
    if work.has_error:
        ctx.tell_refusals(request, response)
    if request.acks == 0:
        return NoResponse(close=work.has_error)
    if work.not_led_here and ctx.api_version >= FIRST_VERSION_WITH_LEADER_HINTS:
        leaders: set[int] = set()
        for some in slices(work.not_led_here, ENTRIES):
            leaders |= name_leaders(ctx, some)
            await turn()
        add_addresses(ctx, work, leaders)
    response.is_large = True
    return response
