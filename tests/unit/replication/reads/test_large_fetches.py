"""Fetches of consumers that ask for thousands of partitions: with a few bytes, in a session."""

from __future__ import annotations

import asyncio

import pytest

from kbroker.errors import ErrorCode
from kbroker.log.segments.fetch_data_info import FetchIsolation
from kbroker.model import TopicPartition
from kbroker.replication.reads import fetches
from kbroker.replication.reads.fetch_params import FetchParams, FetchPartition
from kbroker.replication.reads.fetch_reader import FetchReader
from kbroker.replication.reads.fetches import ALWAYS_WAITS, FEW_PARTITIONS, SLICE_PARTITIONS
from tests.fakes.clusters.replication_cluster import batch

BATCH_SIZE = len(batch(b"v"))
MANY = 3 * FEW_PARTITIONS
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class Consumer:
    """Asks for partitions 0, 1, ... of a topic of which the broker has a few."""

    def __init__(self, cluster, count=MANY, **values) -> None:
        given = {"isolation": FetchIsolation.HIGH_WATERMARK, "max_bytes": 1 << 20, **values}
        asked = [FetchPartition(TopicPartition("t", p), max_bytes=1 << 20) for p in range(count)]
        self.loop = cluster.loop
        self.waiting = cluster.replicas.waiting.fetches
        answer = cluster.replicas.fetches.fetch(FetchParams(**given), asked)
        self.task = asyncio.ensure_future(answer, loop=self.loop)

    def turns(self, count=10):
        """Let some turns of the loop pass; whether there is an answer."""
        for _ in range(count):
            self.loop.run_until_complete(asyncio.sleep(0))
        return self.task.done()

    def turns_taken(self):
        """How often others had their turn before the answer."""

        async def count():
            turns = 0
            while not self.task.done():
                await asyncio.sleep(0)
                turns += 1
            return turns

        return self.loop.run_until_complete(count())

    def sizes(self):
        """The records of each partition that sent any, in bytes."""
        answer = self.loop.run_until_complete(self.task)
        return {data.partition_index: len(data.records) for data in answer if len(data.records)}


def test_others_run_while_many_partitions_are_read(cluster):
    consumer = Consumer(cluster)

    assert consumer.turns_taken() >= MANY / SLICE_PARTITIONS
    answer = consumer.task.result()
    assert [data.partition_index for data in answer] == list(range(MANY))
    assert {data.error_code for data in answer} == {UNKNOWN}


def test_the_limit_of_the_answer_holds_over_all_of_them(cluster):
    for index in (0, 1, MANY - 2, MANY - 1):
        cluster.append(cluster.lead("t", index), b"v")

    assert Consumer(cluster, max_bytes=3 * BATCH_SIZE).sizes() == {
        0: BATCH_SIZE,
        1: BATCH_SIZE,
        MANY - 2: BATCH_SIZE,
    }
    assert Consumer(cluster, max_bytes=1).sizes() == {0: BATCH_SIZE}


@pytest.mark.parametrize("turns", [0, 2, 10])
def test_an_append_is_heard_of_while_they_are_read_and_afterwards(cluster, turns):
    partition = cluster.lead("t", 0)
    consumer = Consumer(cluster, max_wait_ms=500)
    early = consumer.turns(turns)

    cluster.append(partition, b"v")

    assert not early
    assert consumer.sizes() == {0: BATCH_SIZE}


def test_it_waits_no_longer_than_it_may(cluster):
    cluster.lead("t", 0)
    consumer = Consumer(cluster, max_wait_ms=500)
    early = consumer.turns()

    cluster.time.advance(500)

    assert not early
    assert consumer.sizes() == {}
    assert len(consumer.waiting) == 0


def test_a_consumer_that_has_gone_is_not_waited_for(cluster):
    cluster.lead("t", 0)
    consumer = Consumer(cluster, max_wait_ms=500)
    consumer.turns()

    consumer.task.cancel()
    consumer.turns()

    assert len(consumer.waiting) == 0


def test_what_was_there_and_what_comes_is_added_up(cluster):
    first, second = cluster.lead("t", 0), cluster.lead("t", 1)
    cluster.append(first, b"v")
    consumer = Consumer(cluster, max_wait_ms=500, min_bytes=2 * BATCH_SIZE)
    early = consumer.turns(MANY // SLICE_PARTITIONS + 2)

    cluster.append(second, b"v")
    consumer.turns(2 * MANY // SLICE_PARTITIONS)

    assert not early
    assert consumer.task.done()
    assert consumer.sizes() == {0: BATCH_SIZE, 1: BATCH_SIZE}


def test_a_change_costs_one_look_at_the_partition_that_changed(cluster, monkeypatch):
    first, second = cluster.lead("t", 0), cluster.lead("t", 1)
    elsewhere = cluster.lead("u")
    read, looks = FetchReader.read, []

    def counted(self, params, asked_for, *others):
        looks.extend(asked.topic_partition for asked in asked_for)
        return read(self, params, asked_for, *others)

    monkeypatch.setattr(FetchReader, "read", counted)
    consumer = Consumer(cluster, max_wait_ms=500, min_bytes=1_000_000)
    consumer.turns(MANY // SLICE_PARTITIONS + 2)
    looks.clear()
    for partition in (first, second, first, elsewhere):
        cluster.append(partition, b"v")

    waiting = not consumer.task.done()
    consumer.task.cancel()
    consumer.turns()

    assert waiting
    assert looks == [TopicPartition("t", index) for index in (0, 1, 0)]


def test_what_waits_without_a_session_is_bounded(cluster, monkeypatch):
    cluster.lead("t", 0)
    monkeypatch.setattr(fetches, "WAITING_PARTITIONS_MAX", 2 * MANY)
    waiting = [Consumer(cluster, max_wait_ms=500) for _ in range(3)]
    small = Consumer(cluster, count=ALWAYS_WAITS, max_wait_ms=500)
    waiting[0].turns(5 * MANY // SLICE_PARTITIONS)
    done = [consumer.task.done() for consumer in waiting]

    cluster.time.advance(500)
    waiting[0].turns(5 * MANY // SLICE_PARTITIONS)

    assert done == [False, False, True]
    assert small.sizes() == {}
    assert cluster.replicas.fetches.waiting_partitions == 0
