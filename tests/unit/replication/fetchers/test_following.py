"""Followers copy what their leaders have: real brokers, logs and requests, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from kbroker.config.topic_config import TopicConfig
from kbroker.errors import ErrorCode
from kbroker.log.producers.log_append_info import AppendOrigin
from kbroker.log.segments.fetch_data_info import FetchIsolation
from kbroker.model import TopicPartition
from kbroker.protocol.messages.fetch import FetchRequest, FetchResponse
from kbroker.record.compression import GZIP
from kbroker.record.record_batch import (
    TRANSACTIONAL_BIT,
    BatchOptions,
    ControlRecord,
    build_marker,
)
from kbroker.replication.reads.fetch_params import FetchParams, FetchPartition
from kbroker.replication.reads.fetch_session_cache import FetchSessions
from tests.fakes.clusters.copying_cluster import CopyingCluster, T
from tests.fakes.logs.log_maker import batch, delete_old_segments

pytestmark = pytest.mark.virtual_time


@pytest.fixture
async def cluster() -> AsyncIterator[CopyingCluster]:
    async with CopyingCluster(1, 2, 3, topic=TopicConfig(segment_bytes=1500)) as cluster:
        cluster.order(1, 0)
        yield cluster


async def test_followers_have_the_bytes_epochs_and_high_watermark_of_their_leader(
    cluster: CopyingCluster,
) -> None:
    for number in range(30):
        cluster[1].append(b"%d" % number * 20, b"second", timestamp=number)
    await cluster.settle()
    cluster[1].append(b"last")
    await cluster.settle()

    assert cluster[1].log().high_watermark == 61
    assert len(list(cluster[2].log().segments)) > 1
    cluster.check_equal()


async def test_leaders_below_protocol_31_are_asked_by_the_names_of_topics() -> None:
    """Brokers of Kafka do not know topics by their ids there, whatever requests they know."""
    async with CopyingCluster(1, 2, uses_topic_ids=False) as cluster:
        cluster.order(1, 0)
        cluster[1].append(b"a")
        await cluster.settle()

        assert cluster[2].values() == [b"a"]
        assert {asked.version for asked in cluster.asked} == {12}


async def test_what_is_compressed_or_part_of_a_transaction_is_copied_as_it_is(
    cluster: CopyingCluster,
) -> None:
    cluster[1].append(b"a" * 400, b"b" * 400, compression=GZIP)
    for producer_id in (5, 6):
        cluster[1].append(
            b"c",
            flags=TRANSACTIONAL_BIT,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
        )
    marker = build_marker(
        ControlRecord(is_commit=False, coordinator_epoch=1),
        1000,
        options=BatchOptions(producer_id=5, producer_epoch=0),
    )
    cluster[1].append_batch(bytearray(marker), origin=AppendOrigin.COORDINATOR)
    await cluster.settle()

    cluster.check_equal()
    for follower in (2, 3):
        assert cluster[follower].log().last_stable_offset == 3  # where that of producer 6 begins
        assert cluster[follower].log().producer_state.producers.keys() == {5, 6}


async def test_an_acknowledgement_is_the_next_fetch_and_wakes_who_waits_at_the_leader(
    cluster: CopyingCluster,
) -> None:
    outcome = cluster[1].replicas.appends.append_records([(T, memoryview(batch(b"v")))], -1, 10_000)
    assert outcome.settled is not None, "nobody else has it"

    (result,) = await outcome.settled

    assert (result.error_code, cluster[1].log().high_watermark) == (ErrorCode.NONE, 1)
    assert cluster[2].log().log_end_offset == cluster[3].log().log_end_offset == 1


async def test_consumers_that_wait_at_a_follower_are_woken(cluster: CopyingCluster) -> None:
    await cluster.settle()
    params = FetchParams(
        isolation=FetchIsolation.HIGH_WATERMARK,
        max_bytes=1000,
        max_wait_ms=60_000,
        leader_only=False,
    )
    waiting = cluster[2].replicas.fetches.fetch(params, [FetchPartition(T, max_bytes=1000)])
    assert not isinstance(waiting, list)
    cluster[1].append(b"v")

    (answer,) = await asyncio.wait_for(waiting, 5)

    assert answer.records
    assert answer.high_watermark == 1


async def test_nothing_is_named_again_while_nothing_changes(cluster: CopyingCluster) -> None:
    others = [TopicPartition("t", index) for index in range(1, 20)]
    for other in others:
        cluster.order(1, 0, of=other)
    await cluster.settle()
    before = len(cluster.fetches(2))
    await cluster.settle()
    cluster[1].append(b"v", to=others[3])
    await cluster.settle()

    named = [
        [partition.partition for topic in fetch.topics for partition in topic.partitions]
        for fetch in cluster.fetches(2)[before:]
    ]
    assert [each for each in named if each] == [[4]]
    assert {fetch.session_epoch for fetch in cluster.fetches(2)[before:]}.isdisjoint({0, -1})


async def test_everything_is_named_when_the_leader_has_lost_the_session(
    cluster: CopyingCluster,
) -> None:
    await cluster.settle()
    cluster[1].replicas.fetch_sessions = FetchSessions(1000, cluster.clock)
    before = len(cluster.fetches(2))
    cluster[1].append(b"v")
    await cluster.settle()

    assert [fetch.session_epoch for fetch in cluster.fetches(2)[before:]].count(0) == 1
    cluster.check_equal()


async def test_a_follower_that_was_away_goes_on_where_it_was(cluster: CopyingCluster) -> None:
    cluster[1].append(b"a")
    await cluster.settle()
    await cluster.stop(3)
    cluster[1].append(b"b")
    await cluster.settle()
    cluster.start(3)
    cluster.tell(3)
    await cluster.settle()

    assert cluster[3].values() == [b"a", b"b"]
    cluster.check_equal()


async def test_followers_start_where_deleted_records_end(cluster: CopyingCluster) -> None:
    for number in range(6):
        cluster[1].append(b"%d" % number)
    await cluster.settle()

    (result,) = await asyncio.wait_for(cluster[1].replicas.deletions.delete({T: 4}, 10_000), 10)

    assert (result.error_code, result.low_watermark) == (ErrorCode.NONE, 4)
    assert [cluster[each].log().log_start_offset for each in (1, 2, 3)] == [4, 4, 4]


async def test_a_new_follower_begins_where_the_leaders_log_does(cluster: CopyingCluster) -> None:
    for number in range(6):
        cluster[1].append(b"%d" % number)
    await cluster.settle()
    await asyncio.wait_for(cluster[1].replicas.deletions.delete({T: 4}, 10_000), 10)
    cluster.stop_replica(3, delete=True)
    await cluster.settle()
    cluster.order(1, 1)
    await cluster.settle(0.7)  # less than a pause after an error

    assert cluster[3].log().log_start_offset == 4
    assert cluster[3].values() == [b"4", b"5"]


async def test_a_log_that_starts_amid_a_batch_is_copied_with_the_whole_batch(
    cluster: CopyingCluster,
) -> None:
    """DeleteRecords hides records up to any offset, while batches are sent as they are."""
    for number in range(3):
        cluster[1].append(b"%d" % number, b"second", b"third")
    await cluster.settle()
    await asyncio.wait_for(cluster[1].replicas.deletions.delete({T: 4}, 10_000), 10)
    cluster.stop_replica(3, delete=True)
    await cluster.settle()
    cluster.order(1, 1)
    await cluster.settle(0.7)  # less than a pause after an error

    log = cluster[3].log()
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (4, 9, 9)
    assert log.segments.base_offsets == [3]
    assert cluster[1].content().endswith(cluster[3].content())


async def test_a_follower_starts_over_when_retention_has_gone_past_its_end(
    cluster: CopyingCluster,
) -> None:
    cluster[1].append(b"old", timestamp=1)
    await cluster.settle()
    await cluster.stop(3)
    cluster.order(1, 1, isr=(1, 2))
    for number in range(40):
        cluster[1].append(b"%d" % number * 30, timestamp=1)
    await cluster.settle()
    leader = cluster[1].log()
    leader.roll(cluster.clock.now_ms())
    assert delete_old_segments(leader, cluster.clock.now_ms())
    assert leader.log_start_offset == 41
    cluster[1].append(b"new", timestamp=cluster.clock.now_ms())
    cluster.start(3)
    cluster.tell(3)
    await cluster.settle()

    assert cluster[3].values() == [b"new"]
    cluster.check_equal(T, 1, 3)


async def test_a_batch_above_all_limits_comes_all_the_same() -> None:
    config = {"replica_fetch_max_bytes": 100, "replica_fetch_response_max_bytes": 100}
    async with CopyingCluster(1, 2, **config) as cluster:
        cluster.order(1, 0)
        cluster[1].append(b"v" * 5000)
        cluster[1].append(b"w" * 5000)
        await cluster.settle()

        cluster.check_equal()


@pytest.mark.parametrize("slots", [0, 1000])
async def test_a_busy_partition_leaves_room_for_the_others(slots: int) -> None:
    config = {
        "replica_fetch_response_max_bytes": 6000,
        "max_incremental_fetch_session_cache_slots": slots,
    }
    async with CopyingCluster(1, 2, **config) as cluster:
        other = TopicPartition("t", 1)
        cluster.order(1, 0)
        cluster.order(1, 0, of=other)
        await cluster.settle()
        for _ in range(50):
            cluster[1].append(b"v" * 5000)
        cluster[1].append(b"v" * 5000, to=other)
        await cluster.until(lambda: cluster[2].log(other).log_end_offset)

        assert cluster[2].log().log_end_offset < 5, "one batch fits an answer"


async def test_partitions_are_shared_out_again_when_there_are_more_fetchers(
    cluster: CopyingCluster,
) -> None:
    others = [TopicPartition("t", index) for index in range(1, 5)]
    for other in others:
        cluster.order(1, 0, of=other)
    await cluster.settle()
    cluster.fetchers_per_broker = 3
    cluster[2].fetchers.resize()
    for other in others:
        cluster[1].append(b"v", to=other)
    await cluster.settle()

    names = {task.get_name() for task in asyncio.all_tasks()}
    assert {f"fetcher {number} of broker 1" for number in range(3)} <= names
    assert len(cluster[2].fetchers) == 5
    for other in others:
        cluster.check_equal(other, 1, 2)


async def test_nothing_is_left_when_the_fetchers_are_shut_down(cluster: CopyingCluster) -> None:
    await cluster.settle(0.3)  # amid a fetch that waits
    await cluster[2].fetchers.shutdown()
    await cluster[3].fetchers.shutdown()
    asked = len(cluster.asked)
    cluster.order(1, 1)  # an order may still come
    cluster[1].append(b"v")
    await cluster.settle()

    assert len(cluster.asked) == asked
    assert not [task for task in asyncio.all_tasks() if "fetcher" in task.get_name()]


class LargeAnswer:
    """300 records of 2000 bytes come to broker 2 in one answer; `ends` is where its log ends after
    each slice, `on_first` is called after the first one.
    """

    def __init__(self, cluster: CopyingCluster, on_first: Callable[[], None]) -> None:
        self.ends: list[int] = []
        self._cluster = cluster
        self._on_first = on_first
        self._watching: list[asyncio.Task[None]] = []
        cluster.answering.append(self._begin_to_watch)
        for _ in range(300):
            cluster[1].append_batch(batch(b"v" * 2000))

    def _begin_to_watch(self, request: FetchRequest, response: FetchResponse) -> None:
        if response.responses and request.replica_state.replica_id == 2:
            self._cluster.answering.clear()
            self._watching.append(asyncio.ensure_future(self._watch()))

    async def _watch(self) -> None:
        for _ in range(1000):
            end = self._cluster[2].log().log_end_offset
            if not self.ends or self.ends[-1] != end:
                self.ends.append(end)
                if len(self.ends) == 1:
                    self._on_first()
            await asyncio.sleep(0)


async def test_a_large_answer_is_stored_in_slices() -> None:
    async with CopyingCluster(1, 2) as cluster:
        cluster.order(1, 0)
        answer = LargeAnswer(cluster, lambda: None)
        await cluster.settle()

        assert answer.ends == [126, 252, 300]
        cluster.check_equal()


async def test_an_order_amid_a_large_answer_ends_it() -> None:
    async with CopyingCluster(1, 2) as cluster:
        cluster.order(1, 0)
        answer = LargeAnswer(cluster, lambda: cluster.order(2, 1, to=(2,)))
        await cluster.settle()

        assert answer.ends == [126]
        assert cluster[2].partition().is_leader


async def test_a_new_epoch_amid_a_large_answer_has_the_rest_asked_for_again() -> None:
    async with CopyingCluster(1, 2) as cluster:
        cluster.order(1, 0)
        answer = LargeAnswer(cluster, lambda: cluster.order(1, 1))
        await cluster.settle()

        assert answer.ends == [126]
        cluster.check_equal()
