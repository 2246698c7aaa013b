from __future__ import annotations

from types import SimpleNamespace

import pytest

from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.segments.fetch_data_info import FetchIsolation
from kbroker.model import LEADER_DURING_DELETE, TopicPartition
from kbroker.protocol.messages.fetch import FetchRequest
from kbroker.replication.reads.fetch_context import FetchContext
from kbroker.replication.reads.fetch_params import FetchParams, FetchPartition
from tests.fakes.clusters.replication_cluster import (
    batch,
    leader_and_isr,
    partition_metadata,
    stop_replica,
    topic_id_of,
    update_metadata,
)

BATCH_SIZE = len(batch(b"v"))


def params(**values) -> FetchParams:
    given = {"isolation": FetchIsolation.HIGH_WATERMARK, "max_bytes": 1 << 20, **values}
    return FetchParams(**given)


def asked(topic="t", partition=0, *, offset=0, max_bytes=1 << 20, **values) -> FetchPartition:
    return FetchPartition(
        TopicPartition(topic, partition), fetch_offset=offset, max_bytes=max_bytes, **values
    )


def test_what_is_there_is_answered_at_once(cluster):
    partition = cluster.lead("t")
    cluster.append(partition, b"v")

    (data,) = cluster.replicas.fetches.fetch(params(max_wait_ms=500), [asked()])

    assert (data.error_code, data.partition_index) == (0, 0)
    assert (data.high_watermark, data.last_stable_offset, data.log_start_offset) == (1, 1, 0)
    assert len(data.records) == BATCH_SIZE
    assert data.aborted_transactions is None


@pytest.mark.parametrize("offset", [-1, 2])
def test_offsets_outside_the_log_are_refused_without_waiting(cluster, offset):
    cluster.append(cluster.lead("t"), b"v")

    (data,) = cluster.replicas.fetches.fetch(params(max_wait_ms=500), [asked(offset=offset)])

    assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (data.high_watermark, data.last_stable_offset, data.log_start_offset) == (-1, -1, -1)
    assert data.records == b""


@pytest.mark.parametrize(
    ("epoch", "code"), [(0, ErrorCode.FENCED_LEADER_EPOCH), (5, ErrorCode.UNKNOWN_LEADER_EPOCH)]
)
def test_fetches_are_fenced_by_leader_epoch(cluster, epoch, code):
    cluster.lead("t", leader_epoch=1)

    (data,) = cluster.replicas.fetches.fetch(params(), [asked(current_leader_epoch=epoch)])

    assert data.error_code == code


def test_a_fetch_at_the_end_waits_for_the_next_append(cluster):
    partition = cluster.lead("t")

    answer = cluster.replicas.fetches.fetch(params(max_wait_ms=500), [asked()])
    waiting = not answer.done()
    cluster.append(partition, b"v")

    assert waiting
    assert len(answer.result()[0].records) == BATCH_SIZE


def test_a_fetch_at_the_end_is_answered_empty_after_its_max_wait(cluster):
    cluster.lead("t")
    answer = cluster.replicas.fetches.fetch(params(max_wait_ms=500), [asked()])

    cluster.time.advance(499)
    early = answer.done()
    cluster.time.advance(1)

    assert not early
    assert len(answer.result()[0].records) == 0


def test_without_max_wait_nothing_waits(cluster):
    cluster.lead("t")

    (data,) = cluster.replicas.fetches.fetch(params(max_wait_ms=0), [asked()])

    assert len(data.records) == 0


def test_min_bytes_are_waited_for_over_all_partitions(cluster):
    first, second = cluster.lead("t", 0), cluster.lead("t", 1)
    wanted = params(max_wait_ms=500, min_bytes=2 * BATCH_SIZE)
    answer = cluster.replicas.fetches.fetch(wanted, [asked(partition=0), asked(partition=1)])

    cluster.append(first, b"v")
    early = answer.done()
    cluster.append(second, b"v")

    assert not early
    assert [len(data.records) for data in answer.result()] == [BATCH_SIZE, BATCH_SIZE]


