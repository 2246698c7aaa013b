"""ISRs between a real leader and a real controller, with followers that are played by fetches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from uuid import UUID

import pytest

from kbroker.errors import ErrorCode
from kbroker.model import RECOVERED, RECOVERING, ReplicaAssignment, TopicPartition
from kbroker.zk.zk_paths import TopicAssignment, partition_state_path
from tests.fakes.clusters.controller_cluster import running
from tests.fakes.clusters.forwarding_cluster import afterwards, cut, hang
from tests.fakes.clusters.replicating_cluster import ReplicatingBroker, ReplicatingCluster
from tests.fakes.trees.topic_nodes import create_topic

pytestmark = pytest.mark.virtual_time
T = TopicPartition("t", 0)
LEADER, FOLLOWER, OTHER = 1, 2, 0
LAG_S = 30


@pytest.fixture
async def cluster() -> AsyncIterator[ReplicatingCluster]:
    """Three brokers, 0 is controller, 1 leads a partition with all in sync."""
    async with running(ReplicatingCluster(), brokers=3) as cluster:
        replicas = ReplicaAssignment(replicas=(LEADER, FOLLOWER, OTHER))
        topic = TopicAssignment(topic_id=UUID(int=7), partitions={0: replicas})
        await create_topic(cluster.controller.zk, "t", topic)
        await cluster.settle()
        yield cluster


def leader(cluster: ReplicatingCluster) -> ReplicatingBroker:
    return cluster.broker(LEADER)


def fetch(cluster: ReplicatingCluster, replica_id: int, offset: int) -> None:
    epoch = cluster.broker(replica_id).broker_epoch
    leader(cluster).hear_fetch(T, offset, replica_id, epoch)


def isrs(cluster: ReplicatingCluster) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """As the leader and as the controller have it."""
    context = cluster.controller.controller.context
    assert context is not None
    return leader(cluster).partition(T).state.isr, context.leadership[T].leader_and_isr.isr


async def lag(cluster: ReplicatingCluster) -> None:
    """Let all followers lag that have not all records."""
    await asyncio.sleep(LAG_S + 1)
    leader(cluster).replicas.maybe_shrink_isr()
    await cluster.settle()


async def shrunk(cluster: ReplicatingCluster, *kept: int) -> None:
    """One record, which of the followers only `kept` fetch."""
    leader(cluster).append(T, 1)
    for replica_id in kept:
        fetch(cluster, replica_id, leader(cluster).partition(T).log_end_offset)
    await lag(cluster)


async def test_a_follower_that_lags_leaves_and_joins_when_it_has_all(
    cluster: ReplicatingCluster,
) -> None:
    await shrunk(cluster, OTHER)
    assert isrs(cluster) == ((LEADER, OTHER), (LEADER, OTHER))

    fetch(cluster, FOLLOWER, 1)
    await cluster.settle()

    assert {*isrs(cluster)} == {(LEADER, OTHER, FOLLOWER)}


async def test_acks_all_waits_for_a_follower_until_it_leaves(cluster: ReplicatingCluster) -> None:
    answer = asyncio.ensure_future(leader(cluster).append(T, -1))
    fetch(cluster, OTHER, 1)
    await cluster.settle()
    assert not answer.done()

    await lag(cluster)

    assert [r.error_code for r in await answer] == [ErrorCode.NONE]
    assert {*isrs(cluster)} == {(LEADER, OTHER)}


async def test_lost_answers_are_asked_for_again(cluster: ReplicatingCluster) -> None:
    cluster.faults.extend([cut, afterwards(cut), hang, hang])
    await shrunk(cluster, OTHER)
    await asyncio.sleep(30)

    assert not cluster.faults
    assert {*isrs(cluster)} == {(LEADER, OTHER)}


async def test_a_controller_that_dies_while_it_is_asked_is_followed_by_another(
    cluster: ReplicatingCluster,
) -> None:
    def die(_request: object) -> None:
        cluster.brokers[0].kill()
        raise ConnectionResetError

    cluster.faults.append(die)
    await shrunk(cluster, OTHER)  # the next controller takes OTHER out, at a new leader epoch
    await asyncio.sleep(5)
    assert {*isrs(cluster)} == {(LEADER, FOLLOWER)}

    await shrunk(cluster)

    assert cluster.controller.broker_id != 0
    assert {*isrs(cluster)} == {(LEADER,)}


async def test_a_leader_learns_from_the_tree_which_isr_a_controller_wrote_before_it_ended(
    cluster: ReplicatingCluster,
) -> None:
    """The leader was told something else since, and goes on from the version before it."""
    path = partition_state_path(*T)
    controller = cluster.controller
    data, stat = await controller.session.get(path)
    await controller.session.set(path, data.replace(b"[1,2,0]", b"[1,0]"), stat.version)

    await shrunk(cluster, FOLLOWER)

    state = leader(cluster).partition(T).state
    assert (state.isr, state.pending_isr) == ((LEADER, OTHER), None)
    assert state.partition_epoch == stat.version + 1


async def test_a_proposal_from_before_a_new_leader_epoch_changes_nothing(
    cluster: ReplicatingCluster,
) -> None:
    may_go_on = asyncio.Event()
    cluster.faults.append(lambda _request: may_go_on.wait())
    await shrunk(cluster, FOLLOWER)
    assert leader(cluster).partition(T).state.pending_isr == (LEADER, FOLLOWER)

    cluster.brokers[FOLLOWER].kill()
    await cluster.settle()
    may_go_on.set()
    await cluster.settle()

    state = leader(cluster).partition(T).state
    assert (state.leader_epoch, state.pending_isr) == (1, None)
    assert {*isrs(cluster)} == {(LEADER, OTHER)}


async def test_below_min_isr_nothing_is_appended_for_acks_all_until_a_follower_joins(
    cluster: ReplicatingCluster,
) -> None:
    partition = leader(cluster).partition(T)
    partition.log.config.min_insync_replicas = 2
    await shrunk(cluster)
    (refused,) = leader(cluster).append(T, -1)
    assert (refused.error_code, partition.log_end_offset) == (ErrorCode.NOT_ENOUGH_REPLICAS, 1)

    fetch(cluster, FOLLOWER, 1)
    await cluster.settle()
    answer = asyncio.ensure_future(leader(cluster).append(T, -1))
    fetch(cluster, FOLLOWER, 2)
    (taken,) = await answer

    assert (taken.error_code, partition.high_watermark) == (ErrorCode.NONE, 2)


async def test_a_follower_of_an_earlier_life_does_not_join(cluster: ReplicatingCluster) -> None:
    await shrunk(cluster, OTHER)
    epoch = cluster.broker(FOLLOWER).broker_epoch

    leader(cluster).hear_fetch(T, 1, FOLLOWER, epoch - 1)
    await cluster.settle()

    assert leader(cluster).partition(T).state.pending_isr is None
    assert {*isrs(cluster)} == {(LEADER, OTHER)}


async def test_the_first_isr_of_a_leader_ends_its_recovery(cluster: ReplicatingCluster) -> None:
    context = cluster.controller.controller.context
    assert context is not None
    known = context.leadership[T]
    state = replace(known.leader_and_isr, leader_recovery_state=RECOVERING)
    context.leadership[T] = replace(known, leader_and_isr=state)

    await shrunk(cluster, OTHER)

    assert {*isrs(cluster)} == {(LEADER, OTHER)}
    assert context.leadership[T].leader_and_isr.leader_recovery_state == RECOVERED


async def test_below_min_isr_what_was_appended_is_not_committed_until_a_follower_joins(
    cluster: ReplicatingCluster,
) -> None:
    partition = leader(cluster).partition(T)
    partition.log.config.min_insync_replicas = 3
    answer = asyncio.ensure_future(leader(cluster).append(T, -1, 600_000))
    fetch(cluster, OTHER, 1)
    await lag(cluster)
    assert {*isrs(cluster)} == {(LEADER, OTHER)}
    assert (partition.high_watermark, answer.done()) == (0, False)

    fetch(cluster, FOLLOWER, 1)
    await cluster.settle()

    (taken,) = await answer
    assert (taken.error_code, partition.high_watermark) == (ErrorCode.NONE, 1)


async def test_records_that_all_have_when_they_are_too_few_are_told_so(
    cluster: ReplicatingCluster,
) -> None:
    partition = leader(cluster).partition(T)
    answer = asyncio.ensure_future(leader(cluster).append(T, -1))
    fetch(cluster, OTHER, 1)
    partition.log.update_high_watermark(1)
    partition.log.config.min_insync_replicas = 3

    await lag(cluster)

    (told,) = await answer
    assert told.error_code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


async def test_a_broker_about_to_stop_does_not_join(cluster: ReplicatingCluster) -> None:
    await shrunk(cluster, OTHER)
    await cluster.controller.controller.controlled_shutdown(FOLLOWER)
    await cluster.settle()

    fetch(cluster, FOLLOWER, 1)
    await cluster.settle()

    assert leader(cluster).partition(T).state.pending_isr is None
    assert {*isrs(cluster)} == {(LEADER, OTHER)}


async def test_a_leader_that_is_controller_asks_itself(cluster: ReplicatingCluster) -> None:
    replicas = ReplicaAssignment(replicas=(OTHER, LEADER))  # OTHER is controller
    topic = TopicAssignment(topic_id=UUID(int=8), partitions={0: replicas})
    await create_topic(cluster.controller.zk, "own", topic)
    await cluster.settle()
    partition = cluster.broker(OTHER).partition(TopicPartition("own", 0))
    cluster.broker(OTHER).append(partition.topic_partition, 1)
    await asyncio.sleep(LAG_S + 1)

    cluster.broker(OTHER).replicas.maybe_shrink_isr()
    await cluster.settle()

    assert (partition.state.isr, partition.state.pending_isr) == ((OTHER,), None)
    assert cluster.asked == []


async def test_a_topic_that_is_deleted_is_asked_about_no_more(cluster: ReplicatingCluster) -> None:
    cluster.faults.append(hang)
    await shrunk(cluster, OTHER)
    assert len(cluster.asked) == 1

    await cluster.controller.zk.create_delete_topics(["t"])
    await cluster.settle()
    await asyncio.sleep(60)

    assert leader(cluster).replicas.hosted.find(T) is None
    asked = len(cluster.asked)
    await asyncio.sleep(60)
    assert len(cluster.asked) == asked
