from __future__ import annotations

import pytest

from kbroker.apis.list_offsets import handle
from kbroker.errors import ErrorCode
from kbroker.protocol.codec import encode
from kbroker.protocol.messages.list_offsets import ListOffsetsRequest
from kbroker.turns import ENTRIES
from tests.fakes.clusters.replication_cluster import batch

T = 1_000_000


def ask(*timestamps, topic="t", partition=0, isolation_level=0, replica_id=-1, **fields):
    return ListOffsetsRequest(
        replica_id=replica_id,
        isolation_level=isolation_level,
        topics=[
            ListOffsetsRequest.ListOffsetsTopic(
                name=topic,
                partitions=[
                    ListOffsetsRequest.ListOffsetsPartition(
                        partition_index=partition, timestamp=timestamp, **fields
                    )
                    for timestamp in timestamps
                ],
            )
        ],
    )


def only(response):
    (partition,) = response.topics[0].partitions
    return partition


def found(partition):
    return partition.error_code, partition.offset, partition.timestamp, partition.leader_epoch


@pytest.fixture
def filled(cluster):
    """Three batches of five records at T, T + 1 s and T + 2 s."""
    partition = cluster.lead("t")
    for second in range(3):
        records = batch(*[b"v"] * 5, timestamp=T + 1000 * second)
        cluster.replicas.appends.append_records([(partition.topic_partition, records)], 1, 1000)
    return partition


@pytest.mark.parametrize(
    ("version", "timestamp", "expected"),
    [
        (7, T + 10_000, (0, -1, -1, -1)),
        (7, 1, (0, 0, T, 0)),
        (7, T + 1000, (0, 5, T + 1000, 0)),
        (7, T + 500, (0, 5, T + 1000, 0)),
        (7, -1, (0, 15, -1, 0)),
        (7, -2, (0, 0, -1, 0)),
        (7, -3, (0, 10, T + 2000, 0)),
        (8, -4, (0, 0, -1, 0)),
        (9, -5, (0, -1, -1, -1)),
        (11, -6, (0, -1, -1, -1)),
        (9, -6, (35, -1, -1, -1)),
        (11, -9, (35, -1, -1, -1)),
        (6, -3, (35, -1, -1, -1)),
        (7, -4, (35, -1, -1, -1)),
        (8, -5, (35, -1, -1, -1)),
    ],
)
def test_timestamps_find_offsets(filled, call, version, timestamp, expected):
    assert found(only(call(handle, ask(timestamp), version))) == expected


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [(-2, (0, 0, -1, 0)), (-1, (0, 0, -1, 0)), (1, (0, -1, -1, -1)), (-3, (0, -1, -1, -1))],
)
def test_an_empty_topic_has_a_start_and_an_end_only(cluster, call, timestamp, expected):
    cluster.lead("t")

    assert found(only(call(handle, ask(timestamp), 7))) == expected


@pytest.mark.parametrize("partition", [0, 3])
def test_a_missing_partition_is_told(call, partition):
    answer = only(call(handle, ask(-1, topic="x", partition=partition), 7))

    assert found(answer) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1, -1)


def test_a_newer_leader_epoch_is_unknown(filled, call):
    answer = only(call(handle, ask(-1, current_leader_epoch=9), 7))

    assert found(answer) == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1, -1)


def test_a_partition_named_twice_is_refused_twice(filled, call):
    response = call(handle, ask(-1, -2), 7)

    assert [p.error_code for p in response.topics[0].partitions] == [42, 42]


def test_version_0_lists_segment_offsets_newest_first(filled, call):
    answer = only(call(handle, ask(-1, max_num_offsets=2), 0))

    assert (answer.error_code, answer.old_style_offsets) == (0, [15, 0])


def test_version_0_respects_the_number_asked_for(filled, call):
    assert only(call(handle, ask(-1, max_num_offsets=1), 0)).old_style_offsets == [15]
    assert only(call(handle, ask(-2, max_num_offsets=1), 0)).old_style_offsets == [0]


@pytest.mark.parametrize(("isolation_level", "latest"), [(0, 15), (1, 5)])
def test_latest_respects_open_transactions(filled, call, isolation_level, latest):
    filled.log.first_unstable_offset = 5

    assert only(call(handle, ask(-1, isolation_level=isolation_level), 7)).offset == latest


def test_nothing_beyond_the_stable_offset_is_found(filled, call):
    filled.log.first_unstable_offset = 5

    assert only(call(handle, ask(T + 1000, isolation_level=1), 7)).offset == -1


@pytest.mark.parametrize(("replica_id", "latest"), [(-1, 0), (1, 1), (-2, 1)])
def test_replicas_see_the_log_end(cluster, call, replica_id, latest):
    partition = cluster.lead("t", isr=(0, 1), replicas=(0, 1))
    cluster.append(partition, b"v", acks=1)

    assert only(call(handle, ask(-1, replica_id=replica_id), 7)).offset == latest


@pytest.mark.parametrize(
    ("version", "code"), [(4, ErrorCode.LEADER_NOT_AVAILABLE), (5, ErrorCode.OFFSET_NOT_AVAILABLE)]
)
def test_a_new_leader_that_lags_does_not_know_the_latest_offset(cluster, call, version, code):
    partition = cluster.lead("t", isr=(0, 1), replicas=(0, 1))
    cluster.append(partition, b"v", acks=1)
    cluster.lead("t", leader_epoch=1, isr=(0, 1), replicas=(0, 1))

    assert only(call(handle, ask(-1), version)).error_code == code
    assert only(call(handle, ask(-2), version)).error_code == 0


@pytest.mark.parametrize("version", range(12))
def test_every_version_can_be_encoded(filled, call, version):
    assert encode(call(handle, ask(-1), version), version)


def test_version_0_answers_a_partition_as_often_as_it_is_named(filled, call):
    response = call(handle, ask(-1, -2, max_num_offsets=1), 0)

    offsets = [p.old_style_offsets for p in response.topics[0].partitions]
    assert offsets == [[15], [0]]


@pytest.mark.parametrize("topic", ["t", "missing"])
@pytest.mark.parametrize("timestamp", [-3, -(2**63)])
def test_version_0_knows_two_special_times(filled, call, topic, timestamp):
    answer = only(call(handle, ask(timestamp, topic=topic, max_num_offsets=1), 0))

    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize("number", [0, -1])
def test_version_0_gives_no_offset_when_none_is_wanted(filled, call, number):
    answer = only(call(handle, ask(-1, max_num_offsets=number), 0))

    assert (answer.error_code, answer.old_style_offsets) == (0, [])


@pytest.mark.parametrize("version", [0, 11])
def test_others_are_answered_while_one_topic_is_asked_for_many_partitions(filled, call, version):
    asked = ask(-1, max_num_offsets=1)
    (topic,) = asked.topics
    count = 8 * ENTRIES
    topic.partitions += [
        ListOffsetsRequest.ListOffsetsPartition(partition_index=max(index, 2), timestamp=-1)
        for index in range(1, count)
    ]

    response, turns = call.counting_turns(handle, asked, version)

    answers = [(p.partition_index, p.error_code) for p in response.topics[0].partitions]
    twice = ErrorCode.INVALID_REQUEST if version else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert answers[:3] == [(0, 0), (2, twice), (2, twice)]
    assert answers[3:] == [(i, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for i in range(3, count)]
    assert turns >= 2 * 8
