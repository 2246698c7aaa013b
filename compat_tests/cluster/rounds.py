"""A cluster whose sessions expire, whose ZooKeeper restarts and whose controller is killed, again and
again, under load: after each fault, once it is quiet, the metadata of every broker equals a model.

    python -m compat_tests.cluster.rounds --expiries 100 --zookeeper-restarts 50 --controller-kills 50

`--controller-pauses` lets the controller sleep (SIGSTOP) until another one sits in its place, and
`--zookeepers 3` takes an ensemble of which one server at a time goes.

Load: an idempotent and a plain producer, consumers with and without a group, and an administrator that
creates, deletes, grows and reconfigures topics through all brokers. Clients may see retriable errors
only, and every acknowledged record is at its place at the end: order kept, none of an idempotent
producer twice. `--kind apache` does the same to Apache Kafka 3.9.2.
"""

from __future__ import annotations

import argparse
import logging
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from compat_tests.clients.writers import (
    NOTHING,
    PARTITIONS,
    KafkaPythonWriter,
    LibrdkafkaWriter,
    Places,
    Writer,
)
from compat_tests.cluster.administrator import Administrator
from compat_tests.cluster.model import Model, ModelTopic, differences
from compat_tests.cluster.processes import SESSION_TIMEOUT_MS, Cluster
from compat_tests.cluster.readers import AssignedReader, GroupReader, Reader
from compat_tests.faults.kill_rounds import check, read_all
from compat_tests.running.waiting import PATIENCE_S, until
from compat_tests.running.zookeeper_servers import ZooKeeperServers, zookeeper_servers

QUIET_WITHIN_S = 60
SENTINEL = "sentinel"  # one partition on each broker: shows when a controller acts
SETTINGS = {"auto.create.topics.enable": "false", "log.segment.bytes": "4194304"}


@dataclass
class Figures:
    """What was done and how long it took, in seconds."""

    faults: Counter[str] = field(default_factory=Counter)
    failover_s: list[float] = field(default_factory=list)
    quiet_s: list[float] = field(default_factory=list)
    compared: int = 0

    def percentiles(self, values: list[float]) -> str:
        ordered = sorted(values) or [0.0]
        median, high = ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)]
        return f"median {median:.1f} s, p99 {high:.1f} s, most {ordered[-1]:.1f} s"


class ClusterRounds:
    """One cluster under load. `run` raises AssertionError at the first broken promise."""

    def __init__(self, cluster: Cluster, seed: int, records_per_s: int) -> None:
        self.cluster = cluster
        self.figures = Figures()
        self.draw = random.Random(seed)
        self._fixed: Model = {SENTINEL: ModelTopic(len(cluster.ids))}
        cluster.create_topic(SENTINEL, *cluster.ids)
        bootstrap = cluster.bootstrap
        self.writers: list[Writer] = []
        for kind, leaders in ((LibrdkafkaWriter, (1, 2)), (KafkaPythonWriter, (3, 1))):
            topic = f"load-{kind.__name__}"
            self._fixed[topic] = ModelTopic(PARTITIONS)
            cluster.create_topic(topic, *leaders)
            self.writers.append(kind(bootstrap, topic, records_per_s))
        topics = [writer.topic for writer in self.writers]
        self.readers: list[Reader] = [
            GroupReader(bootstrap, topics), AssignedReader(bootstrap, topics),
        ]  # fmt: skip
        self.administrator = Administrator(cluster, seed)

    def run(self, faults: Iterable[str]) -> None:
        """Every fault once, in the order given; then all records are looked for."""
        for number, fault in enumerate(faults, start=1):
            self.administrator.resume()
            time.sleep(self.draw.uniform(0.2, 1.0))
            getattr(self, f"_{fault}")()
            self.figures.faults[fault] += 1
            self.compare()
            if number % 10 == 0:
                print(f"{number} rounds: {self.told()}", flush=True)
        self._finish()

    # ---- the faults

    def _expiry(self) -> None:
        """The sessions of one, two or all brokers end at once; the controller's more often."""
        ids = self.draw.sample(self.cluster.ids, self.draw.choice((1, 1, 1, 2, 3)))
        if self.draw.random() < 0.5:
            ids = list({self.cluster.controller_id(), *ids})
        before = {number: self.cluster.expire(number) for number in ids}
        for number, epoch in before.items():
            is_new = partial(self.cluster.is_registered_after, number, epoch)
            until(is_new, f"broker {number} is registered anew")

    def _zookeeper(self) -> None:
        """It is gone for less or more than the time-out of sessions."""
        server = self.draw.choice(self.cluster.zookeeper.servers)
        server.kill() if self.draw.random() < 0.5 else server.stop()
        time.sleep(self.draw.choice((0.0, 0.5, 1.5 * SESSION_TIMEOUT_MS / 1000)))
        server.start()

    def _kill(self) -> None:
        """The controller is killed and comes back; in between, another one acts."""
        tree = self.cluster.tree
        until(lambda: tree.broker_ids() == self.cluster.ids, "all brokers are registered")
        old, epoch = self.cluster.controller_id(), tree.controller_epoch()
        begin = time.monotonic()
        self.cluster.kill(old)

        def acts() -> bool:
            state = tree.partition_state(SENTINEL, old - 1)
            return state is not None and (state.leader, state.controller_epoch) == (-1, epoch + 1)

        until(acts, f"a new controller leaves {SENTINEL}-{old - 1} without leader")
        self.figures.failover_s.append(time.monotonic() - begin)
        assert tree.controller_epoch() == epoch + 1
        assert tree.controller_id() != old
        self.cluster.start(old)

    def _pause(self) -> None:
        """The controller sleeps through its session, and wakes when another one acts."""
        tree = self.cluster.tree
        until(lambda: tree.broker_ids() == self.cluster.ids, "all brokers are registered")
        old, epoch = self.cluster.controller_id(), tree.controller_epoch()
        registered = tree.broker_epoch(old) or 0
        self.cluster.pause(old)
        until(lambda: tree.controller_id() not in (None, old), "a new controller")
        time.sleep(self.draw.choice((0.0, 1.0)))
        self.cluster.resume(old)
        until(partial(self.cluster.is_registered_after, old, registered), f"{old} is back")
        assert tree.controller_epoch() == epoch + 1

    # ---- what must be true

    def compare(self) -> None:
        """Wait until nothing changes any more: all brokers, the tree and the model agree."""
        self.administrator.pause()
        begin = time.monotonic()
        model = self._fixed | self.administrator.model
        while left := differences(self.cluster, model):
            waited = time.monotonic() - begin
            assert waited < QUIET_WITHIN_S, "\n".join(left[:20])
            time.sleep(0.05)
        self.figures.quiet_s.append(time.monotonic() - begin)
        self.figures.compared += 1
        self._assert_no_errors()

    def _assert_no_errors(self) -> None:
        clients: list[Administrator | Writer | Reader] = [
            self.administrator,
            *self.writers,
            *self.readers,
        ]
        errors = {type(client).__name__: client.errors[:3] for client in clients if client.errors}
        assert not errors, errors

    def _finish(self) -> None:
        self.administrator.finish()
        for writer in self.writers:
            writer.finish()
            check(writer, read_all(self.cluster.bootstrap, writer.topic))
        for reader in self.readers:
            for writer in self.writers:
                self._wait_until_seen(reader, writer)
            reader.finish()
        self._assert_no_errors()
        for broker in self.cluster.brokers.values():
            assert "Traceback" not in broker.log_text(), broker.log_text()[-3000:]

    def _wait_until_seen(self, reader: Reader, writer: Writer) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while left := unseen(reader.seen[writer.topic], writer.acknowledged):
            assert time.monotonic() < deadline, (
                f"{type(reader).__name__} has not seen {len(left)} records of {writer.topic}, "
                f"the first at {left[0]}, the last at {left[-1]}"
            )
            time.sleep(0.1)

    def told(self) -> str:
        """All figures."""
        acknowledged = sum(writer.acknowledged.count for writer in self.writers)
        figures = self.figures
        return (
            f"{dict(figures.faults)}; {figures.compared} comparisons with 0 differences left, quiet "
            f"after {figures.percentiles(figures.quiet_s)}; controller failover "
            f"{figures.percentiles(figures.failover_s)}; changes {dict(self.administrator.done)}, "
            f"retried {dict(self.administrator.retried)}; {acknowledged:,} records acknowledged"
        )


