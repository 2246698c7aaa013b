"""Three brokers with three replicas of each partition: leaders, followers and controllers are killed
and sleep through their sessions, sessions end, connections are cut, ZooKeeper servers die and sleep,
again and again, under load. After each fault every replica gets in sync; at the end nothing acknowledged
is lost or doubled, and all replicas have the same bytes.

    python -m compat_tests.cluster.replication_rounds --faults 200 --zookeepers 3

`--kind apache` does the same to Apache Kafka 3.9.2. Needs ss (iproute2) to cut connections.
"""

from __future__ import annotations

import argparse
import logging
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from compat_tests.clients.writers import PARTITIONS, IdempotentKafkaPythonWriter, Writer
from compat_tests.cluster.processes import SESSION_TIMEOUT_MS, Cluster
from compat_tests.cluster.replicas import (
    SETTINGS,
    await_in_sync,
    await_leaders_without,
    await_same_logs,
    create,
)
from compat_tests.faults.kill_rounds import WRITERS, check, read_all
from compat_tests.running.waiting import until
from compat_tests.running.zookeeper_servers import ZooKeeperServers, zookeeper_servers

LED_WITHIN_S = SESSION_TIMEOUT_MS / 1000 + 2
IDEMPOTENT_WRITERS = {**WRITERS, "kafka-python": IdempotentKafkaPythonWriter}
# Each as often as it is named.
FAULTS = (
    *("kill_leader", "kill_leader", "kill_follower", "kill_controller", "kill_and_start"),
    *("pause_leader", "pause_controller", "cut_connections", "cut_controller", "expire_session"),
    *("kill_zookeeper", "pause_zookeeper"),
)


class ReplicationRounds:
    """One cluster under load. `run` raises AssertionError at the first broken promise."""

    def __init__(
        self, cluster: Cluster, seed: int, records_per_s: int, writers: Iterable[str]
    ) -> None:
        self.cluster = cluster
        self.faults: Counter[str] = Counter()
        self.compared_bytes = 0
        self.in_sync_s: list[float] = []  # how long replicas took after each fault
        self.led_s: list[float] = []  # until clients heard of other leaders than one that was gone
        self.silence: tuple[float, str] = (0.0, "no fault")  # the longest, in seconds
        self._draw = random.Random(seed)
        self.writers: list[Writer] = []
        for number, name in enumerate(writers):
            topic = f"load-{name}"
            first = [(n + number) % 3 + 1 for n in range(PARTITIONS)]
            replicas = [[b, b % 3 + 1, (b + 1) % 3 + 1] for b in first]
            create(cluster, topic, *replicas, segment_bytes="1048576")
            self.writers.append(IDEMPOTENT_WRITERS[name](cluster.bootstrap, topic, records_per_s))
        self.topics = [writer.topic for writer in self.writers]

    @property
    def acknowledged(self) -> int:
        """Records of all writers."""
        return sum(writer.acknowledged.count for writer in self.writers)

    def run(self, faults: Iterable[str]) -> None:
        """Every fault once, in the order given; then records and logs are compared."""
        for number, fault in enumerate(faults, start=1):
            self._await_more()
            getattr(self, f"_{fault}")()
            self.faults[fault] += 1
            begin = time.monotonic()
            await_in_sync(self.cluster, *self.topics)
            self.in_sync_s.append(time.monotonic() - begin)
            self._note_silence(fault)
            if number % 10 == 0:
                print(f"{number} rounds: {self.told()}", flush=True)
        self._await_more()
        for writer in self.writers:
            writer.finish()
        self.compared_bytes = await_same_logs(self.cluster, *self.topics)
        for writer in self.writers:
            check(writer, read_all(self.cluster.bootstrap, writer.topic))
        for broker in self.cluster.brokers.values():
            assert "Traceback" not in broker.log_text(), broker.log_text()[-3000:]

    # ---- the faults

    def _kill_leader(self) -> None:
        self._kill_and_go_on_without(self._leader())

    def _kill_follower(self) -> None:
        self._kill_and_go_on_without(self._draw.choice(self.cluster.ids))

    def _kill_controller(self) -> None:
        self._kill_and_go_on_without(self.cluster.controller_id())

    def _kill_and_start(self) -> None:
        """It is back before the others may have noticed."""
        victim = self._leader()
        self.cluster.kill(victim)
        self.cluster.start(victim)

    def _kill_and_go_on_without(self, victim: int) -> None:
        begin = time.monotonic()
        self.cluster.kill(victim)
        self._await_leaders_without(victim)
        self.led_s.append(time.monotonic() - begin)
        self._await_more()
        self.cluster.start(victim)

    def _pause_leader(self) -> None:
        self._pause(self._leader())

    def _pause_controller(self) -> None:
        self._pause(self.cluster.controller_id())

    def _pause(self, victim: int) -> None:
        """A broker sleeps through its session, and wakes when others lead."""
        epoch = self.cluster.tree.broker_epoch(victim) or 0
        begin = time.monotonic()
        self.cluster.pause(victim)
        self._await_leaders_without(victim)
        self.led_s.append(time.monotonic() - begin)
        self._await_more()
        self.cluster.resume(victim)
        until(lambda: self.cluster.is_registered_after(victim, epoch), f"{victim} is back")

    def _expire_session(self) -> None:
        victim = self._draw.choice(self.cluster.ids)
        epoch = self.cluster.expire(victim)
        until(lambda: self.cluster.is_registered_after(victim, epoch), f"{victim} is back")

    def _cut_connections(self) -> None:
        self._cut(self._draw.choice(self.cluster.ids))

    def _cut_controller(self) -> None:
        self._cut(self.cluster.controller_id())

    def _cut(self, victim: int) -> None:
        """All connections of a broker break: of clients, of brokers, and to ZooKeeper. After a fault
        of the only server a broker may still be about to connect to it: then they break again.
        """
        servers = {server.address for server in self.cluster.zookeeper.servers}
        until(
            lambda: servers & set(self.cluster.cut(victim)),
            f"broker {victim} loses its connection to ZooKeeper",
        )

    def _kill_zookeeper(self) -> None:
        """A server of the ensemble dies; where it is the only one, its brokers wait for it."""
        server = self._draw.choice(self.cluster.zookeeper.servers)
        server.kill()
        if len(self.cluster.zookeeper.servers) > 1:
            self._await_more()
        server.start()

    def _pause_zookeeper(self) -> None:
        """A server of the ensemble sleeps for as long as sessions live; one that is alone keeps
        them, for its clock sleeps too.
        """
        server = self._draw.choice(self.cluster.zookeeper.servers)
        server.pause()
        time.sleep(SESSION_TIMEOUT_MS / 1000)
        if len(self.cluster.zookeeper.servers) > 1:
            self._await_more()
        server.resume()

    def _leader(self) -> int:
        topic = self._draw.choice(self.topics)
        return self._draw.choice(sorted(set(self.cluster.tree.leaders(topic).values())))

    def _await_leaders_without(self, victim: int) -> None:
        for topic in self.topics:
            await_leaders_without(self.cluster, topic, victim)

    def _note_silence(self, fault: str) -> None:
        """Keep how long a partition acknowledged nothing, when that is the longest time."""
        for writer in self.writers:
            silence_s = writer.acknowledged.longest_silence_s
            self.silence = max(self.silence, (silence_s, f"{fault}, {writer.topic}"))
            writer.acknowledged.longest_silence_s = 0.0

    def _await_more(self) -> None:
        for writer in self.writers:
            assert writer.errors == [], (writer.topic, writer.errors[:3])
            before = writer.acknowledged.count
            until(
                lambda w=writer, b=before: w.acknowledged.count > b + 50,  # type: ignore[misc]
                f"more is acknowledged in {writer.topic}",
            )

    def told(self) -> str:
        """All figures."""
        in_sync, led = max(self.in_sync_s, default=0.0), sorted(self.led_s) or [0.0]
        return (
            f"{dict(self.faults)}; {self.acknowledged:,} records acknowledged; clients heard of "
            f"other leaders after {led[len(led) // 2]:.1f} s, {led[-1]:.1f} s at most; no partition "
            f"was silent for more than {self.silence[0]:.1f} s ({self.silence[1]}); all replicas in sync after {in_sync:.1f} s "
            f"at most; {self.compared_bytes:,} bytes compared"
        )


