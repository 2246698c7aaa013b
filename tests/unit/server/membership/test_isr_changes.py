"""ISRs from a follower's fetch to the tree and back: what producers, leaders and the controller
make of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from kbroker.errors import ErrorCode
from tests.fakes.controller_cluster import running
from tests.fakes.forwarding_cluster import afterwards, cut, hang
from tests.fakes.isr_cluster import LAG_MS, T0, TOPIC, IsrBroker, IsrCluster

pytestmark = pytest.mark.virtual_time
LEADER = 1


@pytest.fixture
async def cluster() -> AsyncIterator[IsrCluster]:
    """Broker 1 leads t-0, which 2 and 0 follow; 0 is controller."""
    async with running(IsrCluster(), brokers=3) as cluster:
        await cluster.create_topic()
        yield cluster


@pytest.fixture
def leader(cluster: IsrCluster) -> IsrBroker:
    return cluster.broker(LEADER)


async def lose(cluster: IsrCluster, *stay: int, leader: IsrBroker | None = None) -> None:
    """Only `stay` go on fetching while the others lag."""
    leader = leader or cluster.broker(LEADER)
    await leader.produce(acks=1)
    for _ in range(2):
        await asyncio.sleep(LAG_MS / 1000)
        for follower in stay:
            await leader.fetch_as(follower)
    leader.replicas.maybe_shrink_isr()
    await cluster.settle()


async def test_a_follower_that_lags_leaves_the_isr_and_one_that_catches_up_joins_it(
    cluster: IsrCluster, leader: IsrBroker
) -> None:
    assert cluster.isr_in_tree() == '"isr":[1,2,0]'

    await lose(cluster, 0)
    assert (leader.partition.state.isr, cluster.isr_in_tree()) == ((1, 0), '"isr":[1,0]')
    await leader.fetch_as(2)
    await cluster.settle()

    assert (leader.partition.state.isr, cluster.isr_in_tree()) == ((1, 0, 2), '"isr":[1,0,2]')
    assert leader.partition.state.pending_isr is None


async def test_acks_all_waits_for_all_that_are_in_sync(leader: IsrBroker) -> None:
    answer = await leader.begin_produce()
    await leader.fetch_as(2, 0)
    await leader.fetch_as(0, 1)
    early = answer.done()

    await leader.fetch_as(2, 1)

    assert not early
    assert await answer == ErrorCode.NONE


async def test_an_isr_that_shrinks_ends_the_wait_for_who_has_left(
    cluster: IsrCluster, leader: IsrBroker
) -> None:
    answer = await leader.begin_produce()

    await lose(cluster, 0)

    assert await answer == ErrorCode.NONE


async def test_below_min_insync_replicas_acks_all_is_refused(
    cluster: IsrCluster, leader: IsrBroker
) -> None:
    leader.logs.logs[T0].config.min_insync_replicas = 2
    await lose(cluster)
    before = leader.partition.log_end_offset

    refused = await leader.produce()

    assert (refused, leader.partition.log_end_offset) == (ErrorCode.NOT_ENOUGH_REPLICAS, before)
    assert await leader.produce(acks=1) == ErrorCode.NONE
    await leader.fetch_as(2)
    await cluster.settle()
    answer = await leader.begin_produce()
    await leader.fetch_as(2)
    assert await answer == ErrorCode.NONE


async def test_an_append_that_loses_its_replicas_is_not_confirmed(
    cluster: IsrCluster, leader: IsrBroker
) -> None:
    leader.logs.logs[T0].config.min_insync_replicas = 3
    answer = await leader.begin_produce()
    await leader.fetch_as(0)

    await lose(cluster, 0)
    assert leader.partition.state.isr == (1, 0)
    assert (leader.partition.high_watermark, answer.done()) == (0, False)  # it stands still

    # The follower joins again: only now are there enough that have it.
    await leader.fetch_as(2)
    await leader.fetch_as(0)
    await cluster.settle()

    assert await answer == ErrorCode.NONE


async def test_records_whose_isr_is_too_small_when_all_have_them_are_told_so(
    cluster: IsrCluster, leader: IsrBroker
) -> None:
    answer = await leader.begin_produce()
    await leader.fetch_as(0)
    leader.logs.logs[T0].config.min_insync_replicas = 3
    await lose(cluster, 0)
    leader.partition.log.update_high_watermark(1)

    leader.replicas.waiting.wake(T0)

    assert await answer == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


@pytest.mark.parametrize("fault", [cut, afterwards(cut), hang])
async def test_a_question_that_gets_no_answer_is_asked_again(
    cluster: IsrCluster, leader: IsrBroker, fault
) -> None:
    cluster.faults.append(fault)

    await lose(cluster, 0)
    await asyncio.sleep(30)

    assert (leader.partition.state.isr, cluster.isr_in_tree()) == ((1, 0), '"isr":[1,0]')
    assert cluster.asked.count((LEADER, 0, "AlterPartitionRequest")) == 2


async def test_the_next_controller_is_asked_when_the_first_one_dies(
    cluster: IsrCluster, leader: IsrBroker
) -> None:
    cluster.faults.append(hang)
    await lose(cluster, 0)
    assert cluster.isr_in_tree() == '"isr":[1,2,0]'

    cluster.broker(0).kill()
    await cluster.settle()
    await asyncio.sleep(30)

    assert cluster.controller.broker_id != 0
    assert leader.partition.state.pending_isr is None
    assert 0 not in leader.partition.state.isr
    assert cluster.isr_in_tree() == '"isr":' + str(list(leader.partition.state.isr)).replace(
        " ", ""
    )


async def test_a_leader_that_is_controller_asks_itself() -> None:
    async with running(IsrCluster(), brokers=3) as cluster:
        await cluster.create_topic((0, 1, 2))
        leader = cluster.broker(0)

        await lose(cluster, 2, leader=leader)

        assert (leader.partition.state.isr, cluster.isr_in_tree()) == ((0, 2), '"isr":[0,2]')
        assert cluster.asked == []


async def test_a_proposal_of_an_earlier_leader_epoch_changes_nothing(
    cluster: IsrCluster, leader: IsrBroker
) -> None:
    cluster.faults.append(hang)
    await lose(cluster, 0)
    assert leader.partition.state.pending_isr == (1, 0)

    # The controller decides first: broker 2 is gone.
    cluster.broker(2).kill()
    await cluster.settle()
    await asyncio.sleep(30)

    state = leader.partition.state
    assert (state.isr, state.pending_isr, state.leader_epoch) == ((1, 0), None, 1)
    assert cluster.isr_in_tree() == '"isr":[1,0]'


async def test_a_follower_of_an_earlier_life_does_not_join(
    cluster: IsrCluster, leader: IsrBroker
) -> None:
    await lose(cluster, 0)
    old = cluster.broker(2).broker_epoch
    partition = leader.partition
    partition.follower_fetched(2, partition.log_end_offset, 0, 0, replica_epoch=old - 1)
    await cluster.settle()
    assert (partition.state.isr, partition.state.pending_isr) == ((1, 0), None)

    await leader.fetch_as(2)
    await cluster.settle()

    assert partition.state.isr == (1, 0, 2)


async def test_a_broker_about_to_stop_does_not_join(cluster: IsrCluster, leader: IsrBroker) -> None:
    await lose(cluster, 0)
    await cluster.controller.controller.controlled_shutdown(2)
    await cluster.settle()

    await leader.fetch_as(2)
    await cluster.settle()

    assert (leader.partition.state.isr, leader.partition.state.pending_isr) == ((1, 0), None)


async def test_an_unclean_leader_ends_the_recovery_with_the_first_isr_it_asks_for(
    cluster: IsrCluster, leader: IsrBroker
) -> None:
    """Kafka's leaders do not recover anything, and say so with their next ISR (KIP-704)."""
    cluster.unclean_by_default = True
    await lose(cluster)
    assert cluster.isr_in_tree() == '"isr":[1]'
    leader.kill()
    await cluster.settle()
    await asyncio.sleep(1)
    (recovering,) = cluster.state()
    new = next(
        cluster.broker(i) for i in sorted(cluster.brokers) if cluster.broker(i).partition.is_leader
    )

    follower = next(i for i in cluster.brokers if i != new.broker_id)
    await new.fetch_as(follower)
    await cluster.settle()

    (recovered,) = cluster.state()
    assert '"leader_recovery_state":1' in recovering
    assert "leader_recovery_state" not in recovered
    assert set(new.partition.state.isr) == {new.broker_id, follower}


async def test_a_topic_that_is_deleted_meanwhile_is_asked_about_no_more(
    cluster: IsrCluster, leader: IsrBroker
) -> None:
    cluster.faults.extend([hang, hang])
    await lose(cluster, 0)
    await cluster.controller.zk.create_delete_topics([TOPIC])
    await cluster.settle()
    await asyncio.sleep(60)
    asked = len(cluster.asked)

    await asyncio.sleep(60)

    assert leader.replicas.hosted.find(T0) is None
    assert len(cluster.asked) == asked
