"""How the ends of transactions get to the leaders of their partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kbroker.coordinator.transaction.marker_sender import (
    RETRY_BACKOFF_S,
    UNEXPECTED_BACKOFF_S,
    TransactionMarkerSender,
)
from kbroker.coordinator.transaction.markers import TransactionMarkers
from kbroker.coordinator.transaction.producer import Producer
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import TRANSACTION_STATE_TOPIC, Broker, TopicPartition
from kbroker.protocol.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kbroker.replication.metadata_cache import MetadataCache
from tests.fakes.clusters.replication_cluster import partition_metadata, update_metadata

pytestmark = pytest.mark.virtual_time

OWN, OTHER, THIRD = 0, 1, 2
TIMEOUT_MS = 30_000
PRODUCER = Producer(5, 1)
Script = Callable[[TopicPartition], ErrorCode]


def partition(number: int, topic: str = "t") -> TopicPartition:
    return TopicPartition(topic, number)


def markers(
    *partitions: TopicPartition, producer: Producer = PRODUCER, is_commit: bool = True
) -> TransactionMarkers:
    return TransactionMarkers(
        transactional_id=f"x{producer.producer_id}",
        producer=producer,
        coordinator_epoch=3,
        is_commit=is_commit,
        partitions=frozenset(partitions),
    )


class Leader:
    """A broker that writes markers: what it was asked, and what it says of each partition."""

    def __init__(self) -> None:
        self.says: Script = lambda _partition: ErrorCode.NONE
        self.fails_with: list[Exception] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.asked: list[list[tuple[int, list[TopicPartition]]]] = []
        self.requests: list[WriteTxnMarkersRequest] = []
        self.timeouts: list[float] = []
        self.under_way = 0
        self.most_under_way = 0
        self.closed = 0

    async def send(
        self, request: Any, *, timeout_ms: float = 0, highest_version: int | None = None
    ) -> Any:
        self.timeouts.append(timeout_ms)
        return await self.write(request)

    async def write(self, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        self.requests.append(request)
        self.asked.append([(m.producer_id, named(m)) for m in request.markers])
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            await self.gate.wait()
        finally:
            self.under_way -= 1
        if self.fails_with:
            raise self.fails_with.pop(0)
        return self._answer(request)

    def _answer(self, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        response = WriteTxnMarkersResponse()
        for marker in request.markers:
            result = WriteTxnMarkersResponse.WritableTxnMarkerResult(producer_id=marker.producer_id)
            for topic in marker.topics:
                answers = [
                    WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult(
                        partition_index=index,
                        error_code=self.says(TopicPartition(topic.name, index)),
                    )
                    for index in topic.partition_indexes
                ]
                result.topics.append(
                    WriteTxnMarkersResponse.WritableTxnMarkerTopicResult(
                        name=topic.name, partitions=answers
                    )
                )
            response.markers.append(result)
        return response

    async def serves(self, key: int, version: int, *, timeout_ms: float | None = None) -> bool:
        return True

    def close(self) -> None:
        self.closed += 1


def named(marker: WriteTxnMarkersRequest.WritableTxnMarker) -> list[TopicPartition]:
    return [TopicPartition(t.name, index) for t in marker.topics for index in t.partition_indexes]


class Cluster:
    """Three brokers, seen from the first."""

    def __init__(self) -> None:
        self.metadata = MetadataCache(OWN)
        self.leaders = {broker_id: Leader() for broker_id in (OWN, OTHER, THIRD)}
        self.opened: list[Broker] = []
        self.lead(TopicPartition(TRANSACTION_STATE_TOPIC, 0), OWN)
        self.sender = TransactionMarkerSender(
            self.metadata, self.leaders[OWN].write, self._open, TIMEOUT_MS
        )

    def lead(self, topic_partition: TopicPartition, leader: int, **where: Any) -> TopicPartition:
        name, index = topic_partition
        state = partition_metadata(index, leader=leader, isr=(leader,), replicas=(0, 1, 2))
        self.metadata.update(update_metadata((name, state), **where))
        return topic_partition

    def delete(self, topic_partition: TopicPartition) -> None:
        self.lead(topic_partition, -2)

    def send(self, *args: Any, **values: Any) -> asyncio.Task[None]:
        return asyncio.ensure_future(self._send(self.sender(markers(*args, **values))))

    async def _send(self, sending: Awaitable[None]) -> None:
        await sending

    def _open(self, broker: Broker) -> Leader:
        self.opened.append(broker)
        return self.leaders[broker.broker_id]


@pytest.fixture
async def cluster() -> Cluster:
    return Cluster()


async def turns(count: int = 10) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def now_s() -> float:
    return asyncio.get_running_loop().time()


async def test_each_leader_is_asked_once_for_all_that_it_leads(cluster: Cluster) -> None:
    own = [cluster.lead(partition(number), OWN) for number in (0, 1)]
    others = [cluster.lead(partition(number, "u"), OTHER) for number in (2, 0)]

    await cluster.send(*own, *others, is_commit=False)

    assert cluster.leaders[OWN].asked == [[(5, own)]]
    assert cluster.leaders[OTHER].asked == [[(5, sorted(others))]]
    assert cluster.leaders[THIRD].asked == []
    assert cluster.opened == [cluster.metadata.broker(OTHER)]
    (marker,) = cluster.leaders[OTHER].requests[0].markers
    assert (marker.producer_epoch, marker.coordinator_epoch) == (1, 3)
    assert marker.transaction_result is False
    assert min(cluster.leaders[OTHER].timeouts) > TIMEOUT_MS


async def test_without_partitions_nobody_is_asked(cluster: Cluster) -> None:
    await cluster.send()
    assert not any(leader.asked for leader in cluster.leaders.values())


async def test_what_comes_while_a_broker_is_asked_goes_together(cluster: Cluster) -> None:
    there = cluster.lead(partition(0), OTHER)
    leader = cluster.leaders[OTHER]
    leader.gate.clear()
    sent = [cluster.send(there, producer=Producer(0, 0))]
    await turns()
    sent += [cluster.send(there, producer=Producer(number, 0)) for number in range(1, 5)]
    again = cluster.send(there, producer=Producer(3, 1))
    await turns()
    leader.gate.set()

    await asyncio.gather(*sent, again)

    first, second, third = leader.asked
    assert first == [(0, [there])]
    assert sorted(second) == [(number, [there]) for number in range(1, 5)]
    assert third == [(3, [there])]  # an answer names producers, not their epochs
    assert leader.most_under_way == 1


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
    ],
)
@pytest.mark.parametrize("leader", [OWN, OTHER])
async def test_what_passes_is_asked_again_of_the_leader_of_then(
    cluster: Cluster, leader: int, code: ErrorCode
) -> None:
    good, moving = cluster.lead(partition(0), leader), cluster.lead(partition(1), leader)
    cluster.leaders[leader].says = lambda p: code if p == moving else ErrorCode.NONE
    start_s = now_s()
    sent = cluster.send(good, moving)
    await turns()
    cluster.lead(moving, THIRD)

    await sent

    assert cluster.leaders[leader].asked == [[(5, [good, moving])]]
    assert cluster.leaders[THIRD].asked == [[(5, [moving])]]
    assert now_s() - start_s == pytest.approx(RETRY_BACKOFF_S)


@pytest.mark.parametrize(
    "error",
    [
        ConnectionResetError("cut"),
        TimeoutError("late"),
        KafkaError(ErrorCode.UNSUPPORTED_VERSION),
        RuntimeError("a bug"),
    ],
)
async def test_without_an_answer_it_is_asked_again(cluster: Cluster, error: Exception) -> None:
    there = cluster.lead(partition(0), OTHER)
    leader = cluster.leaders[OTHER]
    leader.fails_with = [error]

    await cluster.send(there)

    assert leader.asked == [[(5, [there])]] * 2


async def test_a_bug_here_is_asked_again_too(cluster: Cluster) -> None:
    here = cluster.lead(partition(0), OWN)
    cluster.leaders[OWN].fails_with = [RuntimeError("a bug")]
    start_s = now_s()

    await cluster.send(here)

    assert cluster.leaders[OWN].asked == [[(5, [here])]] * 2
    assert now_s() - start_s == pytest.approx(UNEXPECTED_BACKOFF_S)


async def test_an_answer_that_nobody_expects_is_told_and_asked_again(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    there = cluster.lead(partition(0), OTHER)
    codes = [ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.NONE]
    cluster.leaders[OTHER].says = lambda _partition: codes.pop(0)

    await cluster.send(there)

    assert "Broker 1 does not end transaction x5 in t-0" in caplog.text
    assert "CLUSTER_AUTHORIZATION_FAILED" in caplog.text


async def test_a_partition_without_a_leader_waits_for_one(cluster: Cluster) -> None:
    there = cluster.lead(partition(0), -1)
    sent = cluster.send(there)
    await asyncio.sleep(5)
    assert not sent.done()

    cluster.lead(there, THIRD)
    await sent

    assert cluster.leaders[THIRD].asked == [[(5, [there])]]


async def test_a_leader_that_is_away_is_waited_for(cluster: Cluster) -> None:
    there = cluster.lead(partition(0), THIRD, brokers=(0, 1))
    sent = cluster.send(there)
    await asyncio.sleep(5)
    assert (sent.done(), cluster.opened) == (False, [])

    cluster.lead(there, THIRD)
    await sent


async def test_what_is_gone_needs_no_end(cluster: Cluster) -> None:
    gone, there = partition(9), cluster.lead(partition(0), OTHER)
    cluster.leaders[OTHER].says = lambda _partition: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    sent = cluster.send(gone, there)
    await asyncio.sleep(5)
    assert not sent.done()

    cluster.delete(there)
    await sent

    assert all(asked == [(5, [there])] for asked in cluster.leaders[OTHER].asked)


async def test_nothing_is_gone_before_a_broker_has_heard_of_the_cluster(cluster: Cluster) -> None:
    cluster.delete(TopicPartition(TRANSACTION_STATE_TOPIC, 0))
    there = partition(0)
    sent = cluster.send(there)
    await asyncio.sleep(5)
    assert not sent.done()

    cluster.lead(there, OTHER)
    await sent

    assert cluster.leaders[OTHER].asked == [[(5, [there])]]


async def test_a_topic_of_an_old_format_has_nothing_to_end(cluster: Cluster) -> None:
    there = cluster.lead(partition(0), OTHER)
    cluster.leaders[OTHER].says = lambda _partition: ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT

    await cluster.send(there)


@pytest.mark.parametrize(
    "code", [ErrorCode.TRANSACTION_COORDINATOR_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH]
)
async def test_a_fence_ends_it_everywhere(cluster: Cluster, code: ErrorCode) -> None:
    fenced, slow = cluster.lead(partition(0), OTHER), cluster.lead(partition(1), THIRD)
    moving = cluster.lead(partition(2), OWN)
    cluster.leaders[OTHER].says = lambda _partition: code
    cluster.leaders[OWN].says = lambda _partition: ErrorCode.NOT_LEADER_OR_FOLLOWER
    cluster.leaders[THIRD].gate.clear()

    with pytest.raises(KafkaError) as refused:
        await cluster.send(fenced, slow, moving)

    await asyncio.sleep(5)
    assert refused.value.code is code
    assert [len(cluster.leaders[broker].asked) for broker in (OWN, OTHER, THIRD)] == [1, 1, 1]
    assert cluster.leaders[THIRD].under_way == 0
    assert len(asyncio.all_tasks()) == 1


async def test_who_is_cancelled_leaves_nothing_running(cluster: Cluster) -> None:
    here, there = cluster.lead(partition(0), OWN), cluster.lead(partition(1), OTHER)
    waiting = cluster.lead(partition(2), -1)
    for leader in (OWN, OTHER):
        cluster.leaders[leader].gate.clear()
    sent = cluster.send(here, there, waiting)
    await turns()

    sent.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sent
    await turns()

    assert [cluster.leaders[leader].under_way for leader in (OWN, OTHER)] == [0, 0]
    assert len(asyncio.all_tasks()) == 1


async def test_who_is_cancelled_takes_nobody_with_it(cluster: Cluster) -> None:
    there = cluster.lead(partition(0), OTHER)
    leader = cluster.leaders[OTHER]
    leader.gate.clear()
    first = cluster.send(there, producer=Producer(1, 0))
    await turns()
    second = cluster.send(there, producer=Producer(2, 0))
    third = cluster.send(there, producer=Producer(3, 0))
    await turns()

    first.cancel()
    third.cancel()
    await asyncio.wait([first, third])
    leader.gate.set()
    await second

    assert leader.asked == [[(1, [there])], [(2, [there])]]


async def test_who_comes_right_after_a_cancellation_is_served(cluster: Cluster) -> None:
    there = cluster.lead(partition(0), OTHER)
    leader = cluster.leaders[OTHER]
    leader.gate.clear()
    first = cluster.send(there, producer=Producer(1, 0))
    await turns()
    first.cancel()
    await asyncio.wait([first])
    leader.gate.set()

    await cluster.send(there, producer=Producer(2, 0))

    assert leader.asked == [[(1, [there])], [(2, [there])]]


async def test_a_broker_that_is_elsewhere_is_asked_there(cluster: Cluster) -> None:
    there = cluster.lead(partition(0), OTHER)
    leader = cluster.leaders[OTHER]
    leader.gate.clear()
    sent = cluster.send(there)
    await turns()
    cluster.lead(there, OTHER, host="elsewhere")
    other = cluster.send(there, producer=Producer(6, 0))
    await turns()
    leader.gate.set()

    await asyncio.gather(sent, other)

    assert [broker.end_points[0].host for broker in cluster.opened] == ["", "elsewhere"]
    assert leader.closed == 1


async def test_after_its_close_no_connection_is_open(cluster: Cluster) -> None:
    there = cluster.lead(partition(0), OTHER)
    await cluster.send(there)

    cluster.sender.close()

    assert cluster.leaders[OTHER].closed == 1