def test_min_bytes_larger_than_the_data_waits_and_gives_the_data(cluster):
    cluster.append(cluster.lead("t"), b"v")
    answer = cluster.replicas.fetches.fetch(params(max_wait_ms=500, min_bytes=1_000_000), [asked()])

    cluster.time.advance(500)

    assert len(answer.result()[0].records) == BATCH_SIZE


def test_an_append_elsewhere_wakes_nobody(cluster):
    cluster.lead("t")
    other = cluster.lead("u")
    answer = cluster.replicas.fetches.fetch(params(max_wait_ms=500), [asked()])

    cluster.append(other, b"v")

    assert not answer.done()


def test_a_waiting_fetch_ends_when_leadership_is_lost(cluster):
    cluster.lead("t", isr=(0, 1), replicas=(0, 1))
    answer = cluster.replicas.fetches.fetch(params(max_wait_ms=500), [asked()])

    order = leader_and_isr("t", leader=1, leader_epoch=1, isr=(1,), replicas=(0, 1))
    cluster.replicas.leadership.become_leader_or_follower(order)

    assert answer.result()[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_waiting_fetch_ends_when_the_topic_is_deleted(cluster):
    cluster.lead("t")
    answer = cluster.replicas.fetches.fetch(params(max_wait_ms=500), [asked()])

    cluster.replicas.leadership.stop_replicas(stop_replica("t"))

    assert answer.result()[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_waiting_fetch_gets_to_know_of_deleted_records_when_its_time_is_over(cluster):
    """Neither does Apache Kafka end a fetch because its log starts later."""
    partition = cluster.lead("t")
    cluster.append(partition, b"v")
    answer = cluster.replicas.fetches.fetch(params(max_wait_ms=500, min_bytes=1_000_000), [asked()])

    told = cluster.loop.run_until_complete(
        cluster.replicas.deletions.delete({partition.topic_partition: 1}, 1000)
    )
    early = answer.done()
    cluster.time.advance(500)

    assert ([each.low_watermark for each in told], early) == ([1], False)
    assert answer.result()[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_consumer_waits_for_the_high_watermark(cluster):
    partition = cluster.lead("t", isr=(0, 1), replicas=(0, 1))
    answer = cluster.replicas.fetches.fetch(params(max_wait_ms=500), [asked()])
    cluster.append(partition, b"v", acks=1)
    early = answer.done()

    replica = params(replica_id=1, isolation=FetchIsolation.LOG_END)
    cluster.replicas.fetches.fetch(replica, [asked(offset=1)])

    assert not early
    assert len(answer.result()[0].records) == BATCH_SIZE


def test_a_cancelled_fetch_leaves_nothing_behind(cluster):
    cluster.lead("t")
    answer = cluster.replicas.fetches.fetch(params(max_wait_ms=500), [asked()])

    answer.cancel()
    cluster.run_callbacks()

    assert len(cluster.replicas.waiting.fetches) == 0


def test_the_first_batch_comes_whole_and_uses_up_max_bytes(cluster):
    for index in (0, 1):
        cluster.append(cluster.lead("t", index), b"v")

    both = cluster.replicas.fetches.fetch(
        params(max_bytes=1), [asked(partition=0), asked(partition=1)]
    )

    assert [len(data.records) for data in both] == [BATCH_SIZE, 0]


def test_partition_max_bytes_cuts_the_second_batch(cluster):
    partition = cluster.lead("t")
    cluster.append(partition, b"v")
    cluster.append(partition, b"v")

    (data,) = cluster.replicas.fetches.fetch(params(), [asked(max_bytes=BATCH_SIZE + 10)])

    assert len(data.records) == BATCH_SIZE + 10


@pytest.mark.parametrize("size", [-1, 0, 1])
def test_odd_sizes_still_give_the_first_batch(cluster, size):
    cluster.append(cluster.lead("t"), b"v")

    (data,) = cluster.replicas.fetches.fetch(params(max_bytes=size), [asked(max_bytes=size)])

    assert len(data.records) == BATCH_SIZE


def test_missing_and_foreign_partitions_have_their_codes(cluster):
    cluster.hear_of("elsewhere", leader=1, isr=(1,), replicas=(1,))
    wanted = [asked("missing"), asked("elsewhere"), asked("", topic_id=topic_id_of("x"))]

    answers = cluster.replicas.fetches.fetch(params(max_wait_ms=500), wanted)

    assert [data.error_code for data in answers] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_ID,
    ]


def test_a_topic_that_was_created_anew_is_not_the_one_asked_for(cluster):
    cluster.lead("t")

    right, wrong = cluster.replicas.fetches.fetch(
        params(), [asked(topic_id=topic_id_of("t")), asked(topic_id=topic_id_of("old"))]
    )

    assert right.error_code == 0
    assert wrong.error_code == ErrorCode.INCONSISTENT_TOPIC_ID


def test_a_broker_without_a_replica_may_not_fetch_as_one(cluster):
    cluster.lead("t")

    (data,) = cluster.replicas.fetches.fetch(
        params(replica_id=55, isolation=FetchIsolation.LOG_END), [asked()]
    )

    assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_an_epoch_the_leader_never_had_is_out_of_range(cluster):
    cluster.append(cluster.lead("t"), b"v")

    (data,) = cluster.replicas.fetches.fetch(params(max_wait_ms=500), [asked(last_fetched_epoch=9)])

    assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_log_that_parted_is_told_where(cluster):
    partition = cluster.lead("t", leader_epoch=0)
    cluster.append(partition, b"v", b"v")
    cluster.replicas.leadership.become_leader_or_follower(leader_and_isr("t", leader_epoch=3))
    cluster.append(partition, b"v")

    (data,) = cluster.replicas.fetches.fetch(
        params(max_wait_ms=500), [asked(offset=3, last_fetched_epoch=0)]
    )

    assert data.error_code == 0
    assert (data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == (0, 2)
    assert len(data.records) == 0


def test_committed_readers_stop_at_open_transactions_and_learn_of_aborted_ones(cluster):
    partition = cluster.lead("t")
    cluster.append(partition, b"v")
    cluster.append(partition, b"v")
    partition.log.first_unstable_offset = 1
    partition.log.aborted = [SimpleNamespace(producer_id=7, first_offset=0)]

    (data,) = cluster.replicas.fetches.fetch(
        params(isolation=FetchIsolation.TXN_COMMITTED), [asked()]
    )

    assert len(data.records) == BATCH_SIZE
    assert (data.high_watermark, data.last_stable_offset) == (2, 1)
    assert [(a.producer_id, a.first_offset) for a in data.aborted_transactions] == [(7, 0)]


def test_a_committed_reader_waits_until_the_transaction_ends(cluster):
    partition = cluster.lead("t")
    cluster.append(partition, b"v")
    partition.log.first_unstable_offset = 0
    answer = cluster.replicas.fetches.fetch(
        params(isolation=FetchIsolation.TXN_COMMITTED, max_wait_ms=500), [asked()]
    )

    partition.log.first_unstable_offset = None
    cluster.replicas.waiting.wake(partition.topic_partition)

    assert len(answer.result()[0].records) == BATCH_SIZE


def test_a_disk_that_fails_is_a_storage_error_of_its_partition(cluster):
    cluster.append(cluster.lead("t", 0), b"v")
    cluster.lead("t", 1).log.fail_with = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)

    good, bad = cluster.replicas.fetches.fetch(params(), [asked(partition=0), asked(partition=1)])

    assert (good.error_code, bad.error_code) == (0, ErrorCode.KAFKA_STORAGE_ERROR)


def test_a_follower_is_read_only_by_those_who_may(cluster):
    cluster.lead("t", isr=(0, 1), replicas=(0, 1))
    order = leader_and_isr("t", leader=1, leader_epoch=1, isr=(1, 0), replicas=(0, 1))
    cluster.replicas.leadership.become_leader_or_follower(order)

    (old,) = cluster.replicas.fetches.fetch(params(leader_only=True), [asked()])
    (new,) = cluster.replicas.fetches.fetch(params(leader_only=False), [asked()])

    assert (old.error_code, new.error_code) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 0)


@pytest.mark.parametrize("others", [0, 1])
def test_a_topic_that_goes_while_it_is_waited_for_has_no_list_of_aborted_transactions(
    cluster, others
):
    """One that was not there at the begin has an empty one."""
    cluster.lead("t")
    missing = [asked("missing") for _ in range(others)]
    answer = cluster.replicas.fetches.fetch(params(max_wait_ms=500), [*missing, asked()])

    cluster.metadata.update(update_metadata(("t", partition_metadata(leader=LEADER_DURING_DELETE))))
    cluster.replicas.leadership.stop_replicas(stop_replica("t"))
    cluster.time.advance(500)

    assert [(data.error_code, data.aborted_transactions) for data in answer.result()] == [
        *[(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])] * others,
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None),
    ]


