"""Transactional batches of a Produce request, by what their coordinator says of them."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from kbroker.apis.produce import handle
from kbroker.config.topic_config import TopicConfig
from kbroker.coordinator.add_partitions_to_txn_manager import Participation
from kbroker.coordinator.transaction.transaction import Producer
from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.append.log_append_info import AppendOrigin
from kbroker.model import TopicPartition
from kbroker.protocol.request import Accepted, NoResponse
from kbroker.record.record_batch import (
    TRANSACTIONAL_BIT,
    BatchOptions,
    ControlRecord,
    build_marker,
)
from tests.fakes.consenting_coordinator import ConsentingCoordinator
from tests.fakes.log_maker import manager
from tests.fakes.replication_cluster import ReplicationCluster, batch
from tests.unit.apis.test_produce import only, produce

PRODUCER = Producer(7, 1)
NONE = ErrorCode.NONE


@pytest.fixture
def cluster(tmp_path):
    """Over real logs, which know their producers."""
    logs = manager(tmp_path)
    logs.load("cluster", 0)
    cluster = ReplicationCluster(log_manager=logs)
    yield cluster
    cluster.replicas.shutdown()
    cluster.close()
    logs.shutdown()


@pytest.fixture
def coordinator(call) -> ConsentingCoordinator:
    coordinator = ConsentingCoordinator()
    call.services = replace(call.services, participation=coordinator)
    return coordinator


def begins(sequence=0, producer=PRODUCER, values=()):
    return batch(
        *values,
        flags=TRANSACTIONAL_BIT,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=sequence,
    )


def write(call, *records, version=9, **values):
    return call(handle, produce(*records, transactional_id="x", **values), version)


def end_transaction(partition, producer=PRODUCER):
    options = BatchOptions(producer_id=producer.producer_id, producer_epoch=producer.epoch)
    marker = bytearray(build_marker(ControlRecord(False, 0), 0, options=options))
    partition.append_records_to_leader(marker, 1, 0, AppendOrigin.COORDINATOR)


def test_the_first_batch_of_a_transaction_is_asked_about_and_no_other(cluster, call, coordinator):
    cluster.lead("t", 0)
    cluster.lead("t", 1)

    first = write(call, begins(), begins())
    second = write(call, begins(1))

    assert [p.error_code for p in first.responses[0].partition_responses] == [0, 0]
    assert only(second).base_offset == 1
    partitions = (TopicPartition("t", 0), TopicPartition("t", 1))
    assert coordinator.asked == [Participation("x", PRODUCER, partitions)]


def test_records_of_no_transaction_are_not_asked_about(cluster, call, coordinator):
    cluster.lead("t")

    assert only(write(call, batch())).error_code == NONE
    assert coordinator.asked == []


@pytest.mark.parametrize(
    ("said", "version", "answered"),
    [
        ("TRANSACTION_ABORTABLE", 10, ("INVALID_TXN_STATE", "Partition was not added")),
        ("TRANSACTION_ABORTABLE", 11, ("TRANSACTION_ABORTABLE", None)),
        ("INVALID_TXN_STATE", 11, ("INVALID_TXN_STATE", "Partition was not added")),
        ("CLUSTER_AUTHORIZATION_FAILED", 11, ("INVALID_TXN_STATE", "Partition was not added")),
        ("PRODUCER_FENCED", 11, ("INVALID_PRODUCER_EPOCH", None)),
        ("INVALID_PRODUCER_ID_MAPPING", 11, ("INVALID_PRODUCER_ID_MAPPING", None)),
        ("NETWORK_EXCEPTION", 11, ("NOT_ENOUGH_REPLICAS", "NETWORK_EXCEPTION")),
        ("COORDINATOR_LOAD_IN_PROGRESS", 9, ("NOT_ENOUGH_REPLICAS", "Unable to verify")),
        ("COORDINATOR_NOT_AVAILABLE", 9, ("NOT_ENOUGH_REPLICAS", "Unable to verify")),
        ("NOT_COORDINATOR", 9, ("NOT_ENOUGH_REPLICAS", "Unable to verify")),
        ("CONCURRENT_TRANSACTIONS", 9, ("NOT_ENOUGH_REPLICAS", "Unable to verify")),
    ],
)
def test_what_the_coordinator_says_is_told_in_codes_that_producers_know(
    cluster, call, coordinator, said, version, answered
):
    partition = cluster.lead("t")
    told, message = answered
    coordinator.code = ErrorCode[said]

    answer = only(write(call, begins(), version=version))

    assert answer.error_code == ErrorCode[told]
    assert (answer.base_offset, answer.log_start_offset) == (-1, -1)
    assert (message is None) == (answer.error_message is None)
    assert message is None or message in answer.error_message
    assert partition.log_end_offset == 0


def test_one_refused_partition_does_not_spoil_the_others(cluster, call, coordinator):
    cluster.lead("t", 0)
    cluster.lead("t", 1)
    coordinator.codes = {TopicPartition("t", 0): ErrorCode.TRANSACTION_ABORTABLE}

    response = write(call, begins(), begins(), begins(), version=11)

    codes = {p.index: p.error_code for p in response.responses[0].partition_responses}
    assert codes == {0: 120, 1: 0, 2: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_two_producers_in_one_request_are_refused(cluster, call, coordinator):
    cluster.lead("t", 0)
    cluster.lead("t", 1)

    with pytest.raises(KafkaError) as caught:
        write(call, begins(), begins(producer=Producer(8, 1)))

    assert caught.value.code is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert coordinator.asked == []


def test_a_leader_that_is_none_does_not_ask(cluster, call, coordinator):
    cluster.lead("t").stop()

    assert only(write(call, begins())).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert coordinator.asked == []


def test_switched_off_nobody_is_asked(cluster, call, coordinator):
    cluster.lead("t")
    coordinator.enabled = False

    assert only(write(call, begins())).error_code == NONE
    assert coordinator.asked == []


def test_a_refusal_closes_the_connection_of_who_reads_no_answers(cluster, call, coordinator):
    cluster.lead("t")
    coordinator.code = ErrorCode.TRANSACTION_ABORTABLE

    assert write(call, begins(), acks=0) == NoResponse(close=True)


def start(call, *records, version=9, **values):
    async def answer():
        return await call.start(handle, produce(*records, transactional_id="x", **values), version)

    return call.cluster.loop.create_task(answer())


def turn(call):
    call.cluster.loop.run_until_complete(asyncio.sleep(0))


def finished(call, task):
    return only(call.cluster.loop.run_until_complete(task))


def test_a_batch_that_waits_for_its_coordinator_is_not_appended_yet(cluster, call, coordinator):
    partition = cluster.lead("t")
    coordinator.is_away = True

    task = start(call, begins())
    turn(call)
    assert partition.log_end_offset == 0
    coordinator.answer()

    assert finished(call, task).base_offset == 0


def test_a_batch_that_is_verified_before_a_marker_and_comes_after_it_is_refused(
    cluster, call, coordinator
):
    partition = cluster.lead("t")
    coordinator.is_away = True
    task = start(call, begins())
    turn(call)

    end_transaction(partition)
    coordinator.answer()

    assert finished(call, task).error_code == ErrorCode.INVALID_TXN_STATE
    assert partition.log_end_offset == 1


def test_the_consent_to_the_next_transaction_is_none_to_a_batch_of_the_last(
    cluster, call, coordinator
):
    partition = cluster.lead("t")
    coordinator.is_away = True
    late = start(call, begins())
    turn(call)
    end_transaction(partition)
    of_next = start(call, begins())
    turn(call)

    coordinator.answer(0)

    assert finished(call, late).error_code == ErrorCode.INVALID_TXN_STATE
    coordinator.answer(1)
    assert finished(call, of_next).error_code == NONE


def test_a_leader_that_has_lost_its_partition_meanwhile_appends_nothing(cluster, call, coordinator):
    partition = cluster.lead("t")
    coordinator.is_away = True
    task = start(call, begins())
    turn(call)

    partition.stop()
    coordinator.answer()

    assert finished(call, task).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_batches_of_an_open_transaction_begin_before_the_last_is_answered(
    cluster, call, coordinator
):
    """Sent ahead, they are appended in their order while replicas lack the ones before."""
    cluster.lead("t", isr=(0, 1), replicas=(0, 1))
    first = start(call, begins(), acks=-1)
    turn(call)

    second = call.start(handle, produce(begins(1), transactional_id="x", acks=-1), 9)

    assert isinstance(second, Accepted)
    first.cancel()
    second.outcome.cancel()


@pytest.mark.parametrize("epoch", [PRODUCER.epoch, PRODUCER.epoch + 1])
def test_a_batch_that_is_checked_on_a_thread_while_a_marker_comes_is_refused(
    cluster, call, coordinator, epoch
):
    """Nothing of the log is looked at there: the producer is checked at the append."""
    partition = cluster.lead("t")
    assert only(write(call, begins())).error_code == NONE
    partition.log.update_config(TopicConfig(compression_type="zstd"))
    task = start(call, begins(1, values=[b"v" * 100_000]))
    turn(call)
    assert partition.log_end_offset == 1

    end_transaction(partition, Producer(PRODUCER.producer_id, epoch))

    assert finished(call, task).error_code == ErrorCode.INVALID_TXN_STATE
    assert partition.log_end_offset == 2


# ---- Produce 12: partitions are added with the first batch


ADDS = 12


def test_a_new_request_adds_the_partition_and_asks_about_no_later_batch(cluster, call, coordinator):
    cluster.lead("t")

    assert only(write(call, begins(), version=ADDS)).error_code == NONE
    assert only(write(call, begins(1), version=ADDS)).error_code == NONE
    assert coordinator.asked == [Participation("x", PRODUCER, (TopicPartition("t", 0),), adds=True)]


def test_partitions_are_added_even_where_verification_is_switched_off(cluster, call, coordinator):
    cluster.lead("t")
    coordinator.enabled = False

    assert only(write(call, begins(), version=ADDS)).error_code == NONE
    assert len(coordinator.asked) == 1


def test_the_end_of_the_transaction_before_is_waited_for(cluster, call, coordinator):
    cluster.lead("t")
    coordinator.then = [ErrorCode.CONCURRENT_TRANSACTIONS] * 2

    assert only(write(call, begins(), version=ADDS)).error_code == NONE
    assert len(coordinator.asked) == 3


def test_where_that_takes_long_the_producer_is_told(cluster, call, coordinator):
    partition = cluster.lead("t")
    coordinator.code = ErrorCode.CONCURRENT_TRANSACTIONS

    answer = only(write(call, begins(), version=ADDS))

    assert answer.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert partition.log_end_offset == 0


def test_a_coordinator_that_cannot_be_asked_is_told_as_ever(cluster, call, coordinator):
    cluster.lead("t")
    coordinator.code = ErrorCode.COORDINATOR_NOT_AVAILABLE

    answer = only(write(call, begins(), version=ADDS))

    assert answer.error_code == ErrorCode.NOT_ENOUGH_REPLICAS


def test_the_marker_of_the_transaction_before_does_not_refuse_the_next_one(
    cluster, call, coordinator
):
    """It may come between the question and its answer: then the question is asked again."""
    partition = cluster.lead("t")
    assert only(write(call, begins(producer=Producer(7, 0)), version=ADDS)).error_code == NONE
    coordinator.is_away = True
    task = start(call, begins(), version=ADDS)
    turn(call)

    end_transaction(partition)
    coordinator.is_away = False
    coordinator.waiting[0].set_result(coordinator.asked[-1].all_are(NONE))

    assert finished(call, task).error_code == NONE
    assert len(coordinator.asked) == 3
    assert partition.log_end_offset == 3


def test_a_late_batch_of_a_transaction_that_has_ended_is_fenced(cluster, call, coordinator):
    partition = cluster.lead("t")
    assert only(write(call, begins(), version=ADDS)).error_code == NONE
    end_transaction(partition, Producer(7, 2))

    answer = only(write(call, begins(1), version=ADDS))

    assert answer.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert partition.log_end_offset == 2


def test_a_producer_without_a_past_begins_with_sequence_0(cluster, call, coordinator):
    partition = cluster.lead("t")

    answer = only(write(call, begins(5), version=ADDS))

    assert answer.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert only(write(call, begins(5), version=ADDS - 1)).error_code == NONE
    assert partition.log_end_offset == 1
