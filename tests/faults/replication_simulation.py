"""Whole clusters with replicated topics and their clients, in one process, under one seed: real
brokers over memory disks that lose power, a network that parts, producers, consumers and groups that
speak to them in bytes, and a ledger of what they were told.

    python -m tests.faults.replication_simulation --seeds 1-1000 --steps 60
    python -m tests.faults.replication_simulation --seeds 17 --trace

Everything follows from the seed and the number of steps, as in `cluster_simulation`.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, Protocol

from kbroker.model import LeaderAndIsr, TopicPartition
from kbroker.zk import zk_paths
from kbroker.zk.embedded.data_tree import DataTree
from tests.fakes.disks.power_disk import PowerDisk
from tests.fakes.disks.simulated_flushes import SimulatedFlushes
from tests.fakes.running.virtual_loop import Owner
from tests.fakes.trees.simulated_tree import Ensemble, TreeWeather
from tests.faults import cluster_simulation
from tests.faults.cluster_faults import ClusterFaults
from tests.faults.cluster_model import ClusterModel, ObservedTree, TopicLife
from tests.faults.cluster_network import NetworkWeather
from tests.faults.cluster_process import BrokerProcess, Machine
from tests.faults.cluster_simulation import KNOWN_ERRORS, ClusterHistory, Outcome, _soon
from tests.faults.replication_admin import ReplicationAdmin, partitions_of
from tests.faults.replication_checks import (
    broken_promises,
    forgotten_commits,
    late_watermarks,
    scan,
)
from tests.faults.replication_clients import ClientMachine, Producer, ProducerKind
from tests.faults.replication_consumers import Committer, Consumer
from tests.faults.replication_faults import ReplicationFaults, registration_of
from tests.faults.replication_ledger import Ledger
from tests.faults.replication_network import NetworkChannels, ReplicationNetwork

SCAN_EVERY_STEPS = 8
START_BOUND_S = 60.0
LAST_WRITES_S = 3.0  # after the last fault; less in a history of fewer steps than these
LAST_WRITES_STEPS = 20
LEARNT_BOUND_S = 60.0
LOOK_EVERY_TURNS = 8  # a second controller lasts longer
CLIENT_NODES = (-1, -2, -3)


class Client(Protocol):
    """Whoever works on a client machine."""

    async def run(self) -> None:
        """Work."""


class ReplicationModel(ClusterModel):
    """Tells the ledger of each leader and ISR that the tree gets."""

    ledger: Ledger

    def _written(self, tree: DataTree, path: str, data: bytes | None, ops: Any) -> None:
        super()._written(tree, path, data, ops)
        if path.endswith("/state") and path.startswith(f"{zk_paths.TOPICS}/") and data:
            parts = path.split("/")
            state = zk_paths.decode_partition_state(path, data, 0)
            leadership: LeaderAndIsr = state.leader_and_isr
            partition = TopicPartition(parts[3], int(parts[5]))
            self.ledger.on_state(partition, leadership, partial(registration_of, tree))


class ReplicationHistory(ClusterHistory):
    """One seed."""

    # Requests wait for these too; no socket server ends them here.
    new_ledger: type[Ledger] = Ledger
    wishes = ClusterHistory.wishes | {"producer id block", "_Attempts.ask", "_settled"}

    def __init__(self, seed: int, steps: int, **named: Any) -> None:
        super().__init__(seed, steps, **named)
        self.random = Random(f"replication/{seed}")
        before = self.model
        self.model = ReplicationModel(self.loop.time)
        self.model.trace, self.model.tolerated = before.trace, before.tolerated
        self.model.ledger = self.ledger = self.new_ledger(self.model, holders=self._holders)
        self.producers: list[Producer] = []
        self.consumers: list[Consumer] = []
        self.committers: list[Committer] = []
        self.loop.look_on(self._on_turn, LOOK_EVERY_TURNS)

    # ---- the story

    def _build(self) -> None:
        random = self.random
        self.store = ObservedTree(self.clock)
        self.store.model = self.model
        calm = TreeWeather(random, slow=0.0, watch_slow=0.0)
        self.ensemble = Ensemble(self.store, self.loop, calm)
        self.processes: dict[int, BrokerProcess] = {}
        mild = NetworkWeather(random, slow=0.0, lost_requests=0.0)
        self.network = ReplicationNetwork(self.loop, mild, self.processes)
        self.faults = ClusterFaults(
            random, self.loop, self.ensemble, self.network, self.model, self._start_later
        )
        count = random.choice((3, 3, 3, 4, 5))
        self.disks = {n: PowerDisk(now_ms=self.clock.now_ms) for n in range(1, count + 1)}
        self.trouble = ReplicationFaults(
            random,
            self.faults,
            self.network,
            self.ledger,
            self.store,
            disks=self.disks,
            clients=CLIENT_NODES,
        )
        self.settings = self._settings(random)
        self.machines = [
            ClientMachine(
                node, self.network, self.ledger, list(self.disks), Random(random.getrandbits(64))
            )
            for node in CLIENT_NODES
        ]
        self.admin = ReplicationAdmin(self.machines[0], self.store)

    def _change_weather(self) -> None:
        random, tree, network = self.random, self.ensemble.weather, self.network.weather
        tree.slow = random.choice((0.0, 0.05, 0.3))
        tree.slow_s = random.choice((0.2, 1.0, 3.0))
        tree.watch_slow = random.choice((0.0, 0.1, 0.5))
        tree.failing = random.choice((0.0, 0.0, 0.01))
        network.slow = random.choice((0.0, 0.05, 0.2))
        network.slow_s = random.choice((0.1, 0.5, 2.0))
        network.lost_requests = random.choice((0.0, 0.002, 0.02))

    def _settings(self, random: Random) -> dict[str, str]:
        """Of all brokers."""
        factor = str(min(3, len(self.disks)))
        return {
            "auto.create.topics.enable": "false",
            "auto.leader.rebalance.enable": random.choice(("true", "false")),
            "leader.imbalance.check.interval.seconds": "15",
            "default.replication.factor": factor,
            "offsets.topic.replication.factor": factor,
            "offsets.topic.num.partitions": "2",
            "min.insync.replicas": "2",
            "unclean.leader.election.enable": "false",
            "kbroker.flush": random.choice(("never", "never", "acks-all", "always")),
            "replica.lag.time.max.ms": random.choice(("2000", "5000", "10000")),
            "replica.fetch.backoff.ms": random.choice(("50", "500")),
            "replica.fetch.wait.max.ms": "500",
            "replica.socket.timeout.ms": "3000",
            "replica.fetch.max.bytes": random.choice(("300", "1048576")),
            "replica.fetch.response.max.bytes": random.choice(("1000", "10485760")),
            "num.replica.fetchers": random.choice(("1", "2")),
            "log.segment.bytes": random.choice(("600", "3000", "100000")),
            "log.index.interval.bytes": "200",
            "log.index.size.max.bytes": "4096",
            "log.segment.delete.delay.ms": "1000",
            "log.cleaner.enable": "false",
        }

    async def _live(self) -> None:
        self._build()
        for broker_id in self.disks:
            self._start(broker_id)
        if not await self._begin():
            self.model.violate("no start", f"{self._running()} serve")
            return
        self._change_weather()
        kinds, weights = self._kinds()
        for number in range(self.steps):
            await self.random.choices(kinds, weights)[0]()
            await asyncio.sleep(self._gap_s())
            if number % SCAN_EVERY_STEPS == 0:
                scan(list(self.processes.values()), self.ledger)
            if self.model.violations:
                return
        await self._rest()
        if not self.model.violations:
            await self._stop_all()

    def _gap_s(self) -> float:
        random = self.random
        return random.choice((0.0, 0.01, 0.1, 0.5, 1.0, 2.0, 6.0)) * random.random()

    async def _begin(self) -> bool:
        """Wait for the brokers, make topics, and let clients begin."""
        topics, settings = self._topics()
        began = self.loop.time()
        waiting = list(topics)
        while self.loop.time() - began < START_BOUND_S:
            await asyncio.sleep(0.5)
            if len(self._running()) < len(self.disks):
                continue
            made = [n for n in waiting if await self.admin.create(n, topics[n], settings[n])]
            waiting = [name for name in waiting if name not in made]
            if not waiting:
                self.admin.partitions = list(partitions_of(topics))
                self._begin_clients()
                return True
        return False

    def _topics(self) -> tuple[dict[str, int], dict[str, dict[str, str]]]:
        """Topics to make, with their partitions and their settings."""
        random = self.random
        topics = {"a": random.randrange(1, 3), "b": 1}
        settings: dict[str, dict[str, str]] = {"a": {}, "b": {}}
        if random.random() < 0.4:
            topics["short"], settings["short"] = 1, {"segment.bytes": "600"}
            if random.random() < 0.5:
                settings["short"] |= {"retention.ms": "8000"}
            self.ledger.shrinking.add("short")
        if random.random() < 0.2:
            topics["rash"] = 1
            settings["rash"] = {"unclean.leader.election.enable": "true"}
            self.ledger.unclean.add("rash")
        return topics, settings

    def _begin_clients(self) -> None:
        random, number = self.random, 0
        for partition in self.admin.partitions:
            kinds = [ProducerKind.IDEMPOTENT]
            kinds += random.sample(list(ProducerKind), random.randrange(0, 3))
            for kind in kinds:
                number += 1
                machine = random.choice(self.machines)
                self.producers.append(Producer(machine, f"p{number}", partition, kind))
            machine = random.choice(self.machines)
            self.consumers.append(Consumer(machine, number, partition))
        for n in range(random.randrange(0, 3)):
            machine, partition = random.choice(self.machines), self.admin.partitions[0]
            self.committers.append(Committer(machine, f"g{n}", partition))
        for client in (*self.producers, *self.consumers, *self.committers):
            self._begin_client(client)

    def _begin_client(self, client: Client) -> asyncio.Task[None]:
        return self.loop.start(self._watched(client), Owner(repr(client)), repr(client))

    async def _watched(self, client: Client) -> None:
        try:
            await client.run()
        except Exception as error:
            self.model.violate("unexpected error", f"{client}: {error!r}")

    def _kinds(self) -> tuple[list[Callable[[], Any]], list[int]]:
        random, faults, trouble, admin = self.random, self.faults, self.trouble, self.admin
        nothing: dict[Callable[[], Any], int] = {_soon(lambda: None): 5}
        choices: dict[Callable[[], Any], int] = {
            _soon(faults.kill): 5,
            _soon(trouble.lose_power): 4,
            self._stop_one: 3,
            _soon(faults.pause): 4,
            _soon(faults.suspend): 3,
            _soon(faults.expire): 3,
            _soon(faults.outage): 1,
            _soon(faults.hold_link): 2,
            _soon(trouble.part): 5,
            _soon(faults.fail_disk): 1,
            _soon(trouble.fill_disk): 1,
            _soon(trouble.fail_sync): 1,
            self._wish(admin.alter_min_isr): 2,
            self._wish(admin.reassign): 3,
            self._wish(admin.elect): 3,
            self._wish(admin.elect_unclean): 1,
            self._wish(admin.elect_by_hand): 1,
            self._wish(admin.reassign_by_hand): 1,
            self._wish(admin.delete_records): 2,
        }
        kinds = nothing | {k: w for k, w in choices.items() if random.random() < 0.5}
        return list(kinds), list(kinds.values())

    def _wish(self, action: Callable[[], Any]) -> Callable[[], Any]:
        """Let somebody ask for it, and wait for no answer."""

        async def act() -> None:
            self.loop.start(action(), self.machines[0].owner, "wish")

        return act

    # ---- processes

    def _machine(self, broker_id: int) -> Machine:
        random = Random(self.random.getrandbits(64))
        disk = self.disks[broker_id]
        assert isinstance(disk, PowerDisk)
        disk.repair()  # a log that finds no room for its recovery waits for the next start
        slow = random.choice((0.0, 0.05, 0.5))
        return Machine(
            broker_id=broker_id,
            disk=disk,
            ensemble=self.ensemble,
            clock=self.clock,
            random=random,
            settings=self.settings,
            boot_id=f"boot {self.trouble.boots[broker_id]}",
            flushes=SimulatedFlushes(self.loop, random, slow, random.choice((0.1, 1.0, 5.0))),
        )

    def _channels(self, process: BrokerProcess) -> NetworkChannels:
        return NetworkChannels(self.network, process)

    # ---- the end

    def _heal(self) -> None:
        super()._heal()
        self.network.open_to_all()
        for disk in self.disks.values():
            assert isinstance(disk, PowerDisk)
            disk.repair()
        self._start_those_with_closed_logs()
        self.loop.start(self.admin.end_changes(), self.machines[0].owner, "wish")
        share = min(1.0, self.steps / LAST_WRITES_STEPS)
        self.loop.call_later(LAST_WRITES_S * share, self._end_clients)

    def _start_those_with_closed_logs(self) -> None:
        for process in list(self.processes.values()):
            if process.is_listening and _has_closed_logs(process):
                self.faults.end(process)
                self._start_later(process.broker_id, 1.0)

    def _end_clients(self) -> None:
        for client in (*self.producers, *self.committers):
            client.is_over = True
        for producer in self.producers:
            producer.is_patient = True

    def _findings(self) -> list[str]:
        self._start_those_with_closed_logs()  # a sync that began in the trouble may fail only now
        findings = super()._findings()
        findings += [
            f"{p} waits for answers" for p in self.producers if not (p.is_over and p.is_done)
        ]
        findings += [repr(c) for c in self.committers if not c.is_done]
        findings += late_watermarks(list(self.processes.values()), self.ledger)
        return findings

    async def _rest(self) -> None:
        await super()._rest()
        processes = list(self.processes.values())
        if not self.model.violations:
            scan(processes, self.ledger)
            for text in broken_promises(processes, self.ledger):
                self.model.violate("broken promise", text)
            await self._ask_committers()
            for text in forgotten_commits(self.committers, self.ledger):
                self.model.violate("commit lost", text)
        for consumer in self.consumers:
            consumer.is_over = True

    async def _ask_committers(self) -> None:
        learning = [
            self.loop.start(committer.learn(), Owner(repr(committer)), repr(committer))
            for committer in self.committers
        ]
        if learning:
            _, pending = await asyncio.wait(learning, timeout=LEARNT_BOUND_S)
            if pending:
                self.model.violate("groups unknown", f"{len(pending)} of {self.committers}")

    def state_of(self, partition: TopicPartition) -> LeaderAndIsr | None:
        """Leader and ISR of a partition, as the tree has them."""
        node = self.store._tree.find(zk_paths.partition_state_path(*partition))
        if node is None or node.data is None:
            return None
        return zk_paths.decode_partition_state("", node.data, 0).leader_and_isr

    # ---- watching

    def _holders(self, partition: TopicPartition, offset: int) -> int:
        """Brokers that have an offset; those that are away, or have lost power or a disk, may have
        had it.
        """
        tainted = self.ledger.book(partition).tainted
        count = 0
        for broker_id in self.disks:
            process = self.processes.get(broker_id)
            if process is None or not process.is_listening or broker_id in tainted:
                count += 1
                continue
            log = process.logs.get_log(partition)
            if log is None:  # an answer may come after the disk that it tells of has failed
                count += bool(process.parts.storage.directories.offline_paths)
                continue
            count += log.log_end_offset > offset
        return count

    def _on_exception(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, KNOWN_ERRORS) or error is None:
            self.model.overhear(f"loop: {context.get('message')} {error!r}")
        else:
            self.model.violate("unexpected error", f"{context.get('message')} {error!r}")

    def _on_topic_gone(self, life: TopicLife) -> None:
        """No topic goes in these histories."""

    def _count(self, counts: Counter[str]) -> None:
        if not hasattr(self, "admin"):
            return
        sources = (
            self.faults.counts,
            self.trouble.counts,
            self.network.counts,
            self.ensemble.counts,
            self.ledger.counts,
        )
        for source in sources:
            for name in source.__slots__:
                counts[name] += getattr(source, name)
        counts["starts"] += self._starts
        counts["reigns"] += len(self.model.epochs)
        counts["cut_messages"] += self.network.cut_messages
        counts["wishes"] += self.admin.asked
        counts["wishes answered"] += self.admin.answered


def _has_closed_logs(process: BrokerProcess) -> bool:
    """Whether a disk has failed, or was full when logs were opened: the next start opens them."""
    logs = process.logs
    return bool(logs._directories.offline_paths or logs._open.closed)


def hunt(seeds: range, steps: int = cluster_simulation.STEPS, **named: Any) -> Outcome:
    """As `cluster_simulation.hunt`, of these histories."""
    return cluster_simulation.hunt(seeds, steps, history=ReplicationHistory, **named)


if __name__ == "__main__":
    sys.exit(cluster_simulation.main(sys.argv[1:], ReplicationHistory, __doc__))