def test_nothing_asked_for_is_answered_at_once(cluster):
    assert cluster.replicas.fetches.fetch(params(max_wait_ms=500), []) == []


def test_an_unknown_topic_does_not_keep_an_idle_partition_from_waiting(cluster):
    partition = cluster.lead("t")
    wanted = [asked("missing"), asked("", topic_id=topic_id_of("x")), asked()]
    answer = cluster.replicas.fetches.fetch(params(max_wait_ms=500), wanted)

    waiting = not answer.done()
    cluster.append(partition, b"v")

    assert waiting
    assert [(data.error_code, len(data.records)) for data in answer.result()] == [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0),
        (ErrorCode.UNKNOWN_TOPIC_ID, 0),
        (ErrorCode.NONE, BATCH_SIZE),
    ]


def test_a_waiting_fetch_reads_a_topic_that_was_created_meanwhile(cluster):
    cluster.lead("t")
    answer = cluster.replicas.fetches.fetch(params(max_wait_ms=500), [asked("new"), asked()])

    created = cluster.lead("new")
    waiting = not answer.done()
    cluster.append(created, b"v")

    assert waiting
    assert len(answer.result()[0].records) == BATCH_SIZE


def test_other_errors_beside_an_idle_partition_are_answered_at_once(cluster):
    cluster.lead("t")
    cluster.hear_of("elsewhere", leader=1, isr=(1,), replicas=(1,))

    foreign = cluster.replicas.fetches.fetch(params(max_wait_ms=500), [asked("elsewhere"), asked()])
    beyond = cluster.replicas.fetches.fetch(params(max_wait_ms=500), [asked(offset=9), asked()])

    assert foreign[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert beyond[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_what_does_not_fit_beside_other_records_is_not_waited_for(cluster):
    """There are as many bytes as wanted, only not within the limit of the whole answer."""
    for index in (0, 1):
        cluster.append(cluster.lead("t", index), b"v")
    limit = BATCH_SIZE * 3 // 2
    wanted = params(max_wait_ms=500, max_bytes=limit, min_bytes=limit)

    both = cluster.replicas.fetches.fetch(wanted, [asked(partition=0), asked(partition=1)])

    assert [len(data.records) for data in both] == [BATCH_SIZE, 0]


def test_bytes_beyond_what_a_partition_may_give_are_not_counted(cluster):
    partition = cluster.lead("t")
    cluster.append(partition, b"v")
    cluster.append(partition, b"v")
    wanted = params(max_wait_ms=500, min_bytes=2 * BATCH_SIZE)

    answer = cluster.replicas.fetches.fetch(wanted, [asked(max_bytes=BATCH_SIZE)])

    assert not answer.done()


@pytest.mark.parametrize("epoch", [-1, -2, -(2**31)])
def test_a_negative_epoch_is_none(cluster, epoch):
    cluster.append(cluster.lead("t", leader_epoch=3), b"v", b"v")
    session = cluster.replicas.fetch_sessions
    request = FetchRequest(
        session_epoch=-1,
        topics=[
            FetchRequest.FetchTopic(
                topic="t",
                partitions=[
                    FetchRequest.FetchPartition(
                        partition=0,
                        fetch_offset=1,
                        partition_max_bytes=1000,
                        current_leader_epoch=epoch,
                        last_fetched_epoch=epoch,
                    )
                ],
            )
        ],
    )
    context = FetchContext.of(session, request, 12, {}.get, is_follower=False)

    (data,) = cluster.replicas.fetches.fetch(params(), context.asked_for)

    assert (data.error_code, len(data.records)) == (0, len(batch(b"v", b"v")))
    assert data.diverging_epoch.epoch == -1
