from __future__ import annotations

import errno

import pytest

from kbroker.errors import ErrorCode
from kbroker.log.disk.file_system import StorageError
from kbroker.replication.writes.shared_flush import MAX_THREADS, FlushPolicy
from tests.fakes.clusters.replication_cluster import leader_and_isr


class Threads:
    """Worker threads that run what they were given when the test says so."""

    def __init__(self, loop) -> None:
        self.loop = loop
        self.waiting: list = []

    def run(self, work):
        future = self.loop.create_future()
        self.waiting.append((work, future))
        return future

    def finish(self, cluster) -> None:
        work, future = self.waiting.pop(0)
        work()
        future.set_result(None)
        cluster.run_callbacks()


@pytest.fixture
def threads(cluster) -> Threads:
    threads = Threads(cluster.loop)
    cluster.replicas.set_group_commit(FlushPolicy.ACKS_ALL, threads.run)
    return threads


def test_acks_all_waits_for_the_disk_of_a_single_replica(cluster, threads):
    partition = cluster.lead("t")

    answer = cluster.append(partition, b"v", acks=-1)
    early = answer.done()
    threads.finish(cluster)

    assert not early
    assert answer.result()[0].error_code is ErrorCode.NONE
    assert partition.log.offsets.recovery_point == 1


def test_acks_one_does_not_wait_for_the_disk(cluster, threads):
    (result,) = cluster.append(cluster.lead("t"), b"v", acks=1)

    assert result.error_code is ErrorCode.NONE
    assert threads.waiting == []


def test_two_in_sync_replicas_need_no_fsync(cluster, threads):
    partition = cluster.lead("t", isr=(0, 1), replicas=(0, 1))
    answer = cluster.append(partition, b"v", acks=-1)

    partition.follower_fetched(1, 1, 0, cluster.time.now_ms())
    cluster.replicas.waiting.wake(partition.topic_partition)

    assert answer.result()[0].error_code is ErrorCode.NONE
    assert threads.waiting == []


def test_appends_during_an_fsync_share_the_next_one(cluster, threads):
    partition = cluster.lead("t")
    first = cluster.append(partition, b"v", acks=-1)
    others = [cluster.append(partition, b"v", acks=-1) for _ in range(5)]

    threads.finish(cluster)
    done_after_one = [first.done(), *(answer.done() for answer in others)]
    threads.finish(cluster)

    assert done_after_one == [True] + [False] * 5
    assert all(answer.done() for answer in others)
    assert partition.log.flush_count == 2
    assert threads.waiting == []


def test_a_failed_fsync_takes_the_partition_offline_and_is_not_repeated(cluster, threads):
    partition = cluster.lead("t")
    partition.log.sync_error = StorageError("/data", "fsync", 5)
    answer = cluster.append(partition, b"v", acks=-1)

    threads.finish(cluster)
    cluster.time.advance(0)

    assert answer.result()[0].error_code is ErrorCode.KAFKA_STORAGE_ERROR
    assert threads.waiting == []
    assert cluster.append(partition, b"v")[0].error_code is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_slow_disk_ends_in_the_producers_timeout(cluster, threads):
    answer = cluster.append(cluster.lead("t"), b"v", acks=-1, timeout_ms=600)

    cluster.time.advance(600)

    assert answer.result()[0].error_code is ErrorCode.REQUEST_TIMED_OUT


def test_a_lack_of_descriptors_is_waited_out_and_then_synced(cluster, threads):
    partition = cluster.lead("t")
    partition.log.sync_error = StorageError("/data", "open", errno.EMFILE)
    answer = cluster.append(partition, b"v", acks=-1)
    threads.finish(cluster)

    partition.log.sync_error = None
    cluster.time.advance(50)
    threads.finish(cluster)

    assert answer.result()[0].error_code is ErrorCode.NONE


def test_many_partitions_share_few_threads(cluster, threads):
    partitions = [cluster.lead("t", number) for number in range(3 * MAX_THREADS)]

    answers = [cluster.append(partition, b"v", acks=-1) for partition in partitions]
    at_once = len(threads.waiting)
    for _ in range(MAX_THREADS):
        threads.finish(cluster)
    while threads.waiting:
        threads.finish(cluster)

    assert at_once == MAX_THREADS
    assert all(answer.result()[0].error_code is ErrorCode.NONE for answer in answers)
    assert all(partition.log.flush_count == 1 for partition in partitions)