def run(
    directory: Path,
    zookeeper: ZooKeeperServers,
    faults: list[str],
    seed: int,
    *,
    kind: str = "kbroker",
    records_per_s: int = 300,
    writers: Iterable[str] = ("librdkafka",),
) -> ReplicationRounds:
    """Start a cluster of three and disturb it."""
    with Cluster(directory, zookeeper, [kind] * 3, SETTINGS, chroot="/replication") as cluster:
        cluster.start()
        rounds = ReplicationRounds(cluster, seed, records_per_s, writers)
        try:
            rounds.run(faults)
        finally:
            print(rounds.told(), flush=True)
        cluster.stop()
        return rounds


def main() -> None:
    """Parse the options and run."""
    parser = argparse.ArgumentParser(prog="python -m compat_tests.cluster.replication_rounds")
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--zookeepers", type=int, default=1, help="servers of the ensemble")
    names = list(IDEMPOTENT_WRITERS)
    parser.add_argument("--writers", nargs="+", choices=names, default=names)
    parser.add_argument("--records-per-s", type=int, default=300)
    parser.add_argument(
        "--led-within-s", type=float, default=LED_WITHIN_S, help="how long leaders may take to move"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", choices=("kbroker", "apache"), default="kbroker")
    parser.add_argument("--keep", type=Path, help="where data and logs are left")
    options = parser.parse_args()
    logging.disable()  # what clients say while they try again
    draw = random.Random(options.seed)
    faults = [draw.choice(FAULTS) for _ in range(options.faults)]
    with tempfile.TemporaryDirectory(prefix="replication-rounds-") as temporary:
        directory = options.keep or Path(temporary)
        folder = directory / "zookeeper"
        with zookeeper_servers(options.zookeepers, directory=folder) as zookeeper:
            rounds = run(
                directory,
                zookeeper,
                faults,
                options.seed,
                kind=options.kind,
                records_per_s=options.records_per_s,
                writers=options.writers,
            )
    slow = [led for led in rounds.led_s if led > options.led_within_s]
    assert not slow, f"leaders moved late, after {max(slow):.1f} s at most, {len(slow)} times"
    print(
        f"{rounds.faults.total()} faults (--seed {options.seed}), {rounds.acknowledged:,} records "
        f"acknowledged: 0 lost, 0 doubled, {rounds.compared_bytes:,} bytes alike on all replicas, "
        f"clients without a leader for {max(rounds.led_s, default=0.0):.1f} s at most"
    )


if __name__ == "__main__":
    main()
