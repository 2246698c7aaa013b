"""AlterPartition: a leader asks for another ISR, and hears what the controller has made of it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from kbroker.errors import ErrorCode
from kbroker.model import ZERO_UUID, LeaderAndIsr, ReplicaAssignment, TopicPartition
from kbroker.protocol.messages.alter_partition import AlterPartitionRequest
from kbroker.zk.zk_paths import TopicAssignment
from tests.fakes.clusters.forwarding_cluster import ForwardingCluster
from tests.fakes.trees.topic_nodes import create_topic

VERSIONS = range(4)
LEADER, FOLLOWERS = 1, (2, 0)
TOPIC_ID = UUID(int=7)
FIRST_WITH_IDS, FIRST_WITH_EPOCHS = 2, 3
pytestmark = pytest.mark.virtual_time


@pytest.fixture
async def cluster(forwarding_cluster: ForwardingCluster) -> ForwardingCluster:
    """Three brokers, 0 is controller, 1 leads two partitions with all in sync."""
    replicas = ReplicaAssignment(replicas=(LEADER, *FOLLOWERS))
    topic = TopicAssignment(topic_id=TOPIC_ID, partitions={0: replicas, 1: replicas})
    await create_topic(forwarding_cluster.controller.zk, "t", topic)
    await forwarding_cluster.settle()
    return forwarding_cluster


def current(cluster: ForwardingCluster, partition: int = 0) -> LeaderAndIsr:
    context = cluster.controller.controller.context
    assert context is not None
    return context.leadership[TopicPartition("t", partition)].leader_and_isr


def asked(
    cluster: ForwardingCluster,
    isr: tuple[int, ...],
    partition: int = 0,
    epochs: dict[int, int] | None = None,
    **fields: int,
) -> AlterPartitionRequest.PartitionData:
    known = current(cluster, partition)
    return AlterPartitionRequest.PartitionData(
        partition_index=partition,
        leader_epoch=known.leader_epoch,
        new_isr=list(isr),
        new_isr_with_epochs=[
            AlterPartitionRequest.BrokerState(
                broker_id=broker_id,
                broker_epoch=(epochs or {}).get(broker_id, cluster.broker(broker_id).broker_epoch),
            )
            for broker_id in isr
        ],
        partition_epoch=fields.get("partition_epoch", known.partition_epoch),
    )


async def alter(
    cluster: ForwardingCluster,
    version: int,
    *partitions: AlterPartitionRequest.PartitionData,
    topic: str = "t",
    topic_id: UUID = TOPIC_ID,
    broker_epoch: int | None = None,
    whom: int = 0,
) -> Any:
    epoch = cluster.broker(LEADER).broker_epoch if broker_epoch is None else broker_epoch
    has_ids = version >= FIRST_WITH_IDS
    request = AlterPartitionRequest(
        broker_id=LEADER,
        broker_epoch=epoch,
        topics=[
            AlterPartitionRequest.TopicData(
                topic_name="" if has_ids else topic,
                topic_id=topic_id if has_ids else ZERO_UUID,
                partitions=list(partitions),
            )
        ],
    )
    return await cluster.broker(whom).ask(request, version)


def outcomes(answer: Any) -> list[tuple[int, ErrorCode, list[int], int]]:
    return [
        (p.partition_index, p.error_code, p.isr, p.partition_epoch)
        for topic in answer.topics
        for p in topic.partitions
    ]


@pytest.mark.parametrize("version", VERSIONS)
async def test_an_isr_is_written_and_answered_with_its_epochs(
    version: int, cluster: ForwardingCluster
) -> None:
    answer = await alter(cluster, version, asked(cluster, (1, 2)), asked(cluster, (1,), 1))

    assert answer.error_code == ErrorCode.NONE
    assert outcomes(answer) == [(0, ErrorCode.NONE, [1, 2], 1), (1, ErrorCode.NONE, [1], 1)]
    assert (current(cluster).isr, current(cluster, 1).isr) == ((1, 2), (1,))
    named = (answer.topics[0].topic_name, answer.topics[0].topic_id)
    assert named == (("", TOPIC_ID) if version >= FIRST_WITH_IDS else ("t", ZERO_UUID))


@pytest.mark.parametrize("version", VERSIONS)
async def test_one_refusal_does_not_spoil_the_others(
    version: int, cluster: ForwardingCluster
) -> None:
    stale = asked(cluster, (1,), 0, partition_epoch=-1)

    answer = await alter(cluster, version, stale, asked(cluster, (1,), 1))

    assert [o[1] for o in outcomes(answer)] == [ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.NONE]
    assert (current(cluster).isr, current(cluster, 1).isr) == ((1, 2, 0), (1,))


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_topic_that_is_not_there_is_refused(
    version: int, cluster: ForwardingCluster
) -> None:
    wanted = asked(cluster, (1,))

    answer = await alter(cluster, version, wanted, topic="no-such", topic_id=UUID(int=8))

    by_id = version >= FIRST_WITH_IDS
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [o[1] for o in outcomes(answer)] == [unknown]


@pytest.mark.parametrize("version", VERSIONS)
async def test_only_the_controller_answers(version: int, cluster: ForwardingCluster) -> None:
    answer = await alter(cluster, version, asked(cluster, (1,)), whom=2)

    assert (answer.error_code, answer.topics) == (ErrorCode.NOT_CONTROLLER, [])
    assert current(cluster).isr == (1, 2, 0)


@pytest.mark.parametrize("version", VERSIONS)
async def test_an_earlier_life_of_the_leader_changes_nothing(
    version: int, cluster: ForwardingCluster
) -> None:
    answer = await alter(cluster, version, asked(cluster, (1,)), broker_epoch=0)

    assert (answer.error_code, answer.topics) == (ErrorCode.STALE_BROKER_EPOCH, [])
    assert current(cluster).isr == (1, 2, 0)


async def test_a_replica_that_was_seen_in_an_earlier_life_does_not_join(
    cluster: ForwardingCluster,
) -> None:
    version = FIRST_WITH_EPOCHS
    await alter(cluster, version, asked(cluster, (1,)), asked(cluster, (1,), 1))
    old_life = asked(cluster, (1, 2), 0, epochs={2: cluster.broker(2).broker_epoch - 1})

    # The other partition has seen the present life of the same broker.
    answer = await alter(cluster, version, old_life, asked(cluster, (1, 2), 1))

    assert [o[1] for o in outcomes(answer)] == [ErrorCode.INELIGIBLE_REPLICA, ErrorCode.NONE]
    assert (current(cluster).isr, current(cluster, 1).isr) == ((1,), (1, 2))


async def test_a_replica_whose_life_is_not_known_joins(cluster: ForwardingCluster) -> None:
    await alter(cluster, FIRST_WITH_EPOCHS, asked(cluster, (1,)))

    answer = await alter(cluster, FIRST_WITH_EPOCHS, asked(cluster, (1, 2), epochs={2: -1, 1: -1}))

    assert outcomes(answer) == [(0, ErrorCode.NONE, [1, 2], 2)]


async def test_a_topic_that_is_found_while_others_are_decided_on_is_asked_for_again(
    cluster: ForwardingCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = asked(cluster, (1,))
    context = cluster.controller.controller.context
    assert context is not None
    looks = iter(({}, {TOPIC_ID: "t"}))
    monkeypatch.setattr(context, "topic_names", lambda ids: next(looks))

    answer = await alter(cluster, FIRST_WITH_IDS, wanted)

    assert [o[1] for o in outcomes(answer)] == [ErrorCode.OPERATION_NOT_ATTEMPTED]
