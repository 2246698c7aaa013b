"""Whatever members do, a group keeps its promises; the coordinator runs in virtual time."""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kbroker.coordinator.group.coordinated_group import Committer
from kbroker.coordinator.group.group_state import GroupState
from kbroker.coordinator.group.offsets import CommittedOffset
from kbroker.errors import ErrorCode
from kbroker.model import TopicPartition
from kbroker.protocol.messages.heartbeat import HeartbeatRequest
from kbroker.protocol.messages.leave_group import LeaveGroupRequest
from tests.fakes.brokers.group_broker import GroupBroker
from tests.fakes.clusters.replication import Replication

T0 = TopicPartition("t", 0)
REBALANCE_MS = 20_000
SESSION_MS = 10_000
_TURNS = 10  # of the loop, until the replicas have answered


@dataclass
class Client:
    """A client as it sees itself."""

    instance_id: str | None
    member_id: str = ""
    generation_id: int = -1
    is_leader: bool = False
    members: list[str] = field(default_factory=list)
    assignment: bytes | None = None
    join: Any = None
    sync: Any = None


class GroupMachine(RuleBasedStateMachine):
    """Clients join, sync, heartbeat, commit, leave and vanish in any order."""

    clients: list[Client]

    @initialize(delay_ms=st.sampled_from([0, 3000]), mode=st.sampled_from(Replication))
    def start(self, delay_ms: int, mode: Replication) -> None:
        self.loop = asyncio.new_event_loop()
        self.broker = GroupBroker(mode=mode, group_initial_rebalance_delay_ms=delay_ms)
        self.clients = [Client(f"i{at}" if at < 2 else None) for at in range(5)]
        self.highest_generation = 0
        self.handed_out: dict[int, dict[str, bytes]] = {}
        self.committed: set[int | None] = {None}  # several where an answer left it open

    def teardown(self) -> None:
        if hasattr(self, "loop"):
            self.loop.close()

    def request(self, call: Any) -> Any:
        """A call on the loop, which goes on until the replicas have answered: its result, or a
        future of it where it waits for other members.
        """

        async def run() -> Any:
            outcome = call()
            if not inspect.isawaitable(outcome):
                return outcome
            future = asyncio.ensure_future(outcome)
            for _ in range(_TURNS):
                await asyncio.sleep(0)
            return future.result() if future.done() else future

        return self.loop.run_until_complete(run())

    def settle(self) -> None:
        for _ in range(_TURNS):
            self.loop.run_until_complete(asyncio.sleep(0))
        for client in self.clients:
            if isinstance(client.join, asyncio.Future) and client.join.done():
                self.joined(client, client.join.result())
            if isinstance(client.sync, asyncio.Future) and client.sync.done():
                self.synced(client, client.sync.result())

    # ---- what clients do

    @rule(
        order=st.permutations(range(5)),
        count=st.integers(1, 5),
        rounds=st.integers(1, 6),
        version=st.sampled_from([3, 4, 9]),
    )
    def clients_go_on(self, order: list[int], count: int, rounds: int, version: int) -> None:
        """Some clients do, in turn, what a real one does next."""
        for _ in range(rounds):
            for at in order[:count]:
                self.goes_on(at, version)

    def goes_on(self, at: int, version: int) -> None:
        client = self.clients[at]
        if client.generation_id < 0:
            self.joins(at, version)
        elif client.assignment is None:
            self.syncs(at)
        elif not self.is_settled(at):
            self.joins(at, version)
        else:
            self.commits(at, self.highest_generation, 0)

    @rule(at=st.integers(0, 4), version=st.sampled_from([3, 4, 9]))
    def joins(self, at: int, version: int) -> None:
        client = self.clients[at]
        if client.join is not None or client.sync is not None:
            return
        outcome = self.request(
            lambda: self.broker.join(
                "g",
                client.member_id,
                version=version,
                group_instance_id=client.instance_id,
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=REBALANCE_MS,
            )
        )
        if isinstance(outcome, asyncio.Future):
            client.join = outcome
        else:
            self.joined(client, outcome)
        self.settle()

    def joined(self, client: Client, response: Any) -> None:
        client.join = None
        code = ErrorCode(response.error_code)
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = response.member_id
        elif code is ErrorCode.NONE:
            assert response.generation_id >= self.highest_generation
            self.highest_generation = response.generation_id
            client.member_id = response.member_id
            client.generation_id = response.generation_id
            client.is_leader = response.leader == response.member_id
            client.members = [member.member_id for member in response.members]
        else:
            client.member_id, client.generation_id = "", -1
        client.assignment = None

    @rule(at=st.integers(0, 4))
    def syncs(self, at: int) -> None:
        client = self.clients[at]
        if client.join is not None or client.sync is not None or client.generation_id < 0:
            return
        generation_id = client.generation_id
        assignments = {}
        if client.is_leader and client.members:
            owner = client.members[generation_id % len(client.members)]
            assignments = dict.fromkeys(client.members, b"") | {owner: b"t-0"}
        outcome = self.request(
            lambda: self.broker.sync(
                client.member_id,
                generation_id,
                group_instance_id=client.instance_id,
                assignments=assignments,
            )
        )
        if isinstance(outcome, asyncio.Future):
            client.sync = outcome
        else:
            self.synced(client, outcome)
        self.settle()

    def synced(self, client: Client, response: Any) -> None:
        client.sync = None
        if response.error_code == ErrorCode.NONE:
            client.assignment = response.assignment
            handed = self.handed_out.setdefault(client.generation_id, {})
            handed[client.instance_id or client.member_id] = response.assignment
        else:
            client.generation_id = -1

    @rule(at=st.integers(0, 4))
    def heartbeats(self, at: int) -> None:
        self.is_settled(at)

    def is_settled(self, at: int) -> bool:
        """Heartbeat: does the client belong to the current generation, as it thinks?"""
        client = self.clients[at]
        code = self.broker.groups.heartbeat(
            HeartbeatRequest(
                group_id="g",
                member_id=client.member_id,
                group_instance_id=client.instance_id,
                generation_id=client.generation_id,
            )
        )
        if code is ErrorCode.NONE:
            assert client.generation_id == self.group().generation_id
        return code is ErrorCode.NONE

    @rule(at=st.integers(0, 4), value=st.integers(0, 1000), age=st.integers(0, 2))
    def commits(self, at: int, value: int, age: int) -> None:
        client = self.clients[at]
        generation_id = client.generation_id - age
        if generation_id < 0:
            return
        committer = Committer("g", client.member_id, client.instance_id, generation_id)
        offsets = [(T0, CommittedOffset(offset=value, commit_timestamp_ms=0))]
        codes = self.request(lambda: self.broker.groups.offsets.commit(committer, offsets))
        if codes == [ErrorCode.NONE]:
            assert generation_id == self.group().generation_id
            assert client.member_id in self.group().members
            self.committed = {value}
        elif codes == [ErrorCode.REQUEST_TIMED_OUT]:
            self.committed.add(value)

    @rule(at=st.integers(0, 4))
    def leaves(self, at: int) -> None:
        client = self.clients[at]
        if client.join is not None or client.sync is not None or not client.member_id:
            return
        leaving = LeaveGroupRequest.MemberIdentity(
            member_id=client.member_id, group_instance_id=client.instance_id
        )
        self.request(lambda: self.broker.groups.leave_group("g", [leaving]))
        client.member_id, client.generation_id, client.assignment = "", -1, None
        self.settle()

    @rule(at=st.integers(0, 4))
    def process_is_replaced(self, at: int) -> None:
        """The process dies and starts anew: it knows its instance id only."""
        instance_id = self.clients[at].instance_id
        self.clients[at] = Client(instance_id)

    @rule(ms=st.sampled_from([1, 3000, 9_000, 25_000]))
    def time_passes(self, ms: int) -> None:
        self.request(lambda: self.broker.time.advance(ms))
        self.settle()

    @rule()
    def every_rebalance_ends(self) -> None:
        """Left alone, the group comes to rest, and nobody waits for an answer any more."""
        for _ in range(8):
            self.request(lambda: self.broker.time.advance(REBALANCE_MS))
            self.settle()
        assert self.group_state() in (None, GroupState.EMPTY)
        assert all(client.join is None and client.sync is None for client in self.clients)

    @rule()
    def broker_restarts(self) -> None:
        """kill -9: what was acknowledged is there again, whoever waits is not answered."""
        config = {
            "group_initial_rebalance_delay_ms": self.broker.config.group_initial_rebalance_delay_ms
        }
        self.broker = self.request(lambda: self.broker.restarted(**config))
        for client in self.clients:
            client.join = client.sync = None
            client.generation_id = -1
        fetched = self.broker.groups.offsets.fetch("g", None, False)
        found = [value.offset for _, value in fetched]
        assert found in [[] if value is None else [value] for value in self.committed]
        self.committed = {found[0] if found else None}
        self.highest_generation = 0
        self.handed_out.clear()

    # ---- what always holds

    def group(self) -> Any:
        found = self.broker.groups.store.find("g")
        assert found is not None
        return found.group

    def group_state(self) -> GroupState | None:
        found = self.broker.groups.store.find("g")
        return None if found is None else found.group.state

    @invariant()
    def a_partition_has_one_owner_per_generation(self) -> None:
        for handed in getattr(self, "handed_out", {}).values():
            assert sum(assignment == b"t-0" for assignment in handed.values()) <= 1

    @invariant()
    def the_group_is_consistent(self) -> None:
        if not hasattr(self, "broker") or self.group_state() is None:
            return
        group = self.group()
        assert set(group.static_members.values()) <= set(group.members)
        assert (group.leader_id in group.members) == bool(group.members)
        # Only the join phase may go on without members: the initial delay always runs to its end.
        if group.state is not GroupState.PREPARING_REBALANCE:
            assert (group.state is GroupState.EMPTY) == (not group.members)
        assert group.pending_sync_members <= set(group.members)
        assert group.protocol_counts == Counter(
            name for member in group.members.values() for name in member.protocol_names()
        )
        for member_id, member in group.members.items():
            assert member.member_id == member_id
            assert member.join is None or group.state in (
                GroupState.PREPARING_REBALANCE,
                GroupState.STABLE,
            )
            assert member.sync is None or group.state is GroupState.COMPLETING_REBALANCE
            assert member.timer_at_ms, "a member without a session timer would never go"


TestGroupInvariants = GroupMachine.TestCase
TestGroupInvariants.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
