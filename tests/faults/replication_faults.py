"""What goes wrong in a simulated cluster with clients, beyond `cluster_faults`: power is lost, disks
are full or slow to answer, and the network parts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from kbroker.model import TopicPartition
from kbroker.zk import zk_paths
from kbroker.zk.embedded.data_tree import DataTree
from kbroker.zk.embedded.embedded_tree import EmbeddedTree
from tests.fakes.disks.power_disk import PowerDisk
from tests.faults.cluster_faults import ClusterFaults
from tests.faults.cluster_process import LOG_DIRS, BrokerProcess
from tests.faults.replication_ledger import Ledger
from tests.faults.replication_network import CutKind, Link, ReplicationNetwork

# Names in a directory get to a disk in their order: file systems of today keep a journal of them.
MODES = ("lost", "ordered", "ordered", "sizes only", "data only")
RASH = 0.03  # of the losses of power hit the last replica that could spare them


@dataclass(slots=True)
class ReplicationFaultCounts:
    power_losses: int = 0
    partitions: int = 0
    full_disks: int = 0
    failed_syncs: int = 0


class ReplicationFaults:
    """`base` has the faults of any cluster; `disks` are by broker, `clients` nodes of the network."""

    def __init__(
        self,
        random: Random,
        base: ClusterFaults,
        network: ReplicationNetwork,
        ledger: Ledger,
        store: EmbeddedTree,
        *,
        disks: dict[int, PowerDisk],
        clients: Sequence[int],
    ) -> None:
        self.counts = ReplicationFaultCounts()
        self._random = random
        self._base = base
        self._network = network
        self._ledger = ledger
        self._store = store
        self._disks = disks
        self._clients = tuple(clients)
        self.boots: Counter[int] = Counter()  # of each machine

    def _say(self, text: str) -> None:
        self._ledger.model.say(text)

    # ---- power and disks

    def lose_power(self) -> None:
        """A machine goes off: its disk has what was synced, and some of the rest."""
        process = self._base._any()
        if process is not None:
            self.power_off(process)

    def power_off(self, process: BrokerProcess) -> None:
        """As `lose_power`, of this process, unless it would take the last copy of something."""
        if not (self._is_spared(process) or self._random.random() < RASH):
            return
        self.counts.power_losses += 1
        self.boots[process.broker_id] += 1
        image = process.disk.image(self._random, self._random.choice(MODES))
        assert isinstance(image, PowerDisk)
        self._say(f"{process}: loses power ({image.made_as})")
        registration = registration_of(self._store._tree, process.broker_id)
        replicas = self._replicas_on(process.broker_id)
        self._ledger.lost_power(process.broker_id, replicas, registration)
        self._network.killed(process, silently=True)
        self._base.end(process)
        self._disks[process.broker_id] = image
        self._base.start_later(process.broker_id, self._base._duration_s() * self._random.random())

    def _is_spared(self, process: BrokerProcess) -> bool:
        """Whether each partition has another replica in sync that lives and has lost nothing."""
        alive = {p.broker_id for p in self._base._processes()} - {process.broker_id}
        for partition in self._replicas_on(process.broker_id):
            node = self._store._tree.find(zk_paths.partition_state_path(*partition))
            if node is None or node.data is None:
                continue
            state = zk_paths.decode_partition_state("", node.data, 0)
            isr = set(state.leader_and_isr.isr)
            if process.broker_id in isr and not (
                isr & alive - self._ledger.book(partition).tainted.keys()
            ):
                return False
        return True

    def _replicas_on(self, broker_id: int) -> dict[TopicPartition, int]:
        """Partitions with a replica there, and how many they have."""
        found = {}
        tree = self._store._tree
        topics = tree.find(zk_paths.TOPICS)
        for name in sorted(topics.children) if topics is not None else ():
            node = tree.find(zk_paths.topic_path(name))
            if node is None or node.data is None:
                continue
            assignment = zk_paths.decode_topic(name, node.data)
            found |= {
                TopicPartition(name, number): len(each.replicas)
                for number, each in assignment.partitions.items()
                if broker_id in each.replicas
            }
        return found

    def fill_disk(self) -> None:
        """Nothing grows on a disk for a while."""
        process = self._base._any()
        if process is None or process.disk.is_full:
            return
        self.counts.full_disks += 1
        self._say(f"{process}: its disk is full")
        disk = process.disk
        disk.is_full = True
        self._base._later(self._base._duration_s(), lambda: self._empty(disk))

    def _empty(self, disk: PowerDisk) -> None:
        disk.is_full = False

    def fail_sync(self) -> None:
        """The next sync of one data directory fails."""
        process = self._base._any()
        if process is not None:
            self.counts.failed_syncs += 1
            directory = self._random.choice(LOG_DIRS)
            self._say(f"{process}: a sync of {directory} is to fail")
            process.disk.unsyncable.add(directory)

    # ---- the network

    def part(self) -> None:
        """One of the shapes of a network that parts, for a while."""
        brokers = sorted(self._disks)
        shapes = (
            self._one_alone,
            self._halves,
            self._ring,
            self._leader_from_followers,
            self._one_way,
            self._clients_from_one,
        )
        links = self._random.choice(shapes)(brokers)
        if not links:
            return
        self.counts.partitions += 1
        kind = self._random.choice(tuple(CutKind))
        duration_s = self._base._duration_s()
        self._say(f"cut for {duration_s:.1f} s, what is sent {kind.value}: {links}")
        for link in links:
            cut = self._network.cut(link, kind)
            self._base._later(duration_s, _joining(self._network, link, cut))

    def isolate(self, process: BrokerProcess) -> None:
        """Hold what a broker sends to others, while the tree takes it for gone."""
        duration_s = self._base._duration_s()
        self._say(f"{process}: what it sends to brokers is held for {duration_s:.1f} s")
        self.counts.partitions += 1
        for other in sorted(self._disks.keys() - {process.broker_id}):
            link = (process.broker_id, other)
            cut = self._network.cut(link, CutKind.HELD)
            self._base._later(duration_s, _joining(self._network, link, cut))
        self._base._later(0.0, lambda: self._expire(process))

    def _expire(self, process: BrokerProcess) -> None:
        if process in self._base.running():
            self._base.expire_one(process)

    def part_brokers(self, gone: int) -> Callable[[], None]:
        """Let no followers hear of leaders, among all brokers but one; what is returned ends it."""
        self.counts.partitions += 1
        brokers = sorted(self._disks.keys() - {gone})
        links = [(a, b) for a in brokers for b in brokers if a != b]
        cuts = [(link, self._network.cut(link, CutKind.REFUSED)) for link in links]

        def end() -> None:
            for link, cut in cuts:
                self._network.join(link, cut)

        return end

    def _one_alone(self, brokers: list[int]) -> list[Link]:
        alone = self._random.choice(brokers)
        return _both_ways((alone, other) for other in brokers if other != alone)

    def _halves(self, brokers: list[int]) -> list[Link]:
        mixed = self._random.sample(brokers, len(brokers))
        middle = len(mixed) // 2
        return _both_ways((a, b) for a in mixed[:middle] for b in mixed[middle:])

    def _ring(self, brokers: list[int]) -> list[Link]:
        """Each sees a majority, and no two see the same one."""
        mixed = self._random.sample(brokers, len(brokers))
        count = len(mixed)
        pairs = {
            frozenset((mixed[n], mixed[(n + 1 + step) % count]))
            for n in range(count)
            for step in range(count // 2)
        }
        near = {frozenset((mixed[n], mixed[(n + 1) % count])) for n in range(count)}
        cut = sorted(tuple(sorted(pair)) for pair in pairs - near if len(pair) > 1)
        return _both_ways((a, b) for a, b in cut)

    def _leader_from_followers(self, brokers: list[int]) -> list[Link]:
        """A broker that leads reaches the tree and clients, and no other broker reaches it."""
        leaders = [p for p in self._network.processes.values() if p.is_listening and _leads(p)]
        if not leaders:
            return []
        leader = self._random.choice(leaders).broker_id
        return [(other, leader) for other in brokers if other != leader]

    def _one_way(self, brokers: list[int]) -> list[Link]:
        sender, receiver = self._random.sample(brokers, 2)
        return [(sender, receiver)]

    def _clients_from_one(self, brokers: list[int]) -> list[Link]:
        broker = self._random.choice(brokers)
        return _both_ways((client, broker) for client in self._clients)


def registration_of(tree: DataTree, broker_id: int) -> int:
    """Which registration of a broker the tree has; -1 where it has none."""
    node = tree.find(zk_paths.broker_path(broker_id))
    return -1 if node is None else node.czxid


def _leads(process: BrokerProcess) -> bool:
    return any(partition.is_leader for partition in process.replicas.hosted)


def _both_ways(pairs: Sequence[Link] | object) -> list[Link]:
    return [link for a, b in pairs for link in ((a, b), (b, a))]  # type: ignore[attr-defined]


def _joining(network: ReplicationNetwork, link: Link, cut: object) -> Callable[[], None]:
    return lambda: network.join(link, cut)  # type: ignore[arg-type]
