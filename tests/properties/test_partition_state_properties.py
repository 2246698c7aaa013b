"""Whatever happens to a partition, its high watermark never moves back and never passes an in-sync
replica.
"""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kbroker.model import LeaderAndIsr, ReplicaAssignment
from kbroker.replication.partitions.high_watermark import next_high_watermark
from kbroker.replication.partitions.partition_state import PartitionState

REPLICAS = (0, 1, 2)
LAG_MS = 1_000


class LeaderOfThreeReplicas(RuleBasedStateMachine):
    """A leader appends, followers fetch, the ISR shrinks and grows, time passes."""

    @initialize(end_offset=st.integers(0, 5))
    def start(self, end_offset: int) -> None:
        self.now_ms = 0
        self.epoch = 0
        self.end_offset = end_offset
        self.high_watermark = 0
        self.highest_seen = 0
        self.state = PartitionState(local_id=0)
        self.lead(isr=REPLICAS)

    def lead(self, isr: tuple[int, ...]) -> None:
        change = LeaderAndIsr(leader=0, leader_epoch=self.epoch, isr=isr)
        assignment = ReplicaAssignment(replicas=REPLICAS)
        self.state = self.state.as_leader(change, assignment, 1, self.end_offset, self.now_ms)
        self.advance()

    def advance(self) -> None:
        before = self.high_watermark
        self.high_watermark = next_high_watermark(
            self.state,
            before,
            self.end_offset,
            min_insync_replicas=2,
            now_ms=self.now_ms,
            lag_time_max_ms=LAG_MS,
        )
        self.moved = self.high_watermark > before

    @rule(records=st.integers(1, 4))
    def append(self, records: int) -> None:
        self.end_offset += records
        self.advance()

    @rule(broker=st.sampled_from((1, 2)), behind=st.integers(0, 3))
    def fetch(self, broker: int, behind: int) -> None:
        offset = max(0, self.end_offset - behind)
        self.state = self.state.follower_fetched(broker, offset, 0, self.now_ms, self.end_offset)
        expanded = self.state.expanded_isr(broker, self.high_watermark)
        if expanded is not None:
            self.state = self.state.proposing(expanded)
        self.advance()

    @rule(delta_ms=st.integers(1, 2 * LAG_MS))
    def wait(self, delta_ms: int) -> None:
        self.now_ms += delta_ms
        shrunk = self.state.shrunk_isr(
            leader_end_offset=self.end_offset, now_ms=self.now_ms, lag_time_max_ms=LAG_MS
        )
        if shrunk is not None:
            self.state = self.state.proposing(shrunk)

    @rule(accepted=st.booleans())
    def settle(self, accepted: bool) -> None:
        asked = self.state.pending_isr
        if asked is not None:
            isr = asked if accepted else self.state.isr
            self.state = self.state.settled(isr, self.state.partition_epoch + 1)
            self.advance()

    @rule()
    def lead_again(self) -> None:
        self.epoch += 1
        self.lead(self.state.isr)

    @invariant()
    def the_high_watermark_never_moves_back(self) -> None:
        assert self.high_watermark >= self.highest_seen
        assert self.high_watermark <= self.end_offset
        self.highest_seen = self.high_watermark

    @invariant()
    def it_moves_only_to_what_every_in_sync_replica_has(self) -> None:
        if self.moved:
            for broker in self.state.maximal_isr - {0}:
                assert self.state.followers[broker].log_end_offset >= self.high_watermark
        self.moved = False

    @invariant()
    def the_leader_is_in_sync(self) -> None:
        assert 0 in self.state.isr


TestLeaderOfThreeReplicas = LeaderOfThreeReplicas.TestCase