def test_one_failure_among_the_partitions_of_a_thread_spoils_no_other(cluster, threads):
    partitions = [cluster.lead("t", number) for number in range(MAX_THREADS + 2)]
    bad = partitions[-1]
    bad.log.sync_error = StorageError("/data", "fsync", 5)

    answers = [cluster.append(partition, b"v", acks=-1) for partition in partitions]
    while threads.waiting:
        threads.finish(cluster)
    cluster.time.advance(0)

    codes = [answer.result()[0].error_code for answer in answers]
    assert codes == [ErrorCode.NONE] * (MAX_THREADS + 1) + [ErrorCode.KAFKA_STORAGE_ERROR]


def test_a_fault_in_the_worker_itself_is_no_acknowledgement(cluster, threads):
    partition = cluster.lead("t")
    answer = cluster.append(partition, b"v", acks=-1)

    _, future = threads.waiting.pop(0)
    future.set_exception(RuntimeError("planted"))
    cluster.run_callbacks()
    cluster.time.advance(0)

    assert answer.result()[0].error_code is ErrorCode.KAFKA_STORAGE_ERROR


def test_always_lets_acks_one_and_two_replicas_wait_for_the_disk_too(cluster):
    threads = Threads(cluster.loop)
    cluster.replicas.set_group_commit(FlushPolicy.ALWAYS, threads.run)
    partition = cluster.lead("t", isr=(0, 1), replicas=(0, 1))

    answer = cluster.append(partition, b"v", acks=1)
    early = answer.done()
    threads.finish(cluster)

    assert not early
    assert answer.result()[0].error_code is ErrorCode.NONE
    assert partition.log.offsets.recovery_point == 1


def test_who_waits_for_the_disk_of_a_leader_that_follows_is_sent_to_the_next_one(cluster):
    threads = Threads(cluster.loop)
    cluster.replicas.set_group_commit(FlushPolicy.ALWAYS, threads.run)
    partition = cluster.lead("t")
    answer = cluster.append(partition, b"v", acks=1)

    cluster.replicas.leadership.become_leader_or_follower(
        leader_and_isr("t", leader=1, leader_epoch=1, isr=(1,), replicas=(0, 1))
    )
    partition.log.truncate_to(0)  # so no flush ever comes as far as this append
    threads.finish(cluster)
    cluster.time.advance(0)

    assert answer.result()[0].error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert threads.waiting == []


def test_always_flushes_what_nobody_waits_for(cluster):
    threads = Threads(cluster.loop)
    cluster.replicas.set_group_commit(FlushPolicy.ALWAYS, threads.run)
    partition = cluster.lead("t")

    answered_at_once = isinstance(cluster.append(partition, b"v", acks=0), list)
    threads.finish(cluster)

    assert answered_at_once
    assert partition.log.offsets.recovery_point == 1


def test_the_append_that_reaches_flush_messages_waits_for_the_disk(cluster):
    threads = Threads(cluster.loop)
    cluster.replicas.set_group_commit(FlushPolicy.NEVER, threads.run)
    partition = cluster.lead("t")
    partition.log.flush_messages = 3

    before = [isinstance(cluster.append(partition, b"v", acks=1), list) for _ in range(2)]
    third = cluster.append(partition, b"v", acks=1)
    early = third.done()
    threads.finish(cluster)

    assert before == [True, True]
    assert not early
    assert third.result()[0].error_code is ErrorCode.NONE
    assert isinstance(cluster.append(partition, b"v", acks=1), list)


def test_who_waits_for_a_thread_hears_of_a_flush_that_others_began(cluster, threads):
    partitions = [cluster.lead("t", number) for number in range(MAX_THREADS + 1)]
    answers = [cluster.append(partition, b"v", acks=-1) for partition in partitions]
    last = partitions[-1].log
    periodic = last.flushes.begin()

    last.flushes.complete(periodic)
    threads.finish(cluster)
    cluster.time.advance(0)

    assert len(threads.waiting) == MAX_THREADS - 1
    assert answers[-1].result()[0].error_code is ErrorCode.NONE