def unseen(seen: Places, acknowledged: Places) -> list[tuple[int, int]]:
    """Partition and offset of what was acknowledged and not seen."""
    return [
        (partition, offset)
        for partition in range(PARTITIONS)
        for offset, value in enumerate(acknowledged.values[partition])
        if value not in (NOTHING, seen.value_at(partition, offset))
    ]


def run(
    directory: Path, zookeeper: ZooKeeperServers, kind: str, faults: list[str], seed: int,
    records_per_s: int = 300,
) -> ClusterRounds:  # fmt: skip
    """Start a cluster of three and disturb it."""
    with Cluster(directory, zookeeper, [kind] * 3, SETTINGS, chroot="/rounds") as cluster:
        cluster.start()
        rounds = ClusterRounds(cluster, seed, records_per_s)
        try:
            rounds.run(faults)
        finally:
            print(rounds.told(), flush=True)
        cluster.stop()
        return rounds


def main() -> None:
    """Parse the options and run."""
    parser = argparse.ArgumentParser(prog="python -m compat_tests.cluster.rounds")
    parser.add_argument("--expiries", type=int, default=100)
    parser.add_argument("--zookeeper-restarts", type=int, default=50)
    parser.add_argument("--controller-kills", type=int, default=50)
    parser.add_argument("--controller-pauses", type=int, default=0, help="past the session's end")
    parser.add_argument("--zookeepers", type=int, default=1, help="servers of the ensemble")
    parser.add_argument("--records-per-s", type=int, default=300, help="of each producer")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", choices=("kbroker", "apache"), default="kbroker")
    parser.add_argument("--keep", type=Path, help="where data and logs are left")
    options = parser.parse_args()
    logging.disable()  # what clients say while they try again
    faults = (
        ["expiry"] * options.expiries
        + ["zookeeper"] * options.zookeeper_restarts
        + ["kill"] * options.controller_kills
        + ["pause"] * options.controller_pauses
    )
    random.Random(options.seed).shuffle(faults)
    with tempfile.TemporaryDirectory(prefix="cluster-rounds-") as temporary:
        directory = options.keep or Path(temporary)
        folder = directory / "zookeeper"
        with zookeeper_servers(options.zookeepers, directory=folder) as zookeeper:
            run(directory, zookeeper, options.kind, faults, options.seed, options.records_per_s)
    print("nothing was lost, nothing was wrong")


if __name__ == "__main__":
    main()
