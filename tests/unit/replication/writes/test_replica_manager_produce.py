from __future__ import annotations

import asyncio

import pytest

from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.producers.log_append_info import AppendOrigin, InvalidRecordsError, RecordError
from kbroker.model import TopicPartition
from tests.fakes.clusters.replication_cluster import batch, leader_and_isr, stop_replica

TWO = {"isr": (0, 1), "replicas": (0, 1)}


def fetched_by_follower(cluster, partition, offset):
    if partition.follower_fetched(1, offset, 0, cluster.time.now_ms()):
        cluster.replicas.waiting.wake(partition.topic_partition)


@pytest.mark.parametrize("acks", [-1, 0, 1])
def test_a_single_replica_answers_at_once(cluster, acks):
    partition = cluster.lead("t")

    (result,) = cluster.append(partition, b"a", b"b", acks=acks)

    assert (result.error_code, result.base_offset, result.last_offset) == (ErrorCode.NONE, 0, 1)
    assert (result.log_append_time_ms, result.log_start_offset) == (-1, 0)
    assert partition.high_watermark == 2


@pytest.mark.parametrize("acks", [2, -2, 32767])
def test_other_acks_are_refused_for_each_partition(cluster, acks):
    cluster.lead("t")
    entries = [(TopicPartition("t", 0), batch()), (TopicPartition("t", 1), batch())]

    results = cluster.replicas.appends.append_records(entries, acks, 1000).results

    assert [r.error_code for r in results] == [ErrorCode.INVALID_REQUIRED_ACKS] * 2
    assert [r.base_offset for r in results] == [-1, -1]
    assert cluster.log_manager.logs[TopicPartition("t", 0)].log_end_offset == 0


def test_one_bad_partition_does_not_spoil_the_others(cluster):
    cluster.lead("t")
    cluster.hear_of("elsewhere", leader=1, replicas=(1,), isr=(1,))
    names = [("t", 0), ("missing", 0), ("elsewhere", 0)]

    results = cluster.replicas.appends.append_records(
        [(TopicPartition(*name), batch()) for name in names], 1, 1000
    ).results

    assert [r.error_code for r in results] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ]


def test_internal_topics_take_no_records_from_clients(cluster):
    partition = cluster.lead("__consumer_offsets")

    (refused,) = cluster.append(partition, b"a")
    (accepted,) = cluster.replicas.appends.append_records(
        [(partition.topic_partition, batch())], -1, 1000, AppendOrigin.COORDINATOR
    ).results

    assert refused.error_code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert refused.log_start_offset == -1
    assert accepted.error_code is ErrorCode.NONE


@pytest.mark.parametrize(
    ("error", "log_start_offset"),
    [
        (KafkaError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), 0),
        (KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH), 0),
        (KafkaError(ErrorCode.INVALID_RECORD), 0),
        (KafkaError(ErrorCode.CORRUPT_MESSAGE), -1),
        (KafkaError(ErrorCode.MESSAGE_TOO_LARGE), -1),
        (KafkaError(ErrorCode.KAFKA_STORAGE_ERROR), -1),
    ],
)
def test_a_refusal_of_the_log_keeps_its_code(cluster, error, log_start_offset):
    partition = cluster.lead("t")
    partition.log.fail_with = error

    (result,) = cluster.append(partition, b"a")

    assert result.error_code is error.code
    assert (result.base_offset, result.log_start_offset) == (-1, log_start_offset)


def test_refused_records_are_named(cluster):
    partition = cluster.lead("t")
    partition.log.fail_with = InvalidRecordsError(
        ErrorCode.INVALID_RECORD, "no keys", [RecordError(0, "no key")]
    )

    (result,) = cluster.append(partition, b"a")

    assert result.error_message == "no keys"
    assert list(result.record_errors) == [RecordError(0, "no key")]


def test_no_batch_has_no_log_start_offset(cluster):
    partition = cluster.lead("t")

    (result,) = cluster.replicas.appends.append_records(
        [(partition.topic_partition, memoryview(bytearray()))], 1, 1000
    ).results

    assert (result.error_code, result.log_start_offset) == (ErrorCode.INVALID_RECORD, -1)


def test_min_insync_replicas_counts_for_acks_all_only(cluster):
    partition = cluster.lead("t", isr=(0,), replicas=(0, 1))
    partition.log.config.min_insync_replicas = 2

    (refused,) = cluster.append(partition, b"a", acks=-1)
    (accepted,) = cluster.append(partition, b"a", acks=1)

    assert refused.error_code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert refused.log_start_offset == 0
    assert accepted.error_code is ErrorCode.NONE
    assert partition.high_watermark == 0


