"""Clusters that share access rules, in one process, under one seed: rules change at several brokers
at once while sessions are lost, notifications come late and brokers are killed; what clients may do
is compared with a model of what is in the tree.

    python -m tests.faults.rules_simulation --seeds 1-3000
    python -m tests.faults.rules_simulation --seeds 17 --trace

Everything follows from the seed and the number of steps, as in `cluster_simulation`.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any
from uuid import UUID

from kbroker.acl.acl import AclPattern
from kbroker.model import ReplicaAssignment
from kbroker.zk import zk_paths
from kbroker.zk.nodes.acl_znodes import CHANGE_PREFIX, CHANGES, encode_change
from kbroker.zk.tree import ANY_VERSION, CreateOp, SetOp, TreeError
from kbroker.zk.zk_paths import TopicAssignment
from tests.fakes.trees.simulated_tree import Ensemble, TreeWeather
from tests.faults import cluster_simulation
from tests.faults.cluster_faults import ClusterFaults
from tests.faults.cluster_load import ClusterLoad
from tests.faults.cluster_model import ObservedTree
from tests.faults.cluster_network import ClusterNetwork, NetworkWeather
from tests.faults.cluster_process import BrokerProcess, Machine, SimulatedDisk
from tests.faults.cluster_simulation import ClusterHistory, Outcome, _soon
from tests.faults.rules_clients import TOPICS, RulesClients
from tests.faults.rules_model import PATTERNS, RulesModel, path_of

STEPS = 40
_LOOK_EVERY_TURNS = 100
_SETTINGS = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",
    "auto.create.topics.enable": "false",
}
_SPOILT = (b"{", b'{"version":2,"acls":[]}', b'{"version":1}', b"\xff")
_SETTLED_S = 1.0  # leaders are elected by then, and the first rules known
_FAILING_NOTICE_S = 40.0
_CALM_NOTICE_S = 2.5  # a reading that failed is repeated after a second


class RulesHistory(ClusterHistory):
    """One seed."""

    wishes = ClusterHistory.wishes | {"producer id block", "_Attempts.ask", "_settled"}

    def __init__(self, seed: int, steps: int = STEPS, **named: Any) -> None:
        super().__init__(seed, steps, **named)
        self.random = Random(f"rules/{seed}")
        before = self.model
        self.model: RulesModel = RulesModel(self.loop.time)
        self.model.trace, self.model.tolerated = before.trace, before.tolerated
        self._turns = 0

    # ---- the story

    def _build(self) -> None:
        random = self.random
        self.store = ObservedTree(self.clock)
        self.store.model = self.model
        is_calm = random.random() < 0.5
        slow_s = random.choice((0.2, 1.0))
        weather = TreeWeather(
            random,
            slow=0.0 if is_calm else random.choice((0.05, 0.3)),
            slow_s=slow_s,
            watch_slow=0.0 if is_calm else random.choice((0.1, 0.5)),
            failing=0.0 if is_calm else random.choice((0.0, 0.05)),
        )
        notice_s = _CALM_NOTICE_S if is_calm else 10.0 + 40 * slow_s
        self._fails_later = is_calm and self.seed % 4 == 1
        if self._fails_later:  # operations fail once all serve, and nothing else is wrong
            notice_s = _FAILING_NOTICE_S
        self.model.begin(notice_s)
        self.ensemble = Ensemble(self.store, self.loop, weather)
        network = NetworkWeather(
            random, slow=random.choice((0.0, 0.1)), slow_s=0.5, lost_requests=0.0, lost_answers=0.01
        )
        self.processes: dict[int, BrokerProcess] = {}
        self.network = ClusterNetwork(self.loop, network, self.processes)
        self.faults = ClusterFaults(
            random, self.loop, self.ensemble, self.network, self.model, self._start_later
        )
        self.load = ClusterLoad(random, self.loop, self.store, self.model)
        self.clients = RulesClients(random, self.loop, self.model)
        self._hand = self.store.session()
        self._spoilt: dict[str, bytes | None] = {}
        self.disks = {
            broker_id: SimulatedDisk(self.clock.now_ms)
            for broker_id in range(1, random.choice((2, 3, 3, 4)))
        }

    async def _prepare(self) -> None:
        """By hand: a topic at each broker, as far as they go. And the first rules."""
        brokers = list(self.disks)
        for number, name in enumerate(TOPICS):
            leader = ReplicaAssignment(replicas=(brokers[number % len(brokers)],))
            topic_id = UUID(int=self.random.getrandbits(128))
            assignment = TopicAssignment(topic_id=topic_id, partitions={0: leader})
            data = zk_paths.encode_topic(assignment)
            await self._hand.create(zk_paths.topic_path(name), data, make_parents=True)
        await self._at_one(self.clients.begin)()
        await asyncio.sleep(_SETTLED_S)
        if self._fails_later:
            self.ensemble.weather.failing = 0.2

    def _kinds(self) -> tuple[list[Callable[[], Any]], list[int]]:
        random, faults = self.random, self.faults
        work: dict[Callable[[], Any], int] = {
            self._at_one(self.clients.change): 20,
            self._at_one(self.clients.probe): 20,
            self._read: 12,
            self._through(self.clients.append): 4,
            self._chase: 8,
            self._at_one(self.clients.surprise): 3,
            self._pursue: 4,
            self._absence: 1,
            self._spoil: 2,
        }
        trouble: dict[Callable[[], Any], int] = {
            _soon(faults.kill): 3,
            self._stop_one: 1,
            _soon(faults.pause): 2,
            _soon(faults.suspend): 4,
            _soon(faults.expire): 5,
            _soon(faults.outage): 1,
            _soon(faults.cut_link): 1,
        }
        chosen = {kind: weight for kind, weight in trouble.items() if random.random() < 0.5}
        kinds = work | chosen
        return list(kinds), list(kinds.values())

    def _gap_s(self) -> float:
        random = self.random
        return random.choice((0.0, 0.0, 0.002, 0.01, 0.1, 0.5, 2.0)) * random.random()

    def _at_one(self, act: Callable[[BrokerProcess], None]) -> Callable[[], Any]:
        async def work() -> None:
            running = self._running()
            if running:
                act(self.random.choice(running))

        return work

    async def _read(self) -> None:
        running = self._running()
        if running:
            self.clients.read(running)

    async def _chase(self) -> None:
        running = self._running()
        if running:
            leader = next((p for p in running if p.controller.is_active), running[0])
            first = self.random.choice((leader, self.random.choice(running)))
            self.clients.chase(first, self.random.choice(running))

    async def _pursue(self) -> None:
        running = self._running()
        controller = next((each for each in running if each.controller.is_active), None)
        others = [each for each in running if each is not controller]
        if controller is not None and others:
            self.clients.pursue(controller, self.random.choice(others))

    async def _absence(self) -> None:
        """A broker is away for so long that the notifications of changes are gone."""
        running = self._running()
        if self.model.notice_s > _CALM_NOTICE_S or len(running) < 2:
            return
        process = self.random.choice(running)
        process.tree.expire()
        for _ in range(3):
            self.clients.change(next(each for each in running if each is not process))
        await asyncio.sleep(2 * self.model.notice_s)
        others = [each for each in self.processes.values() if each is not process]
        if all(self.model.has_noticed(each) for each in others) and process.is_alive:
            self.model.say("the notifications are removed as too old")
            for root in CHANGES.values():
                for name in await self._hand.children(root):
                    await self._hand.delete(f"{root}/{name}")
        process.tree.restore()

    async def _spoil(self) -> None:
        """By hand: make a node unreadable, or put back what it had."""
        pattern = self.random.choice(PATTERNS)
        path = path_of(pattern)
        try:
            data, stat = await self._hand.get(path)
            if path in self._spoilt:
                await self._mend(pattern)
                return
            self.model.say(f"by hand: {path} is spoilt")
            await self._edit(pattern, self.random.choice(_SPOILT), stat.version)
            self._spoilt[path] = data
        except TreeError:
            return

    async def _mend(self, pattern: AclPattern) -> None:
        self.model.say(f"by hand: {pattern} is mended")
        await self._edit(pattern, self._spoilt.pop(path_of(pattern)), ANY_VERSION)

    async def _edit(self, pattern: AclPattern, data: bytes | None, version: int) -> None:
        change = f"{CHANGES[pattern.pattern_type]}/{CHANGE_PREFIX}"
        notification = CreateOp(change, encode_change(pattern), sequential=True)
        await self._hand.multi([SetOp(path_of(pattern), data, version), notification])

    # ---- processes

    def _start(self, broker_id: int) -> None:
        super()._start(broker_id)
        process = self.processes.get(broker_id)
        if process is not None and process not in self.model.began:
            self.model.born(process)

    def _machine(self, broker_id: int) -> Machine:
        return replace(super()._machine(broker_id), settings=_SETTINGS)

    # ---- the end

    def _heal(self) -> None:
        super()._heal()
        self.loop.create_task(self._mend_all())

    async def _mend_all(self) -> None:
        for pattern in PATTERNS:
            if path_of(pattern) in self._spoilt:
                await self._mend(pattern)

    def _findings(self) -> list[str]:
        return super()._findings() or [
            f"{process} decides by other rules than those in the tree"
            for process in self.processes.values()
            if process in self.model.seen
            and [frozenset(each) for each in self.model.seen[process].raw]
            != [history[-1][1] for history in self.model.versions]
        ]

    # ---- watching

    def _on_turn(self) -> None:
        super()._on_turn()
        alive = [p for p in self.processes.values() if not p.has_ended]
        self.model.watch(alive)
        self._turns += 1
        if self._turns % _LOOK_EVERY_TURNS == 0:
            for process in alive:
                if process in self.model.seen:
                    self.model.look(process, "now")

    def _count(self, counts: Counter[str]) -> None:
        super()._count(counts)
        if hasattr(self, "clients"):
            counts.update(self.clients.counts)


def hunt(seeds: range, steps: int = STEPS, **named: Any) -> Outcome:
    """Live many histories."""
    return cluster_simulation.hunt(seeds, steps, history=RulesHistory, **named)


if __name__ == "__main__":
    sys.exit(cluster_simulation.main(sys.argv[1:], RulesHistory, __doc__))
