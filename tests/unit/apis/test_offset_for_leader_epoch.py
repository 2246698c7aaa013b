from __future__ import annotations

import pytest

from kbroker.apis.offset_for_leader_epoch import handle
from kbroker.errors import ErrorCode
from kbroker.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from kbroker.replication.reads.offset_lookup import ANY_REPLICA_ID
from kbroker.turns import ENTRIES
from tests.fakes.clusters.replication_cluster import batch


def ask(call, epoch, *, current=-1, topic="t", replica_id=-2):
    partition = OffsetForLeaderEpochRequest.OffsetForLeaderPartition(
        partition=0, current_leader_epoch=current, leader_epoch=epoch
    )
    request = OffsetForLeaderEpochRequest(
        replica_id=replica_id,
        topics=[
            OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic=topic, partitions=[partition])
        ],
    )
    (answer,) = call(handle, request, 4).topics[0].partitions
    return answer.error_code, answer.leader_epoch, answer.end_offset


@pytest.fixture
def led(cluster):
    """Three records of epoch 0, two of epoch 4."""
    for epoch, count in ((0, 3), (4, 2)):
        partition = cluster.lead("t", leader_epoch=epoch)
        cluster.replicas.appends.append_records(
            [(partition.topic_partition, batch(*[b"v"] * count))], 1, 1
        )


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [(0, (0, 0, 3)), (2, (0, 0, 3)), (4, (0, 4, 5)), (7, (0, -1, -1)), (-1, (0, -1, -1))],
)
def test_the_end_of_an_epoch_is_where_the_next_one_began(led, call, epoch, expected):
    assert ask(call, epoch) == expected


@pytest.mark.parametrize(
    ("current", "error"),
    [(0, ErrorCode.FENCED_LEADER_EPOCH), (5, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_another_epoch_than_the_leaders_is_refused(led, call, current, error):
    assert ask(call, 0, current=current) == (error, -1, -1)


def test_any_replica_tells_where_its_log_ends(led, call, cluster):
    assert ask(call, -1, replica_id=ANY_REPLICA_ID) == (0, 4, 5)

    cluster.lead("t", leader=1, leader_epoch=7, isr=(0, 1), replicas=(0, 1))

    assert ask(call, 4) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, -1)
    assert ask(call, -1, replica_id=ANY_REPLICA_ID) == (0, 4, 5)
    assert ask(call, -1, topic="unknown", replica_id=ANY_REPLICA_ID)[0] != ErrorCode.NONE


def test_an_unknown_partition_is_told(led, call):
    assert ask(call, 0, topic="unknown") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)


def test_others_are_answered_while_one_topic_is_asked_for_many_partitions(led, call):
    count = 8 * ENTRIES
    partitions = [
        OffsetForLeaderEpochRequest.OffsetForLeaderPartition(partition=index, leader_epoch=0)
        for index in range(count)
    ]
    topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic="t", partitions=partitions)

    response, turns = call.counting_turns(handle, OffsetForLeaderEpochRequest(topics=[topic]), 4)

    (answer,) = response.topics
    assert answer.topic == "t"
    found = [(p.partition, p.error_code, p.end_offset) for p in answer.partitions]
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert found == [(0, 0, 3), *((index, missing, -1) for index in range(1, count))]
    assert turns >= 8
