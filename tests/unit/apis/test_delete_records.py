from __future__ import annotations

import asyncio

import pytest

from kbroker.apis.delete_records import handle
from kbroker.errors import ErrorCode, KafkaError, ProtocolError
from kbroker.model import TopicPartition
from kbroker.protocol.messages.delete_records import DeleteRecordsRequest
from kbroker.turns import ENTRIES
from tests.fakes.clusters.replication_cluster import (
    partition_metadata,
    stop_replica,
    update_metadata,
)

TWO = {"isr": (0, 1), "replicas": (0, 1)}


def ask(*wanted, timeout_ms=1000):
    """`wanted` are (topic, partition, offset)."""
    return DeleteRecordsRequest(
        topics=[
            DeleteRecordsRequest.DeleteRecordsTopic(
                name=topic,
                partitions=[
                    DeleteRecordsRequest.DeleteRecordsPartition(
                        partition_index=partition, offset=offset
                    )
                ],
            )
            for topic, partition, offset in wanted
        ],
        timeout_ms=timeout_ms,
    )


def answers(response):
    return [
        (topic.name, partition.partition_index, partition.error_code, partition.low_watermark)
        for topic in response.topics
        for partition in topic.partitions
    ]


@pytest.fixture
def filled(cluster):
    """Fifteen records, all committed."""
    partition = cluster.lead("t")
    cluster.append(partition, *[b"v"] * 15)
    return partition


@pytest.fixture
def replicated(cluster):
    """Fifteen records on two replicas, all committed; the follower's log starts at 0."""
    partition = cluster.lead("t", **TWO)
    cluster.append(partition, *[b"v"] * 15)
    follower_at(cluster, partition, 0)
    assert partition.high_watermark == 15
    return partition


def follower_at(cluster, partition, log_start_offset):
    """The follower has everything, and its log starts there."""
    partition.follower_fetched(1, 15, log_start_offset, cluster.time.now_ms())
    cluster.replicas.waiting.deletions.check_and_complete(partition.topic_partition)


def start(cluster, call, request):
    """The request under way: it has run as far as it gets by itself."""
    task = cluster.loop.create_task(call.start(handle, request, 2))
    cluster.run_callbacks()
    cluster.run_callbacks()
    return task


def end(cluster, task):
    return answers(cluster.loop.run_until_complete(asyncio.wait_for(task, 5)))


def test_a_request_that_waits_for_replicas_ends_with_its_connection(cluster, replicated, call):
    task = start(cluster, call, ask(("t", 0, 6), timeout_ms=2_000_000_000))
    assert len(cluster.replicas.waiting.deletions) == 1

    call.connection.close()
    with pytest.raises(ProtocolError):
        end(cluster, task)

    assert len(cluster.replicas.waiting.deletions) == 0
    assert replicated.log_start_offset == 6


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (6, (0, 6)),
        (-1, (0, 15)),
        (15, (0, 15)),
        (0, (0, 0)),
        (16, (1, -1)),
        (-2, (1, -1)),
    ],
)
def test_the_low_watermark_or_a_refusal_comes_back(filled, call, offset, expected):
    (answer,) = answers(call(handle, ask(("t", 0, offset)), 1))

    assert answer == ("t", 0, *expected)


def test_an_offset_below_the_log_start_changes_nothing(filled, call):
    call(handle, ask(("t", 0, 6)), 1)

    assert answers(call(handle, ask(("t", 0, 3)), 1)) == [("t", 0, 0, 6)]
    assert filled.log_start_offset == 6


@pytest.mark.parametrize(
    ("compacted", "deleted", "expected"), [(True, False, 44), (True, True, 0), (False, True, 0)]
)
def test_a_topic_that_is_only_compacted_refuses(filled, call, compacted, deleted, expected):
    filled.log.config.is_compacted, filled.log.config.is_deleted = compacted, deleted

    assert answers(call(handle, ask(("t", 0, 5)), 1))[0][2] == expected


