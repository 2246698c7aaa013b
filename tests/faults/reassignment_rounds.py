"""Moves of partitions under a seed, while brokers die, stop, come back and lose their sessions, and
the controller with them; and what must hold whatever happened.

    python -m tests.faults.reassignment_rounds --rounds 500

A round prints its seed when it finds something; `--seed N --rounds 1` plays it again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import random
from collections.abc import Awaitable, Callable
from uuid import UUID

from kbroker.controller.state_machines.controller_context import ControllerContext
from kbroker.controller.state_machines.events import Event
from kbroker.controller.state_machines.reassignment_phases import (
    AlterPartitionReassignments,
    origin_replicas,
    target_replicas,
)
from kbroker.controller.state_machines.requested_elections import (
    AutoPreferredReplicaLeaderElection,
    ElectionType,
    ElectLeaders,
)
from kbroker.errors import KafkaError
from kbroker.model import ReplicaAssignment, TopicPartition
from kbroker.zk.nodes.admin_znodes import encode_reassignment
from kbroker.zk.tree import NodeExistsError
from kbroker.zk.zk_paths import REASSIGN_PARTITIONS, TopicAssignment
from tests.fakes.brokers.following_broker import FollowingCluster
from tests.fakes.trees.recording_tree import RecordingTree
from tests.fakes.trees.topic_nodes import create_topic

BROKERS = (0, 1, 2, 3)
PARTITIONS = [TopicPartition("t", number) for number in range(4)]
STEPS = 24
STATE_SUFFIX = "/state"


class Round:
    """One cluster, one seed."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.cluster = FollowingCluster()
        self.tree = RecordingTree(self.cluster.clock)
        self.cluster.tree = self.tree
        self.wanted: dict[TopicPartition, tuple[int, ...]] = {}
        self.is_ordered: dict[TopicPartition, bool] = {}
        self.history: list[str] = []

    async def play(self) -> None:
        """Everything; AssertionError with the history when something does not hold."""
        try:
            await self._begin()
            for _ in range(STEPS):
                await self._step()
            await self._mend()
            self._check()
        except Exception as error:
            raise AssertionError("\n".join([*self.history, repr(error)])) from error
        finally:
            await self.cluster.stop()

    async def _begin(self) -> None:
        for broker_id in BROKERS:
            await self.cluster.start(broker_id)
        partitions = {}
        for partition in PARTITIONS:
            self.wanted[partition] = self._target(BROKERS)
            self.is_ordered[partition] = True
            replicas = ReplicaAssignment(replicas=self.wanted[partition])
            partitions[partition.partition] = replicas
        topic = TopicAssignment(topic_id=UUID(int=7), partitions=partitions)
        await create_topic(self.cluster.controller.zk, "t", topic)
        await self.cluster.settle()

    async def _step(self) -> None:
        steps: list[tuple[int, Callable[[], Awaitable[str]]]] = [
            (5, self._move), (2, self._move_by_node), (2, self._call_off), (3, self._kill),
            (3, self._start), (1, self._stop), (2, self._expire), (2, self._slow_down),
            (4, self._catch_up), (1, self._elect), (1, self._balance),
        ]  # fmt: skip
        weights, choices = zip(*steps, strict=True)
        (step,) = self.rng.choices(choices, weights)
        self.history.append(await step())
        # Often the next thing happens while the last one is still being worked.
        if self.rng.random() < 0.5:
            await self.cluster.settle()
        else:
            for _ in range(self.rng.randrange(30)):
                await asyncio.sleep(0)

    # ---- steps

    async def _move(self) -> str:
        partition = self.rng.choice(PARTITIONS)
        target = self._target(tuple(self.cluster.brokers))
        answer = await self._ask(AlterPartitionReassignments({partition: target}))
        if answer == {partition: None}:
            self.wanted[partition], self.is_ordered[partition] = target, True
        return f"move {partition} to {target}: {answer}"

    async def _move_by_node(self) -> str:
        targets = {p: self._target(BROKERS) for p in self.rng.sample(PARTITIONS, 2)}
        session = next(iter(self.cluster.brokers.values())).session
        try:
            await session.create(REASSIGN_PARTITIONS, encode_reassignment(targets))
        except NodeExistsError:
            return "there is a node already"
        await self.cluster.settle()
        context = self._context()
        assert context is not None, "somebody lives and is controller"
        for partition, target in targets.items():
            if target_replicas(context.assignment(partition)) == target:  # else it was refused
                self.wanted[partition], self.is_ordered[partition] = target, True
        return f"move by node {targets}"

    async def _call_off(self) -> str:
        partition = self.rng.choice(PARTITIONS)
        await self.cluster.settle()
        context = self._context()
        if context is None:
            return "no controller to ask"
        origin = origin_replicas(context.assignment(partition))
        answer = await self._ask(AlterPartitionReassignments({partition: None}))
        if answer == {partition: None}:
            self.wanted[partition], self.is_ordered[partition] = origin, False
        return f"call {partition} off: {answer}"

    async def _kill(self) -> str:
        if len(self.cluster.brokers) <= 2:
            return "enough are dead"
        broker_id = self.rng.choice(list(self.cluster.brokers))
        self.cluster.brokers[broker_id].kill()
        return f"kill {broker_id}"

    async def _stop(self) -> str:
        broker_id = self.rng.choice(list(self.cluster.brokers))
        await self.cluster.settle()
        try:
            await self.cluster.controller.controller.controlled_shutdown(broker_id)
        except (KafkaError, StopIteration) as error:
            return f"cannot stop {broker_id}: {error!r}"
        if len(self.cluster.brokers) > 2:
            await self.cluster.brokers.pop(broker_id).stop()
        else:  # it changes its mind: its next life begins
            session = self.cluster.brokers[broker_id].session
            session.expire()
            session.renew()
        return f"stop {broker_id}"

    async def _start(self) -> str:
        dead = sorted(set(BROKERS) - set(self.cluster.brokers))
        if not dead:
            return "all live"
        broker_id = self.rng.choice(dead)
        await self.cluster.start(broker_id)
        return f"start {broker_id}"

    async def _expire(self) -> str:
        broker_id = self.rng.choice(list(self.cluster.brokers))
        session = self.cluster.brokers[broker_id].session
        session.expire()
        session.renew()
        return f"the session of {broker_id} ends"

    async def _slow_down(self) -> str:
        broker = self.rng.choice(self.cluster.following())
        broker.is_slow = not broker.is_slow
        return f"{broker.broker_id} is {'slow' if broker.is_slow else 'quick'}"

    async def _catch_up(self) -> str:
        await self.cluster.settle()
        if self._context() is None:
            return "no controller to ask"
        await self.cluster.catch_up()
        return "catch up"

    async def _elect(self) -> str:
        every = frozenset(PARTITIONS)
        return f"elect: {await self._ask(ElectLeaders(every, ElectionType.PREFERRED))}"

    async def _balance(self) -> str:
        return f"balance: {await self._ask(AutoPreferredReplicaLeaderElection())}"

    async def _ask(self, event: Event) -> object:
        active = [b for b in self.cluster.brokers.values() if b.controller.is_active]
        if not active:
            return "nobody is controller"
        try:
            return await active[0].controller.ask(event)
        except KafkaError as error:
            return error

    def _context(self) -> ControllerContext | None:
        active = [b for b in self.cluster.brokers.values() if b.controller.is_active]
        return active[0].controller.context if active else None

    def _target(self, brokers: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(self.rng.sample(brokers, self.rng.randint(1, min(3, len(brokers)))))

    # ---- what must hold

    async def _mend(self) -> None:
        """All brokers live and all followers have everything."""
        for broker_id in BROKERS:
            if broker_id not in self.cluster.brokers:
                await self.cluster.start(broker_id)
        for _ in range(3):
            for broker in self.cluster.following():
                broker.is_slow = False
            await self.cluster.settle()
            await self.cluster.catch_up()
        context = self._context()
        assert context is not None
        assert [p for p in PARTITIONS if context.leadership[p].leader_and_isr.leader < 0] == []
        await self._elect()
        await self.cluster.settle()

    def _check(self) -> None:
        nodes = {path: data for path, data, _ in self.tree.dump()}
        assert REASSIGN_PARTITIONS not in nodes, nodes[REASSIGN_PARTITIONS]
        topic = json.loads(nodes["/brokers/topics/t"] or b"")
        assert (topic["adding_replicas"], topic["removing_replicas"]) == ({}, {})
        for partition in PARTITIONS:
            replicas = topic["partitions"][str(partition.partition)]
            wanted = list(self.wanted[partition])
            is_right = replicas == wanted or (
                not self.is_ordered[partition] and set(replicas) == set(wanted)
            )
            assert is_right, f"{partition}: {replicas}, wanted {wanted}"
            path = f"/brokers/topics/t/partitions/{partition.partition}/state"
            state = json.loads(nodes[path] or b"")
            assert set(state["isr"]) == set(replicas), f"{partition}: {state}, {replicas}"
            assert state["leader"] == replicas[0], f"{partition}: {state}, {replicas}"
            # A broker that was not registered when it lost a replica may keep it, as in Kafka.
            held = {b.broker_id for b in self.cluster.following() if partition in b.replicas}
            assert set(replicas) <= held, f"{partition}: {held}, {replicas}"
        self._check_epochs()

    def _check_epochs(self) -> None:
        """Leader epochs never fall, and each has one leader."""
        latest: dict[str, int] = {}
        leaders: dict[tuple[str, int], int] = {}
        for transaction in self.tree.transactions:
            for write in transaction.writes:
                if not write.path.endswith(STATE_SUFFIX) or write.data is None:
                    continue
                state = json.loads(write.data)
                epoch, leader = state["leader_epoch"], state["leader"]
                assert epoch >= latest.get(write.path, -1), f"{write} after {latest[write.path]}"
                latest[write.path] = epoch
                known = leaders.setdefault((write.path, epoch), leader)
                assert known == leader, f"{write}: {known} has led at this epoch"


def play(seed: int) -> None:
    """One round; raises AssertionError."""
    asyncio.run(Round(seed).play())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    for seed in range(options.seed, options.seed + options.rounds):
        try:
            play(seed)
        except AssertionError as error:
            print(f"seed {seed}:\n{error}")
            raise SystemExit(1) from error
    print(f"{options.rounds} rounds, nothing found")


if __name__ == "__main__":
    main()
