from __future__ import annotations

import pytest

from kbroker.errors import ErrorCode
from kbroker.log.file_system import StorageError


class Threads:
    """Worker threads that run what they were given when the test says so."""

    def __init__(self, loop) -> None:
        self.loop = loop
        self.waiting: list = []

    def run(self, work):
        future = self.loop.create_future()
        self.waiting.append((work, future))
        return future

    def finish(self, cluster, error=None) -> None:
        work, future = self.waiting.pop(0)
        work()
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)
        cluster.run_callbacks()


@pytest.fixture
def threads(cluster) -> Threads:
    threads = Threads(cluster.loop)
    cluster.replicas.set_group_commit(threads.run)
    return threads


def test_acks_all_waits_for_the_disk_of_a_single_replica(cluster, threads):
    partition = cluster.lead("t")

    answer = cluster.append(partition, b"v", acks=-1)
    early = answer.done()
    threads.finish(cluster)

    assert not early
    assert answer.result()[0].error_code is ErrorCode.NONE
    assert partition.log.recovery_point == 1


def test_acks_one_does_not_wait_for_the_disk(cluster, threads):
    (result,) = cluster.append(cluster.lead("t"), b"v", acks=1)

    assert result.error_code is ErrorCode.NONE
    assert threads.waiting == []


def test_two_in_sync_replicas_need_no_fsync(cluster, threads):
    partition = cluster.lead("t", isr=(0, 1), replicas=(0, 1))
    answer = cluster.append(partition, b"v", acks=-1)

    partition.follower_fetched(1, 1, 0, cluster.time.now_ms())
    cluster.replicas.wake(partition.topic_partition)

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
    assert partition.log.flushes == 2
    assert threads.waiting == []


def test_a_failed_fsync_takes_the_partition_offline_and_is_not_repeated(cluster, threads):
    partition = cluster.lead("t")
    answer = cluster.append(partition, b"v", acks=-1)

    threads.finish(cluster, StorageError("/data", "fsync", 5))
    cluster.time.advance(0)

    assert answer.result()[0].error_code is ErrorCode.KAFKA_STORAGE_ERROR
    assert threads.waiting == []
    assert cluster.append(partition, b"v")[0].error_code is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_slow_disk_ends_in_the_producers_timeout(cluster, threads):
    answer = cluster.append(cluster.lead("t"), b"v", acks=-1, timeout_ms=600)

    cluster.time.advance(600)

    assert answer.result()[0].error_code is ErrorCode.REQUEST_TIMED_OUT
