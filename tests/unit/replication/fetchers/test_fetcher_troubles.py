"""What goes wrong between a follower and its leader keeps to the partition that it happened to, and
passes: real brokers, logs and requests, in virtual time.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest

from kbroker.errors import ErrorCode
from kbroker.model import TopicPartition
from kbroker.protocol.messages.fetch import FetchRequest
from kbroker.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from kbroker.replication.partitions.partition import Partition
from tests.fakes.clusters.copying_cluster import CopyingCluster, T
from tests.fakes.clusters.replication_cluster import leader_and_isr

pytestmark = pytest.mark.virtual_time
OTHER = TopicPartition("t", 1)
BACKOFF_S = 1.0  # replica.fetch.backoff.ms


@pytest.fixture
async def cluster() -> AsyncIterator[CopyingCluster]:
    """Broker 1 leads two partitions."""
    async with CopyingCluster(1, 2) as cluster:
        cluster.order(1, 0)
        cluster.order(1, 0, of=OTHER)
        await cluster.settle()
        yield cluster


def answers_for(response: Any, partition: int) -> list[Any]:
    return [
        data
        for topic in response.responses
        for data in topic.partitions
        if data.partition_index == partition
    ]


def append_to_both(cluster: CopyingCluster, value: bytes) -> None:
    cluster[1].append(value)
    cluster[1].append(value, to=OTHER)


async def others_go_on_and_then_it_does(cluster: CopyingCluster) -> None:
    """`t-0` is left out for one pause after an error; `t-1` never is."""
    append_to_both(cluster, b"a")
    await cluster.settle(BACKOFF_S * 0.9)
    assert cluster[2].values() == []
    assert cluster[2].values(OTHER) == [b"a"]
    cluster[1].append(b"b", to=OTHER)
    await cluster.settle(BACKOFF_S * 0.05)
    assert cluster[2].values(OTHER) == [b"a", b"b"]
    await cluster.settle()
    cluster.check_equal()
    cluster.check_equal(OTHER)


async def test_a_damaged_batch_is_asked_for_again(
    cluster: CopyingCluster, caplog: pytest.LogCaptureFixture
) -> None:
    def damage(_request: object, response: Any) -> None:
        for data in answers_for(response, 0):
            if data.records:
                data.records[-1] ^= 1
                cluster.answering.clear()

    cluster.answering.append(damage)
    await others_go_on_and_then_it_does(cluster)
    assert "t-0: not stored: " in caplog.text


async def test_offsets_that_do_not_rise_are_not_stored(cluster: CopyingCluster) -> None:
    append_to_both(cluster, b"first")
    await cluster.settle()

    def turn_back(_request: object, response: Any) -> None:
        for data in answers_for(response, 0):
            if data.records:
                data.records[:8] = bytes(8)
                cluster.answering.clear()

    cluster.answering.append(turn_back)
    append_to_both(cluster, b"second")
    await cluster.settle(0.1)
    assert cluster[2].values() == [b"first"]
    assert cluster[2].values(OTHER) == [b"first", b"second"]
    await cluster.settle()

    cluster.check_equal()


@pytest.mark.parametrize("length", [-5, 0, 2**31 - 1])
async def test_a_length_that_cannot_be_keeps_nobody_busy(
    cluster: CopyingCluster, length: int
) -> None:
    def lie(_request: object, response: Any) -> None:
        for data in answers_for(response, 0):
            if data.records:
                data.records[8:12] = length.to_bytes(4, "big", signed=True)

    cluster.answering.append(lie)
    append_to_both(cluster, b"v")
    before = len(cluster.asked)
    await cluster.settle(5 * BACKOFF_S)

    assert cluster[2].values() == []
    assert cluster[2].values(OTHER) == [b"v"]
    assert len(cluster.asked) - before < 40, "it is asked for with pauses"
    cluster.answering.clear()
    await cluster.settle()
    cluster.check_equal()


async def test_a_fault_of_the_fetcher_itself_keeps_to_one_partition(
    cluster: CopyingCluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    append = Partition.append_as_follower
    faults = [ValueError("a bug")]

    def faulty(partition: Partition, records: memoryview, now_ms: int, start: int) -> Any:
        info = append(partition, records, now_ms, start)
        if partition.topic_partition == T and faults:
            raise faults.pop()
        return info

    monkeypatch.setattr(Partition, "append_as_follower", faulty)
    append_to_both(cluster, b"a")
    await cluster.settle(BACKOFF_S * 0.9)
    append_to_both(cluster, b"b")
    await cluster.settle(BACKOFF_S * 0.05)
    assert cluster[2].values() == [b"a"], "stored before the fault"
    assert cluster[2].values(OTHER) == [b"a", b"b"]
    await cluster.settle()

    cluster.check_equal()
    assert "t-0 is left out for a while" in caplog.text


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
async def test_what_a_leader_refuses_is_asked_for_again_after_a_pause(
    cluster: CopyingCluster, code: ErrorCode
) -> None:
    def refuse(_request: object, response: Any) -> None:
        for data in answers_for(response, 0):
            data.error_code, data.records = int(code), None
            cluster.answering.clear()

    cluster.answering.append(refuse)
    await others_go_on_and_then_it_does(cluster)


async def test_a_follower_that_hears_of_an_epoch_first_asks_until_the_leader_knows_it(
    cluster: CopyingCluster,
) -> None:
    cluster.order(1, 1, to=(2,))
    await cluster.settle()
    cluster.tell(1)
    append_to_both(cluster, b"v")
    await cluster.settle()

    assert cluster[2].epochs() == [(1, 0)]
    cluster.check_equal()


async def test_a_fenced_follower_asks_no_more_until_it_is_told(cluster: CopyingCluster) -> None:
    cluster.order(1, 1, to=(1,))
    append_to_both(cluster, b"v")
    await cluster.settle()
    before = len(cluster.fetches(2))
    await cluster.settle(10 * BACKOFF_S)

    named = [
        partition.partition
        for fetch in cluster.fetches(2)[before:]
        for topic in fetch.topics
        for partition in topic.partitions
    ]
    assert (named, cluster[2].values(), cluster[2].values(OTHER)) == ([], [], [b"v"])
    cluster.tell(2)
    await cluster.settle()
    cluster.check_equal()


async def test_a_leader_that_is_gone_is_asked_with_pauses_and_found_when_it_is_back(
    cluster: CopyingCluster,
) -> None:
    await cluster.stop(1)
    before = len(cluster.asked)
    await cluster.settle(20 * BACKOFF_S)
    assert len(cluster.asked) - before < 25
    cluster.start(1)
    cluster.order(1, 1)
    cluster.order(1, 1, of=OTHER)
    append_to_both(cluster, b"v")
    await cluster.settle()

    cluster.check_equal()
    cluster.check_equal(OTHER)


async def test_an_answer_that_never_comes_is_given_up(cluster: CopyingCluster) -> None:
    waiting = asyncio.Event()

    def never(request: Any, _response: object) -> Any:
        if isinstance(request, FetchRequest):
            cluster.answering.clear()
            return waiting.wait()
        return None

    cluster.answering.append(never)
    append_to_both(cluster, b"v")
    await cluster.settle()
    assert cluster[2].values() == []
    await cluster.settle(cluster.config.replica_socket_timeout_ms / 1000)

    cluster.check_equal()


async def test_a_leader_nobody_knows_is_looked_for(cluster: CopyingCluster) -> None:
    append_to_both(cluster, b"v")
    await cluster.stop(2)
    cluster.start(2, with_metadata=False)
    where: Any = {"leader": 1, "leader_epoch": 0, "isr": (1, 2), "replicas": (1, 2)}
    leadership = cluster[2].replicas.leadership
    leadership.become_leader_or_follower(leader_and_isr("t", **where))
    await cluster.settle()
    assert cluster[2].values() == []
    leadership.update_metadata(cluster.description())
    await cluster.settle()

    cluster.check_equal()


async def test_an_order_says_where_a_leader_is_that_no_metadata_has() -> None:
    async with CopyingCluster(1, 2) as cluster:
        cluster.order(1, 0, to=(1,))
        cluster[1].append(b"v")
        await cluster.stop(2)
        cluster.start(2, with_metadata=False)
        where: Any = {"leader": 1, "leader_epoch": 0, "isr": (1, 2), "replicas": (1, 2)}
        order = leader_and_isr("t", **where)
        order.live_leaders = [
            LeaderAndIsrRequest.LeaderAndIsrLiveLeader(broker_id=1, host_name="one", port=9092)
        ]
        leadership = cluster[2].replicas.leadership
        assert leadership.live_broker(1) is None
        leadership.become_leader_or_follower(order)
        await cluster.settle(0.1)

        assert cluster[2].values() == [b"v"]
        (end_point,) = leadership.live_broker(1).end_points  # type: ignore[union-attr]
        assert (end_point.host, end_point.port) == ("one", 9092)


async def test_the_next_description_of_the_cluster_overrides_what_orders_said(
    cluster: CopyingCluster,
) -> None:
    leadership = cluster[2].replicas.leadership
    order = LeaderAndIsrRequest(
        controller_epoch=5,
        live_leaders=[
            LeaderAndIsrRequest.LeaderAndIsrLiveLeader(broker_id=1, host_name="old", port=1)
        ],
    )
    leadership.become_leader_or_follower(order)
    assert leadership.live_broker(1).end_points[0].host == "old"  # type: ignore[union-attr]

    leadership.update_metadata(cluster.description())

    assert leadership.live_broker(1) == cluster[2].metadata.broker(1)


async def test_a_topic_that_was_created_again_is_not_mixed_with_the_old_one(
    cluster: CopyingCluster,
) -> None:
    """The follower still has the topic's old id: the leader's answers are about another topic."""
    append_to_both(cluster, b"old")
    await cluster.settle()
    cluster.stop_replica(1, delete=True)
    where: Any = {"leader": 1, "leader_epoch": 0, "isr": (1, 2), "replicas": (1, 2)}
    order = leader_and_isr("t", topic_id=UUID(int=77), **where)
    cluster[1].replicas.leadership.become_leader_or_follower(order)
    cluster[1].append(b"new")
    await cluster.settle()

    assert cluster[2].values() == [b"old"]


async def test_a_partition_whose_disk_fails_is_given_up(cluster: CopyingCluster) -> None:
    append_to_both(cluster, b"a")
    await cluster.settle()
    cluster.disks[2].fail("write", "*/t-0/*.log", number=errno.EIO, times=None)
    cluster[1].append(b"b")
    await cluster.settle()

    assert cluster[2].replicas.hosted.is_offline(T)
    assert len(cluster[2].fetchers) == 0, "both were in the directory"
    before = len(cluster.asked)
    await cluster.settle(10)
    assert len(cluster.asked) == before


async def test_a_follower_whose_disk_is_full_goes_on_when_there_is_room(
    cluster: CopyingCluster,
) -> None:
    cluster.disks[2].fail("write", "*/t-0/*.log", number=errno.ENOSPC, times=None)
    append_to_both(cluster, b"a")
    await cluster.settle(4 * BACKOFF_S)
    assert (cluster[2].values(), cluster[2].values(OTHER)) == ([], [b"a"])
    cluster.disks[2].heal()
    await cluster.settle()

    cluster.check_equal()
    assert not cluster[2].replicas.hosted.is_offline(T)


async def test_a_follower_that_cannot_cut_its_log_stores_nothing_before_it_can(
    cluster: CopyingCluster,
) -> None:
    append_to_both(cluster, b"a")
    await cluster.settle()
    cluster.cut_links |= {(1, 2), (2, 1)}
    cluster[1].append(b"lost")
    cluster.order(2, 1, isr=(2,), to=(2,))
    cluster[2].append(b"kept")
    fault = cluster.disks[1].fail("truncate", "*/t-0/*.log", number=errno.EMFILE, times=2)
    cluster.cut_links.clear()
    cluster.order(2, 2, isr=(2,))
    await cluster.settle(6 * BACKOFF_S)

    assert cluster[1].values() == [b"a", b"kept"]
    assert len(fault.hits) == 2
    cluster.check_equal()


@pytest.mark.parametrize("values", [[], [b"a"]], ids=["empty logs", "records"])
async def test_a_leader_whose_disk_took_no_note_of_its_epoch_tells_where_earlier_ones_ended(
    cluster: CopyingCluster, values: list[bytes]
) -> None:
    for value in values:
        cluster[1].append(value)
    await cluster.settle()
    cluster.order(2, 1, isr=(2,), to=(2,))  # which notes an epoch, and appends nothing
    cluster.disks[1].fail("open", "*/t-0/*.tmp", number=errno.ENOSPC, times=None)
    cluster.order(1, 2, isr=(1,))
    await cluster.settle()

    assert cluster[1].log().leader_epoch_cache.latest_epoch < 2
    assert cluster[1].partition().state.followers[2].log_end_offset == len(values)
    cluster.disks[1].heal()
    cluster[1].append(b"b")
    await cluster.settle()
    cluster.check_equal()


async def test_deleted_partitions_are_asked_for_no_more(cluster: CopyingCluster) -> None:
    append_to_both(cluster, b"a")
    await cluster.settle()
    cluster.stop_replica(2, delete=True)
    cluster[1].append(b"b", to=OTHER)
    await cluster.settle()

    assert len(cluster[2].fetchers) == 1
    assert cluster[2].replicas.hosted.find(T) is None
    cluster.check_equal(OTHER)


async def test_trouble_that_lasts_is_logged_once(
    cluster: CopyingCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.disks[2].fail("write", "*/t-0/*.log", number=errno.ENOSPC, times=None)
    append_to_both(cluster, b"a")
    await cluster.settle(10 * BACKOFF_S)

    assert caplog.text.count("t-0: not stored") == 1
    cluster.disks[2].heal()
    await cluster.settle()
    cluster.disks[2].fail("write", "*/t-0/*.log", number=errno.ENOSPC, times=3)
    append_to_both(cluster, b"b")
    await cluster.settle(10 * BACKOFF_S)

    assert caplog.text.count("t-0: not stored") == 2
    cluster.check_equal()
