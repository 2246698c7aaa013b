"""What several replicas held in memory is on the disk before one of them is left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from kbroker.errors import ErrorCode
from kbroker.log.disk.file_system import StorageError
from kbroker.model import TopicPartition
from kbroker.replication.controller_requests.alter_partition_manager import (
    AlterPartitionManager,
    IsrAnswer,
)
from kbroker.replication.partitions.partition import Partition
from kbroker.replication.waiting.purgatories import running_loop_future
from kbroker.replication.writes.last_replica import FLUSH_TIMEOUT_MS
from kbroker.replication.writes.shared_flush import FlushPolicy
from tests.fakes.clusters.replication_cluster import ReplicationCluster

pytestmark = pytest.mark.virtual_time
T = TopicPartition("t", 0)


class Leader:
    """Broker 0 leads t-0, which broker 1 follows; syncs end when the test says so."""

    def __init__(self, policy: FlushPolicy) -> None:
        self.cluster = ReplicationCluster()
        self.syncs: list = []
        self.asked: list[tuple[int, ...]] = []
        replicas = self.cluster.replicas
        replicas.waiting.create_future = running_loop_future
        replicas.set_group_commit(policy, self.run_in_thread)
        last = replicas.last_replica
        self.manager = AlterPartitionManager(
            self.ask, replicas.isr_settled, lambda _id: True, last and last.is_flushed
        )
        replicas.leadership.isr_changes = self.manager
        self.manager.start()

    def run_in_thread(self, work):
        future = asyncio.get_running_loop().create_future()
        self.syncs.append((work, future))
        return future

    async def finish_sync(self) -> None:
        work, future = self.syncs.pop(0)
        work()
        future.set_result(None)
        await settle()
        self.cluster.time.advance(0)

    async def ask(self, proposals) -> IsrAnswer:
        self.asked.extend(p.wanted.isr for p in proposals.values())
        return IsrAnswer(ErrorCode.UNKNOWN_SERVER_ERROR, {})  # asked again, so that nothing settles

    def lead(self, isr=(0, 1), replicas=(0, 1), leader_epoch=0) -> Partition:
        return self.cluster.lead("t", isr=isr, replicas=replicas, leader_epoch=leader_epoch)

    def commit(self, partition: Partition) -> None:
        """Both replicas hold one record more, and its producer has heard so."""
        answer = self.cluster.append(partition, b"v", acks=-1)
        partition.follower_fetched(1, partition.log_end_offset, 0, self.cluster.time.now_ms())
        self.cluster.replicas.waiting.wake(T)
        assert answer.result()[0].error_code is ErrorCode.NONE

    async def lose_follower(self, partition: Partition) -> None:
        self.cluster.append(partition, b"v", acks=1)  # the follower never asks for it
        self.cluster.time.advance(30_001)
        self.cluster.replicas.maybe_shrink_isr()
        await settle()


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.fixture
def policy() -> FlushPolicy:
    return FlushPolicy.ACKS_ALL


@pytest.fixture
async def leader(policy: FlushPolicy) -> AsyncIterator[Leader]:
    leader = Leader(policy)
    yield leader
    await leader.manager.stop()
    leader.cluster.close()


async def test_what_was_acknowledged_is_synced_before_the_leader_asks_to_be_alone(
    leader: Leader,
) -> None:
    partition = leader.lead()
    leader.commit(partition)
    assert partition.log.offsets.recovery_point == 0

    await leader.lose_follower(partition)
    before = list(leader.asked)
    await leader.finish_sync()
    await settle()

    assert before == []
    assert leader.asked[:1] == [(0,)]
    assert partition.log.offsets.recovery_point >= 1


async def test_answers_wait_for_the_disk_from_the_moment_it_is_to_be_alone(leader: Leader) -> None:
    partition = leader.lead()
    leader.commit(partition)
    await leader.lose_follower(partition)
    await leader.finish_sync()

    # The state node may have the smaller ISR already, and the follower comes back now.
    answer = leader.cluster.append(partition, b"v", acks=-1)
    partition.follower_fetched(1, 3, 0, leader.cluster.time.now_ms())
    leader.cluster.replicas.waiting.wake(T)
    early = answer.done()
    await leader.finish_sync()

    assert partition.high_watermark == 3
    assert not early
    assert answer.result()[0].error_code is ErrorCode.NONE


async def test_what_is_synced_already_is_not_synced_again(leader: Leader) -> None:
    partition = leader.lead()
    leader.commit(partition)
    partition.log.flushes.complete(partition.log.flushes.begin())

    await leader.lose_follower(partition)

    assert leader.syncs == []
    assert leader.asked[:1] == [(0,)]


async def test_two_replicas_that_are_left_need_no_sync(leader: Leader) -> None:
    partition = leader.lead(isr=(0, 1, 2), replicas=(0, 1, 2))
    leader.cluster.append(partition, b"v", acks=1)
    leader.cluster.time.advance(20_000)
    partition.follower_fetched(2, 1, 0, leader.cluster.time.now_ms())
    leader.cluster.time.advance(10_001)

    leader.cluster.replicas.maybe_shrink_isr()
    await settle()

    assert leader.asked[:1] == [(0, 2)]
    assert leader.syncs == []


@pytest.mark.parametrize("policy", [FlushPolicy.NEVER])
async def test_where_answers_wait_for_no_disk_the_isr_does_not_either(leader: Leader) -> None:
    partition = leader.lead()
    leader.commit(partition)

    await leader.lose_follower(partition)

    assert leader.asked[:1] == [(0,)]
    assert leader.syncs == []


async def test_a_leader_whose_disk_fails_does_not_ask(leader: Leader) -> None:
    partition = leader.lead()
    leader.commit(partition)
    partition.log.sync_error = StorageError("/data", "fsync", 5)

    await leader.lose_follower(partition)
    await leader.finish_sync()
    await settle()

    assert leader.asked == []
    assert leader.cluster.replicas.hosted.is_offline(T)


async def test_a_leader_that_is_replaced_meanwhile_does_not_ask(leader: Leader) -> None:
    partition = leader.lead()
    leader.commit(partition)
    await leader.lose_follower(partition)

    leader.lead(leader_epoch=1)
    await leader.finish_sync()
    await settle()

    assert leader.asked == []
    assert partition.state.pending_isr is None


async def test_a_slow_disk_lets_the_isr_be_looked_at_again(leader: Leader) -> None:
    partition = leader.lead()
    leader.commit(partition)
    await leader.lose_follower(partition)

    leader.cluster.time.advance(FLUSH_TIMEOUT_MS)
    await settle()

    assert leader.asked == []
    assert (partition.state.isr, partition.state.pending_isr) == ((0, 1), None)


async def test_a_leader_that_the_controller_leaves_alone_syncs_at_once(leader: Leader) -> None:
    partition = leader.lead()
    leader.commit(partition)

    leader.lead(isr=(0,), leader_epoch=1)
    await leader.finish_sync()

    assert partition.log.offsets.recovery_point == 1


async def test_a_partition_with_one_replica_is_left_to_its_answers(leader: Leader) -> None:
    partition = leader.lead(isr=(0,), replicas=(0,))
    leader.cluster.append(partition, b"v", acks=1)

    leader.lead(isr=(0,), replicas=(0,), leader_epoch=1)

    assert leader.syncs == []