def test_min_insync_replicas_above_the_replicas_is_no_obstacle(cluster):
    partition = cluster.lead("t")
    partition.log.config.min_insync_replicas = 2

    (result,) = cluster.append(partition, b"a", acks=-1)

    assert result.error_code is ErrorCode.NONE


def test_acks_all_waits_for_the_in_sync_replicas(cluster):
    partition = cluster.lead("t", **TWO)

    answer = cluster.append(partition, b"a", b"b", acks=-1)
    fetched_by_follower(cluster, partition, 1)
    early = answer.done()
    fetched_by_follower(cluster, partition, 2)

    assert not early
    (result,) = answer.result()
    assert (result.error_code, result.base_offset) == (ErrorCode.NONE, 0)
    assert len(cluster.replicas.waiting.produces) == 0


def test_acks_one_does_not_wait_for_followers(cluster):
    partition = cluster.lead("t", **TWO)

    (result,) = cluster.append(partition, b"a", acks=1)

    assert result.error_code is ErrorCode.NONE
    assert partition.high_watermark == 0


def test_acks_all_times_out_with_its_offset(cluster):
    partition = cluster.lead("t", **TWO)
    answer = cluster.append(partition, b"a", acks=-1, timeout_ms=600)

    cluster.time.advance(600)

    (result,) = answer.result()
    assert (result.error_code, result.base_offset) == (ErrorCode.REQUEST_TIMED_OUT, 0)


def test_acks_all_ends_when_leadership_is_lost(cluster):
    partition = cluster.lead("t", **TWO)
    answer = cluster.append(partition, b"a", acks=-1)

    order = leader_and_isr("t", leader=1, leader_epoch=1, isr=(1,), replicas=(0, 1))
    cluster.replicas.leadership.become_leader_or_follower(order)

    assert answer.result()[0].error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_acks_all_ends_when_the_topic_is_deleted(cluster):
    partition = cluster.lead("t", **TWO)
    answer = cluster.append(partition, b"a", acks=-1)

    cluster.replicas.leadership.stop_replicas(stop_replica("t"))

    assert answer.result()[0].error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_acks_all_tells_of_an_isr_that_shrank_after_the_append(cluster):
    partition = cluster.lead("t", **TWO)
    partition.log.config.min_insync_replicas = 2
    answer = cluster.append(partition, b"a", acks=-1)
    partition.log.update_high_watermark(1)

    cluster.replicas.isr_settled(partition.topic_partition, (0,), 1)
    cluster.replicas.waiting.wake(partition.topic_partition)

    assert answer.result()[0].error_code is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def test_a_connection_that_goes_away_leaves_nothing_behind(cluster):
    partition = cluster.lead("t", **TWO)
    answer = cluster.append(partition, b"a", acks=-1)

    answer.cancel()
    cluster.run_callbacks()

    assert len(cluster.replicas.waiting.produces) == 0
    assert isinstance(answer, asyncio.Future)


def test_shutdown_answers_what_waits(cluster):
    partition = cluster.lead("t", **TWO)
    answer = cluster.append(partition, b"a", acks=-1)

    cluster.replicas.shutdown()

    assert answer.result()[0].error_code is ErrorCode.REQUEST_TIMED_OUT
    assert cluster.log_manager.high_watermarks == {partition.topic_partition: 0}


def _waits_for_a_follower_outside_the_isr(cluster):
    partition = cluster.lead("t", isr=(0,), replicas=(0, 1))
    partition.follower_fetched(1, 0, 0, cluster.time.now_ms())
    answer = cluster.append(partition, b"v", acks=-1, timeout_ms=60_000)
    assert not answer.done()
    cluster.time.advance(30_001)  # it has not fetched since, and counts no more
    assert not answer.done()
    return partition, answer


def test_an_append_that_moves_the_high_watermark_ends_the_wait_of_an_earlier_one(cluster):
    partition, answer = _waits_for_a_follower_outside_the_isr(cluster)

    cluster.append(partition, b"v", acks=1)

    assert partition.high_watermark == 2
    assert answer.result()[0].error_code is ErrorCode.NONE


def test_a_follower_outside_the_isr_holds_no_answer_back_for_longer_than_it_may_lag(cluster):
    partition, answer = _waits_for_a_follower_outside_the_isr(cluster)

    cluster.replicas.maybe_shrink_isr()

    assert partition.high_watermark == 1
    assert answer.result()[0].error_code is ErrorCode.NONE
