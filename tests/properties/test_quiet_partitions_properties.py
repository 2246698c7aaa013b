"""A follower is told the same, and counts the same, whether its session reads everything or only
what has changed.
"""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kbroker.model import TopicPartition
from kbroker.replication.reads.fetch_session_cache import FetchSessions
from tests.fakes.brokers.fetch_follower import BROKER_ID, FetchFollower
from tests.fakes.clusters.replication_cluster import ReplicationCluster

SIZE = 3
OTHER = 2
REPLICAS = (0, BROKER_ID, OTHER)
INDEXES = st.integers(0, SIZE - 1)


class Isrs:
    """Settles or refuses a proposal when it is told to."""

    def __init__(self) -> None:
        self.open: dict[TopicPartition, tuple] = {}

    def may_join(self, _broker_id: int) -> bool:
        return True

    def propose(self, partition, isr) -> None:
        self.open[partition.topic_partition] = partition, partition.state.leader_epoch, isr


class Side:
    """A leader and its follower."""

    def __init__(self, *, reads_all: bool) -> None:
        self.cluster = ReplicationCluster()
        self.isrs = Isrs()
        self.cluster.replicas.leadership.isr_changes = self.isrs
        if reads_all:
            self.cluster.replicas.fetch_sessions = FetchSessions(10, self.cluster.time)
        for index in range(SIZE):
            self.lead(index, 0, REPLICAS)
        self.follower = FetchFollower(self.cluster, SIZE)

    def lead(self, index: int, epoch: int, isr: tuple[int, ...]) -> None:
        self.cluster.lead("t", index, leader_epoch=epoch, isr=isr, replicas=REPLICAS)

    def partition(self, index: int):
        return self.cluster.replicas.hosted.get(TopicPartition("t", index))

    def append(self, index: int) -> None:
        self.cluster.append(self.partition(index), b"v")

    def other_fetches(self, index: int) -> None:
        partition = self.partition(index)
        now_ms = self.cluster.time.now_ms()
        if partition.follower_fetched(OTHER, partition.log_end_offset, 0, now_ms):
            self.cluster.replicas.waiting.wake(partition.topic_partition)

    def fetch(self, wait_ms: int, appended: list[int]) -> None:
        self.follower.fetch(wait_ms)
        was_waiting = self.follower.is_waiting
        for index in appended:
            self.append(index)
        if was_waiting:
            self.cluster.time.advance(wait_ms)
            self.follower.finish()

    def settle(self, index: int, *, is_accepted: bool) -> None:
        topic_partition = TopicPartition("t", index)
        partition, epoch, isr = self.isrs.open.pop(topic_partition, (None, 0, ()))
        if partition is None or partition.leader_epoch != epoch:
            return
        if is_accepted:
            version = partition.state.partition_epoch + 1
            self.cluster.replicas.isr_settled(topic_partition, isr, version)
        else:
            partition.isr_refused()

    def state(self) -> list[tuple]:
        """All that counts of the partitions."""
        now_ms = self.cluster.time.now_ms()
        return [
            (
                partition.log_end_offset,
                partition.high_watermark,
                partition.state.isr,
                partition.state.pending_isr,
                partition.leader_epoch,
                partition.state.followers[BROKER_ID].log_end_offset,
                partition.state.followers[BROKER_ID].is_caught_up(
                    partition.log_end_offset, now_ms, 30_000
                ),
            )
            for partition in map(self.partition, range(SIZE))
        ]


class QuietAndPlain(RuleBasedStateMachine):
    """Two leaders to which the same happens; one of them has quiet partitions."""

    @initialize()
    def start(self) -> None:
        self.quiet, self.plain = Side(reads_all=False), Side(reads_all=True)
        self.sides = (self.quiet, self.plain)
        self.epochs = dict.fromkeys(range(SIZE), 0)

    def both(self, method: str, *arguments, **fields) -> None:
        for side in self.sides:
            getattr(side, method)(*arguments, **fields)

    @rule(index=INDEXES)
    def append(self, index: int) -> None:
        self.both("append", index)

    @rule(index=INDEXES)
    def other_fetches(self, index: int) -> None:
        self.both("other_fetches", index)

    @rule(wait_ms=st.sampled_from((0, 500)), appended=st.lists(INDEXES, max_size=2, unique=True))
    def fetch(self, wait_ms: int, appended: list[int]) -> None:
        self.both("fetch", wait_ms, appended)
        assert self.quiet.follower.told == self.plain.follower.told

    @rule(delta_ms=st.sampled_from((1_000, 9_000, 29_000, 31_000)))
    def wait(self, delta_ms: int) -> None:
        for side in self.sides:
            side.cluster.time.advance(delta_ms)
            side.cluster.replicas.maybe_shrink_isr()

    @rule(index=INDEXES, is_accepted=st.booleans())
    def settle(self, index: int, is_accepted: bool) -> None:
        self.both("settle", index, is_accepted=is_accepted)

    @rule(index=INDEXES)
    def lead_again(self, index: int) -> None:
        self.epochs[index] += 1
        self.both("lead", index, self.epochs[index], self.plain.partition(index).state.isr)

    @rule()
    def begin_anew(self) -> None:
        for side in self.sides:
            side.follower.begin_anew()

    @rule(index=INDEXES)
    def name_again(self, index: int) -> None:
        for side in self.sides:
            side.follower.follow(index, side.follower.offsets[index])

    @invariant()
    def both_leaders_have_the_same_state(self) -> None:
        assert self.quiet.state() == self.plain.state()

    def teardown(self) -> None:
        for side in self.sides:
            side.cluster.close()


TestQuietAndPlain = QuietAndPlain.TestCase
TestQuietAndPlain.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
