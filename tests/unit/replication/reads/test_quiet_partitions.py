"""A follower's session reads what has changed, and means the same as if it read everything."""

from __future__ import annotations

import pytest

from kbroker.errors import ErrorCode
from kbroker.model import TopicPartition
from kbroker.replication.reads.fetch_context import FetchContext
from kbroker.replication.reads.quiet_partitions import LOOK_AT_ALL_AFTER_MS
from tests.fakes.brokers.fetch_follower import BROKER_ID, FetchFollower
from tests.fakes.logs.memory_log import MemoryLog

SIZE = 4
REPLICAS = (0, BROKER_ID, 2)


class Isrs:
    """Refuses all, and knows what was proposed."""

    def __init__(self) -> None:
        self.proposed: list[tuple[int, ...]] = []

    def may_join(self, _broker_id: int) -> bool:
        return True

    def propose(self, partition, isr) -> None:
        self.proposed.append(isr)
        partition.isr_refused()


@pytest.fixture
def isrs(cluster) -> Isrs:
    cluster.replicas.leadership.isr_changes = isrs = Isrs()
    return isrs


@pytest.fixture
def partitions(cluster, isrs) -> list:
    return [cluster.lead("t", i, isr=(0, BROKER_ID), replicas=REPLICAS) for i in range(SIZE)]


@pytest.fixture
def follower(cluster, partitions) -> FetchFollower:
    """It has nothing, as its leader, and was told everything."""
    follower = FetchFollower(cluster, SIZE)
    return follower.fetch().fetch()


@pytest.fixture
def reads(monkeypatch) -> list[int]:
    """The partitions whose logs are read."""
    seen: list[int] = []
    read = MemoryLog.read

    def noted(log, *arguments):
        seen.append(log.topic_partition.partition)
        return read(log, *arguments)

    monkeypatch.setattr(MemoryLog, "read", noted)
    return seen


def test_what_has_not_changed_is_not_read(cluster, partitions, follower, reads):
    cluster.append(partitions[2], b"v")

    follower.fetch()

    assert follower.told == {2: (1, 0, 0, 0)}
    assert reads == [2]
    reads.clear()
    follower.fetch()  # which commits the record, after the read
    assert (reads, follower.told) == ([2], {})
    follower.fetch()
    assert (reads, follower.told) == ([2, 2], {2: (0, 1, 0, 0)})
    follower.fetch()
    assert (reads, follower.told) == ([2, 2], {})


def test_a_fetch_that_waits_hears_of_each_partition(cluster, partitions, follower, reads):
    follower.fetch(wait_ms=500)
    assert (follower.is_waiting, reads) == (True, [])

    cluster.append(partitions[1], b"v")
    cluster.time.advance(0)

    assert not follower.is_waiting
    assert follower.finish().told == {1: (1, 0, 0, 0)}
    assert set(reads) == {1}


def test_a_follower_gets_all_that_came_in_one_turn_of_the_loop(
    cluster, partitions, follower, reads
):
    follower.fetch(wait_ms=500)

    for value in (b"a", b"b", b"c"):
        cluster.append(partitions[1], value)
    cluster.append(partitions[2], b"d")
    early = follower.is_waiting
    cluster.time.advance(0)

    assert early
    told = follower.finish().told
    assert {partition: entry[0] for partition, entry in told.items()} == {1: 3, 2: 1}
    assert len(reads) == 3  # a look at the first that came, and one at each for the answer


def test_a_fetch_of_quiet_partitions_waits_for_its_time(cluster, partitions, follower):
    follower.fetch(wait_ms=500)
    cluster.time.advance(499)
    early = follower.is_waiting

    cluster.time.advance(1)

    assert early
    assert follower.finish().told == {}


def test_records_that_come_when_the_answer_is_made_are_not_forgotten(cluster, partitions, follower):
    follower.fetch(wait_ms=500)
    cluster.time.advance(500)
    cluster.append(partitions[3], b"v")  # the answer was read before

    follower.finish()

    assert follower.fetch(wait_ms=500).told == {3: (1, 0, 0, 0)}


def test_a_follower_that_fetches_nothing_new_stays_in_sync(cluster, partitions, follower, isrs):
    for _ in range(120):
        follower.fetch(wait_ms=500)
        cluster.time.advance(500)
        follower.finish()
    cluster.append(partitions[0], b"v")

    cluster.time.advance(29_500)  # half a second went by since the last fetch
    cluster.replicas.maybe_shrink_isr()
    in_time = list(isrs.proposed)
    cluster.time.advance(1)
    cluster.replicas.maybe_shrink_isr()

    assert in_time == []
    assert isrs.proposed == [(0,)]


def test_a_follower_that_has_stopped_leaves_the_isr_though_all_was_quiet(
    cluster, partitions, follower, isrs
):
    cluster.time.advance(60_000)
    cluster.append(partitions[0], b"v")

    cluster.replicas.maybe_shrink_isr()

    assert isrs.proposed == [(0,)]


def test_a_follower_that_may_not_join_yet_is_proposed_with_each_fetch(cluster, isrs):
    cluster.lead("t", isr=(0,), replicas=REPLICAS)
    follower = FetchFollower(cluster, 1).fetch()

    follower.fetch().fetch()

    assert isrs.proposed == [(0, BROKER_ID)] * 3