def test_every_partition_has_its_own_answer(cluster, filled, call):
    cluster.hear_of("elsewhere", leader=1, replicas=(1,), isr=(1,))
    cluster.lead("followed", leader=1, **TWO)
    cluster.lead("__consumer_offsets")
    failing = cluster.lead("failing")
    failing.log.fail_with = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
    names = ["t", "missing", "elsewhere", "followed", "__consumer_offsets", "failing"]

    response = call(handle, ask(*[(name, 0, 1 if name == "t" else 0) for name in names]), 2)

    assert answers(response) == [
        ("t", 0, ErrorCode.NONE, 1),
        ("missing", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
        ("elsewhere", 0, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1),
        ("followed", 0, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1),
        ("__consumer_offsets", 0, ErrorCode.INVALID_TOPIC_EXCEPTION, -1),
        ("failing", 0, ErrorCode.KAFKA_STORAGE_ERROR, -1),
    ]


def test_a_partition_named_twice_is_answered_once(filled, call):
    assert answers(call(handle, ask(("t", 0, 9), ("t", 0, 4)), 2)) == [("t", 0, 0, 4)]


def test_others_are_answered_while_records_of_many_partitions_are_deleted(filled, call):
    count = 8 * 1024
    names = [("t", 0, 9), *(("missing", number, 0) for number in range(1, count))]

    response, turns = call.counting_turns(handle, ask(*names), 2)

    assert answers(response) == [
        ("t", 0, ErrorCode.NONE, 9),
        *(
            ("missing", number, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
            for _, number, _ in names[1:]
        ),
    ]
    assert turns >= 2 * count // ENTRIES


def test_nothing_asked_for_is_nothing_answered(filled, call):
    assert answers(call(handle, ask(), 2)) == []


def test_the_answer_waits_until_the_new_start_is_written_down(cluster, filled, call):
    writes = cluster.log_manager.waiting_writes = []

    task = start(cluster, call, ask(("t", 0, 6)))
    was_done = task.done()
    writes.pop()()

    assert not was_done
    assert end(cluster, task) == [("t", 0, 0, 6)]
    assert cluster.log_manager.checkpointed_starts == {TopicPartition("t", 0): 6}


def test_a_refused_request_writes_nothing(cluster, filled, call):
    cluster.log_manager.waiting_writes = []

    assert answers(call(handle, ask(("t", 0, 99)), 2)) == [("t", 0, 1, -1)]
    assert cluster.log_manager.waiting_writes == []


def test_a_partition_whose_disk_fails_while_it_is_written_answers_so(cluster, filled, call):
    writes = cluster.log_manager.waiting_writes = []

    task = start(cluster, call, ask(("t", 0, 6)))
    cluster.replicas.leadership.partitions_offline([TopicPartition("t", 0)])
    writes.pop()()

    assert end(cluster, task) == [("t", 0, ErrorCode.KAFKA_STORAGE_ERROR, -1)]


def test_the_answer_waits_for_the_follower(cluster, replicated, call):
    task = start(cluster, call, ask(("t", 0, 6)))
    follower_at(cluster, replicated, 5)
    cluster.run_callbacks()
    was_done = task.done()
    follower_at(cluster, replicated, 6)

    assert not was_done
    assert end(cluster, task) == [("t", 0, 0, 6)]


def test_the_time_runs_out_while_a_follower_is_behind(cluster, replicated, call):
    task = start(cluster, call, ask(("t", 0, 6), timeout_ms=500))
    follower_at(cluster, replicated, 4)
    cluster.time.advance(499)
    cluster.run_callbacks()
    was_done = task.done()
    cluster.time.advance(1)

    assert not was_done
    assert end(cluster, task) == [("t", 0, ErrorCode.REQUEST_TIMED_OUT, 4)]
    assert replicated.log_start_offset == 6


def test_a_follower_on_a_dead_broker_is_not_waited_for(cluster, replicated, call):
    state = partition_metadata(isr=(0,), replicas=(0, 1))
    cluster.metadata.update(update_metadata(("t", state), brokers=(0,)))

    assert end(cluster, start(cluster, call, ask(("t", 0, 6)))) == [("t", 0, 0, 6)]


def test_losing_the_leadership_ends_the_wait(cluster, replicated, call):
    task = start(cluster, call, ask(("t", 0, 6)))
    cluster.lead("t", leader=1, leader_epoch=1, **TWO)

    assert end(cluster, task) == [("t", 0, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]


def test_losing_the_partition_ends_the_wait(cluster, replicated, call):
    task = start(cluster, call, ask(("t", 0, 6)))
    cluster.replicas.leadership.stop_replicas(stop_replica("t"))

    assert end(cluster, task)[0][3] == -1
    assert end(cluster, task)[0][2] != ErrorCode.NONE


def test_a_stop_of_the_broker_ends_the_wait(cluster, replicated, call):
    task = start(cluster, call, ask(("t", 0, 6)))
    cluster.replicas.shutdown()

    assert end(cluster, task) == [("t", 0, ErrorCode.REQUEST_TIMED_OUT, 0)]


def test_a_client_that_has_gone_leaves_nothing_behind(cluster, replicated, call):
    task = start(cluster, call, ask(("t", 0, 6)))
    task.cancel()
    cluster.run_callbacks()
    cluster.run_callbacks()

    assert len(cluster.replicas.waiting.deletions) == 0
