"""Fetches of thousands of partitions: each step is done for some of them in a turn of the loop."""

from __future__ import annotations

import asyncio

import pytest

from kbroker.apis import fetch_in_turns
from kbroker.apis.fetch import handle
from kbroker.apis.fetch_in_turns import FEW, SLICE
from kbroker.errors import ErrorCode
from kbroker.protocol.messages.fetch import FetchRequest
from kbroker.replication.reads.fetch_context import FetchContext
from kbroker.replication.reads.fetch_reader import FetchReader
from tests.fakes.clusters.replication_cluster import batch, topic_id_of

BATCH_SIZE = len(batch(b"v"))
MANY = 3 * FEW
STEPS = 3  # to name, to read, to answer


def request(partitions, *, topics=1, session_id=0, epoch=0, forget=(), **values) -> FetchRequest:
    names = [f"t{number}" if number else "t" for number in range(topics)]
    return FetchRequest(
        session_id=session_id,
        session_epoch=epoch,
        max_bytes=1 << 20,
        min_bytes=1,
        topics=[
            FetchRequest.FetchTopic(
                topic=name,
                topic_id=topic_id_of(name),
                partitions=[
                    FetchRequest.FetchPartition(partition=p, partition_max_bytes=1 << 20)
                    for p in partitions
                ],
            )
            for name in names
            if partitions
        ],
        forgotten_topics_data=[
            FetchRequest.ForgottenTopic(
                topic="t", topic_id=topic_id_of("t"), partitions=list(forget)
            )
        ],
        **values,
    )


def indexes(response) -> list[int]:
    return [data.partition_index for topic in response.responses for data in topic.partitions]


@pytest.fixture
def work(monkeypatch) -> list[int]:
    """How many partitions each step of the broker's was done for."""
    sizes: list[int] = []
    for owner, name, place in (
        (FetchContext, "add_topics", 1),
        (FetchContext, "forget", 1),
        (FetchContext, "find_names", 1),
        (FetchContext, "add", 1),
        (FetchReader, "read", 2),
    ):
        monkeypatch.setattr(owner, name, _counted(getattr(owner, name), place, sizes))
    return sizes


def _counted(step, place, sizes):
    def counted(*args):
        entries = args[place]
        sizes.append(sum(len(getattr(entry, "partitions", (entry,))) for entry in entries))
        return step(*args)

    return counted


@pytest.mark.parametrize("version", [6, 12, 13, 18])
@pytest.mark.parametrize("topics", [1, FEW])
def test_each_step_is_done_for_some_partitions_in_a_turn(call, work, version, topics) -> None:
    asked = request(range(MANY // topics), topics=topics, epoch=-1)

    response, turns = call.counting_turns(handle, asked, version)

    assert len(indexes(response)) == MANY
    assert max(work) < 2 * SLICE, "topics of a few partitions come whole"
    assert turns >= STEPS * MANY // (2 * SLICE)
    assert response.is_large


def test_a_few_bytes_in_a_session_are_answered_in_turns(cluster, call, work) -> None:
    for index in (1, 2):
        cluster.lead("t", index)
    session_id = call(handle, request(range(MANY)), 12).session_id
    cluster.append(cluster.replicas.hosted.get(("t", 2)), b"v")
    work.clear()

    asked = request((), session_id=session_id, epoch=1)
    response, turns = call.counting_turns(handle, asked, 12)

    assert session_id != 0
    assert len(response.responses[0].partitions) == MANY - 1, "all but the one without news"
    assert max(work) <= SLICE
    assert turns >= (STEPS - 1) * MANY // SLICE


def test_what_a_session_forgets_is_forgotten_in_turns(call, work) -> None:
    session_id = call(handle, request(range(MANY)), 12).session_id
    work.clear()

    asked = request((), session_id=session_id, epoch=1, forget=range(MANY - 1))
    response = call(handle, asked, 12)

    assert indexes(response) == [MANY - 1]
    assert max(work) <= SLICE


def test_a_fetch_that_names_many_waits_no_longer_than_half_a_second(cluster, call) -> None:
    cluster.lead("t", 0)
    waits = cluster.replicas.waiting.fetches

    async def answered():
        asked = request(range(MANY), epoch=-1, max_wait_ms=86_400_000)
        task = asyncio.ensure_future(call.start(handle, asked, 12))
        for _ in range(6 * MANY // SLICE):
            await asyncio.sleep(0)
        waiting = not task.done() and len(waits)
        cluster.time.advance(fetch_in_turns.LONGEST_WAIT_MS)
        return waiting, await task

    waiting, response = cluster.loop.run_until_complete(answered())

    assert waiting == 1
    assert len(indexes(response)) == MANY


def test_the_next_request_of_a_session_ends_the_one_that_waits(cluster, call, work) -> None:
    cluster.lead("t", 0)
    session_id = call(handle, request(range(MANY)), 12).session_id

    async def answered():
        asked = request((), session_id=session_id, epoch=1, max_wait_ms=86_400_000)
        task = asyncio.ensure_future(call.start(handle, asked, 12))
        for _ in range(3 * MANY // SLICE):
            await asyncio.sleep(0)
        work.clear()
        asked = request((), session_id=session_id, epoch=2)
        later = await call.start(handle, asked, 12)
        return await task, later

    overtaken, later = cluster.loop.run_until_complete(answered())

    assert overtaken.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert overtaken.responses == []
    assert len(indexes(later)) == MANY - 1
    assert sum(work) <= 3 * MANY, "what was overtaken is not read again"


def test_one_who_is_no_broker_is_refused_in_turns(call, work) -> None:
    asked = request(range(MANY), epoch=-1, replica_id=7)

    response = call(handle, asked, 12)

    codes = {data.error_code for data in response.responses[0].partitions}
    assert codes == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    assert len(indexes(response)) == MANY
    assert max(work) <= SLICE