def test_a_high_watermark_that_another_follower_moves_is_told(cluster, isrs):
    partition = cluster.lead("t", isr=REPLICAS, replicas=REPLICAS)
    follower = FetchFollower(cluster, 1).fetch()
    cluster.append(partition, b"v")
    follower.fetch().fetch().fetch()

    partition.follower_fetched(2, 1, 0, cluster.time.now_ms())
    cluster.replicas.waiting.wake(partition.topic_partition)

    assert follower.fetch().told == {0: (0, 1, 0, 0)}


def test_a_log_start_that_a_client_moves_is_told_when_the_wait_ends(cluster, isrs):
    partition = cluster.lead("t", isr=(0, BROKER_ID), replicas=(0, BROKER_ID))
    follower = FetchFollower(cluster, 1)
    cluster.append(partition, b"v")
    follower.fetch().fetch().fetch().fetch(wait_ms=500)
    assert follower.is_waiting

    deletion = cluster.replicas.deletions.delete({partition.topic_partition: 1}, 1000)
    waiting = cluster.loop.create_task(deletion)
    cluster.run_callbacks()
    cluster.time.advance(500)
    waiting.cancel()

    assert follower.finish().told == {0: (0, 1, 1, 0)}


def test_a_log_start_that_moves_by_itself_is_told_before_long(cluster, partitions, follower):
    partitions[1].log.log_end_offset = partitions[1].log.high_watermark = 0
    partitions[1].log.log_start_offset = -5

    soon = dict(follower.fetch().told)
    cluster.time.advance(LOOK_AT_ALL_AFTER_MS)

    assert soon == {}
    assert follower.fetch().told == {1: (0, 0, -5, 0)}


def test_what_stays_quiet_for_long_is_not_read(cluster, partitions, follower, reads):
    partitions[1].log.log_start_offset = -5

    for _ in range(3):
        cluster.time.advance(LOOK_AT_ALL_AFTER_MS)
        follower.fetch()

    assert set(reads) == {1}


def test_a_partition_that_is_led_elsewhere_is_refused(cluster, partitions, follower):
    follower.fetch(wait_ms=500)

    cluster.lead("t", 1, leader=2, leader_epoch=1, isr=(2,), replicas=REPLICAS)
    cluster.time.advance(0)

    assert follower.finish().told == {1: (0, -1, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER)}
    assert follower.fetch().told.keys() == {1}


def test_a_new_leadership_knows_nothing_of_the_follower_until_it_fetches(
    cluster, partitions, follower
):
    partition = cluster.lead("t", 1, leader_epoch=1, isr=(0, BROKER_ID), replicas=REPLICAS)
    assert partition.state.followers[BROKER_ID].log_end_offset == -1

    follower.fetch()

    assert partition.state.followers[BROKER_ID].log_end_offset == 0


def test_a_partition_that_is_forgotten_is_answered_no_more(cluster, partitions, follower, reads):
    follower.forget(2)
    follower.fetch()
    cluster.append(partitions[2], b"v")

    follower.fetch(wait_ms=500)

    assert follower.is_waiting
    assert 2 not in reads


def test_a_partition_that_is_named_again_is_read_again(cluster, partitions, follower, reads):
    follower.forget(2)
    follower.fetch()
    follower.follow(2)

    follower.fetch()

    assert reads == [2]
    assert follower.told == {2: (0, 0, 0, 0)}


def test_a_partition_that_is_not_there_keeps_nobody_from_waiting(cluster, partitions, follower):
    follower.follow(77)
    assert follower.fetch().told[77][3] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    follower.fetch(wait_ms=500)

    assert follower.is_waiting


def test_another_life_of_the_broker_is_noted_in_all_partitions(cluster, partitions, follower):
    follower.broker_epoch += 1

    follower.fetch()

    assert {p.follower_epoch(BROKER_ID) for p in partitions} == {8}


def test_a_new_session_ends_the_old_one(cluster, partitions, follower, reads):
    old = follower.session_id
    cluster.time.advance(5_000)
    follower.fetch()
    replicas = [p.state.followers[BROKER_ID] for p in partitions]
    assert {r.last_caught_up_time_ms for r in replicas} != {cluster.time.now_ms()}

    # The client says that it ends its session, and fetches all.
    follower.begin_anew()
    follower.session_id = old
    follower.fetch()

    assert len(cluster.replicas.fetch_sessions) == 1
    assert {r.last_caught_up_time_ms for r in replicas} == {cluster.time.now_ms()}
    reads.clear()
    cluster.append(partitions[0], b"v")
    assert follower.fetch().told[0] == (1, 0, 0, 0)


def test_busy_partitions_do_not_starve_others(cluster, partitions, follower):
    follower.max_bytes = 1  # one batch an answer
    served = []
    for _ in range(6):
        for partition in partitions[:3]:
            cluster.append(partition, b"v")
        follower.fetch()
        served += [i for i, told in follower.told.items() if told[0]]

    assert served == [0, 1, 2] * 2


def test_consumers_sessions_read_everything(cluster, partitions, reads):
    context = FetchContext.of(
        cluster.replicas.fetch_sessions,
        FetchFollower(cluster, SIZE).request(),
        15,
        lambda _id: "t",
        is_follower=False,
    )

    assert context.quiet is None
    assert [asked.topic_partition for asked in context.asked_for] == [
        TopicPartition("t", i) for i in range(SIZE)
    ]
