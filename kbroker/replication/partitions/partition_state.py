"""The state of a partition: its leader, its replicas, and those of them that are in sync.

Pure. Law: frozen values and plain arithmetic. A change returns a new state; time and offsets are
arguments. So are the log's end and its high watermark, which change with every append: an append to
a partition with one replica builds no object. Only what a leader knows of its followers changes in
place, because they fetch all the time: the states of one leader epoch share these records, and a
new epoch begins with new ones.

Terms: the *isr* is the one in the partition's state znode. While a change of it is being written,
`pending_isr` is the one asked for, and the high watermark waits for the replicas of both (KIP-497).
Fencing by leader epoch: KIP-320.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kbroker.errors import ErrorCode
from kbroker.model import NO_LEADER, UNKNOWN_BROKER_EPOCH, LeaderAndIsr, ReplicaAssignment

UNKNOWN_OFFSET = -1  # a follower that has not fetched since this broker leads
UNKNOWN_TIME_MS = -1
NO_EPOCH = -1


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class FollowerState:
    """A follower as its leader knows it from its fetches, each of which changes this in place."""

    log_end_offset: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET
    last_fetch_leader_end_offset: int = 0  # the leader's end offset at the follower's last fetch
    last_fetch_time_ms: int = 0
    last_caught_up_time_ms: int = 0  # when it last had all that the leader had
    broker_epoch: int = UNKNOWN_BROKER_EPOCH  # named in its last fetch

    def fetched(
        self, fetch_offset: int, log_start_offset: int, now_ms: int, leader_end_offset: int
    ) -> None:
        """Note that the follower asked for `fetch_offset`: it has all records before that and no
        others. A broker that lost power may come back with fewer in the same leader epoch.

        A follower that asks for what came after the leader's end at its *previous* fetch was caught
        up then: a busy leader is always some records ahead of its follower's newest request.
        """
        caught_up_ms = UNKNOWN_TIME_MS
        if fetch_offset >= leader_end_offset:
            caught_up_ms = now_ms
        elif fetch_offset >= self.last_fetch_leader_end_offset:
            caught_up_ms = self.last_fetch_time_ms
        self.last_caught_up_time_ms = max(self.last_caught_up_time_ms, caught_up_ms)
        self.log_end_offset = fetch_offset
        self.last_fetch_leader_end_offset = max(
            self.last_fetch_leader_end_offset, leader_end_offset
        )
        self.log_start_offset = log_start_offset
        self.last_fetch_time_ms = now_ms

    def had_all(self, end_offset: int, last_fetch_ms: int) -> None:
        """Note that up to `last_fetch_ms` the follower asked for what comes after `end_offset`,
        where the leader's log ended all the while.
        """
        if self.log_end_offset == end_offset and last_fetch_ms > self.last_fetch_time_ms:
            self.fetched(end_offset, self.log_start_offset, last_fetch_ms, end_offset)

    def is_caught_up(self, leader_end_offset: int, now_ms: int, lag_time_max_ms: int) -> bool:
        """Whether it lacks nothing, or lacked nothing within the allowed lag."""
        if self.log_end_offset == leader_end_offset:
            return True
        return now_ms - self.last_caught_up_time_ms <= lag_time_max_ms


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class PartitionState:
    """Leadership of one partition as one broker sees it; at first nothing is known of it."""

    local_id: int
    leader: int = NO_LEADER
    leader_epoch: int = NO_EPOCH
    # Log end offset at which this broker began to lead.
    leader_epoch_start_offset: int = UNKNOWN_OFFSET
    controller_epoch: int = -1
    partition_epoch: int = -1  # version of the state znode
    isr: tuple[int, ...] = ()
    pending_isr: tuple[int, ...] | None = None
    replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    followers: Mapping[int, FollowerState] = field(default_factory=dict)  # kept by the leader only

    @property
    def is_leader(self) -> bool:
        return self.leader == self.local_id

    @property
    def maximal_isr(self) -> frozenset[int]:
        """Replicas of the ISR and of a pending one: the high watermark waits for all of them."""
        return frozenset(self.isr) | frozenset(self.pending_isr or ())

    @property
    def fewest_in_sync(self) -> int:
        """The number of replicas that stay in sync, whatever becomes of a pending ISR."""
        pending = self.pending_isr
        return len(self.isr) if pending is None else min(len(self.isr), len(pending))

    def is_alone_in_sync(self) -> bool:
        """Whether no follower holds the high watermark back, now or soon."""
        return self.isr == (self.local_id,) and self.pending_isr is None and not self.followers

    # Leadership

    def as_leader(
        self,
        change: LeaderAndIsr,
        assignment: ReplicaAssignment,
        controller_epoch: int,
        end_offset: int,
        now_ms: int,
    ) -> PartitionState:
        """The state of a leader at `change.leader_epoch` whose log ends at `end_offset`.

        Followers of an older epoch are forgotten: what they reported may have been cut since. A
        repeated order of the same epoch keeps them. A broker that a move takes away is still a
        follower while it is in the ISR: it could be the next leader if the controller failed now.
        """
        assert change.leader == self.local_id, "made leader by an order that names another broker"
        new_epoch = not self.is_leader or change.leader_epoch > self.leader_epoch
        known: Mapping[int, FollowerState] = {} if new_epoch else self.followers
        followers = self._followers(assignment, change.isr, known, now_ms)
        start_offset = end_offset if new_epoch else self.leader_epoch_start_offset
        state = self._ordered(change, assignment, controller_epoch)
        return replace(state, leader_epoch_start_offset=start_offset, followers=followers)

    def as_assigned(self, assignment: ReplicaAssignment) -> PartitionState:
        """The state of a leader that goes on with other replicas."""
        return replace(
            self,
            replicas=assignment.replicas,
            adding_replicas=assignment.adding_replicas,
            removing_replicas=assignment.removing_replicas,
            followers=self._followers(assignment, self.isr, self.followers, now_ms=0),
        )

    def _followers(
        self,
        assignment: ReplicaAssignment,
        isr: tuple[int, ...],
        known: Mapping[int, FollowerState],
        now_ms: int,
    ) -> dict[int, FollowerState]:
        """The other replicas and whoever else is in sync; new ones in sync are caught up now."""
        return {
            broker: known.get(broker)
            or FollowerState(last_caught_up_time_ms=now_ms if broker in isr else 0)
            for broker in (*assignment.replicas, *isr)
            if broker != self.local_id
        }

    def as_follower(
        self, change: LeaderAndIsr, assignment: ReplicaAssignment, controller_epoch: int
    ) -> PartitionState:
        """The state while another broker leads, or none: it keeps nothing of other replicas."""
        assert change.leader != self.local_id, "made follower by an order that names this broker"
        state = self._ordered(change, assignment, controller_epoch)
        return replace(state, leader_epoch_start_offset=UNKNOWN_OFFSET, followers={})

    def stopped(self) -> PartitionState:
        """The state of a replica out of service, which neither leads nor knows who does."""
        return replace(
            self,
            leader=NO_LEADER,
            leader_epoch_start_offset=UNKNOWN_OFFSET,
            pending_isr=None,
            followers={},
        )

    def _ordered(
        self, change: LeaderAndIsr, assignment: ReplicaAssignment, controller_epoch: int
    ) -> PartitionState:
        return PartitionState(
            local_id=self.local_id,
            leader=change.leader,
            leader_epoch=change.leader_epoch,
            controller_epoch=controller_epoch,
            partition_epoch=change.partition_epoch,
            isr=change.isr,
            replicas=assignment.replicas,
            adding_replicas=assignment.adding_replicas,
            removing_replicas=assignment.removing_replicas,
        )

    # Fencing

    def check_leader_epoch(self, requested_epoch: int) -> ErrorCode:
        """NONE, or why a request that names `requested_epoch` (-1: none) cannot be served."""
        if requested_epoch in (NO_EPOCH, self.leader_epoch):
            return ErrorCode.NONE
        if requested_epoch < self.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH

    def check_access(self, requested_epoch: int, *, leader_only: bool) -> ErrorCode:
        """`check_leader_epoch`, then NOT_LEADER_OR_FOLLOWER if the request needs the leader."""
        fenced = self.check_leader_epoch(requested_epoch)
        if fenced is ErrorCode.NONE and leader_only and not self.is_leader:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return fenced

    # In-sync replicas

    def is_under_min_isr(self, min_insync_replicas: int) -> bool:
        """Whether acks=all has to be refused. A topic with fewer replicas than
        `min.insync.replicas` needs all of them: else it could take no acks=all.
        """
        return len(self.isr) < min(min_insync_replicas, len(self.replicas))

    def follower_fetched(
        self,
        replica_id: int,
        fetch_offset: int,
        log_start_offset: int,
        now_ms: int,
        leader_end_offset: int,
    ) -> PartitionState:
        """Note a follower's fetch, and return this state. Raises KeyError for other brokers."""
        self.followers[replica_id].fetched(
            fetch_offset, log_start_offset, now_ms, leader_end_offset
        )
        return self

    def expanded_isr(self, replica_id: int, high_watermark: int) -> tuple[int, ...] | None:
        """The ISR with `replica_id` added if it has caught up, else None.

        It must have reached the high watermark *and* the offset at which this leader began, or a
        later leader from this ISR could lack records committed before. A replica that a move has
        taken away does not come back.
        """
        if not self.is_leader or self.pending_isr is not None or replica_id in self.isr:
            return None
        if replica_id not in self.replicas:
            return None
        follower = self.followers.get(replica_id)
        if follower is None or follower.log_end_offset < max(
            high_watermark, self.leader_epoch_start_offset
        ):
            return None
        return (*self.isr, replica_id)

    def shrunk_isr(
        self, *, leader_end_offset: int, now_ms: int, lag_time_max_ms: int
    ) -> tuple[int, ...] | None:
        """The ISR without the replicas that lag, or None if none does."""
        if not self.is_leader or self.pending_isr is not None:
            return None
        kept = tuple(
            broker
            for broker in self.isr
            if broker == self.local_id
            or self.followers[broker].is_caught_up(leader_end_offset, now_ms, lag_time_max_ms)
        )
        return kept if kept != self.isr else None

    def proposing(self, isr: tuple[int, ...]) -> PartitionState:
        """The state while a change to `isr` is being written to the state znode."""
        assert self.is_leader, "only the leader changes the ISR"
        assert self.pending_isr is None, "one ISR change at a time"
        assert self.local_id in isr, "a leader never takes itself out of the ISR"
        return replace(self, pending_isr=isr)

    def refused(self) -> PartitionState:
        return replace(self, pending_isr=None)

    def settled(self, isr: tuple[int, ...], partition_epoch: int) -> PartitionState:
        """The state once the znode holds `isr` at a version; an older one changes nothing."""
        if partition_epoch < self.partition_epoch:
            return replace(self, pending_isr=None)
        followers = {
            broker: follower
            for broker, follower in self.followers.items()
            if broker in self.replicas or broker in isr
        }
        return replace(
            self,
            isr=isr,
            pending_isr=None,
            partition_epoch=partition_epoch,
            followers=followers,
        )
