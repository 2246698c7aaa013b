"""Brokers of kbroker and of Apache Kafka 3.9.2 that hold the same partitions, under load: brokers of
either kind are killed, sleep and restart, leaders and the controller move from one kind to the other,
and brokers are replaced by the other kind on their own directories. After each fault every replica
gets in sync; at the end nothing acknowledged is lost or doubled, no group has lost a commit, and all
replicas have the same bytes.

    python -m compat_tests.cluster.mixed_rounds --kinds kbroker,kbroker,apache --faults 60
    python -m compat_tests.cluster.mixed_rounds --kinds apache,apache,apache --replace
    python -m compat_tests.cluster.mixed_rounds --inside SASL_SSL:SCRAM-SHA-256 --only kill_leader,kill_controller
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, TopicPartition

from compat_tests.clients.program_writers import JavaWriter
from compat_tests.clients.writers import LibrdkafkaWriter, Writer
from compat_tests.cluster.diverging import diverge, fall_behind
from compat_tests.cluster.inside import Inside
from compat_tests.cluster.processes import Cluster
from compat_tests.cluster.replicas import (
    SETTINGS,
    await_coordinator,
    await_in_sync,
    await_leaders_without,
    await_same_logs,
    create,
    elect_preferred,
    reassign,
)
from compat_tests.commands.tool_runner import run_tool
from compat_tests.faults.kill_rounds import check, read_all
from compat_tests.running.apache_kafka import ZOOKEEPER_LINE
from compat_tests.running.waiting import until
from compat_tests.running.zookeeper_servers import ZooKeeperServers, zookeeper_servers
from kbroker.errors import ErrorCode

GROUP = "mixed"
OFFSETS = "__consumer_offsets"
# The coordinator is read, not there yet, or has just moved: librdkafka reports them now and then.
_ELSEWHERE = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}
KINDS = ("kbroker", "apache")
FAULTS = ("kill_leader", "kill_follower", "kill_and_start", "kill_controller", "pause_leader",
          "restart", "move_leaders", "move_controller", "move_coordinator", "move_replicas", "replace",
          "kill_and_replace", "use_tools", "diverge", "fall_behind")  # fmt: skip


class MixedRounds:
    """One cluster under load. `run` raises AssertionError at the first broken promise."""

    def __init__(
        self, cluster: Cluster, seed: int, writers: Mapping[str, Callable[[str], Writer]]
    ) -> None:
        """Create the topics of these writers, and let them write."""
        self.cluster = cluster
        self.faults: Counter[str] = Counter()
        self.compared_bytes = 0
        self.in_sync_s: list[float] = []
        self._draw = random.Random(seed)
        self._committed = 0
        self.topics = list(writers)
        for topic in self.topics:
            create(cluster, topic, *self._orders(), segment_bytes="262144")
        await_coordinator(cluster, GROUP)
        await_in_sync(cluster, OFFSETS)
        self.writers = [make(topic) for topic, make in writers.items()]

    def run(self, faults: Iterable[str]) -> None:
        """Every fault once, in the order given; then records and logs are compared."""
        for number, fault in enumerate(faults, start=1):
            self._await_more()
            getattr(self, f"_{fault}")()
            self._settle(fault)
            if number % 10 == 0:
                print(f"{number} rounds: {self.told()}", flush=True)
        self._await_more()
        self._finish()

    def replace_all(self, kind: str) -> None:
        """Put a broker of another kind on each directory in turn, under load."""
        for number in self.cluster.ids:
            self._await_more()
            self.cluster.become(number, kind)
            self._settle(f"become_{kind}")

    def _settle(self, fault: str) -> None:
        self.faults[fault] += 1
        begin = time.monotonic()
        await_in_sync(self.cluster, *self.topics, OFFSETS)
        self.in_sync_s.append(time.monotonic() - begin)
        self._commit()

    def _finish(self) -> None:
        for writer in self.writers:
            writer.finish()
        self.compared_bytes = await_same_logs(self.cluster, *self.topics, OFFSETS)
        for writer in self.writers:
            check(writer, read_all(self.cluster.bootstrap, writer.topic))
        for broker in self.cluster.brokers.values():
            assert "Traceback" not in broker.log_text(), broker.log_text()[-3000:]

    # ---- the faults

    def _kill_leader(self) -> None:
        self._kill_and_go_on_without(self._leader())

    def _kill_follower(self) -> None:
        leaders = set(self.cluster.tree.leaders(self.topics[0]).values())
        self._kill_and_go_on_without(
            self._draw.choice([b for b in self.cluster.ids if b not in leaders] or [1])
        )

    def _kill_controller(self) -> None:
        self._kill_and_go_on_without(self.cluster.controller_id())

    def _kill_and_start(self) -> None:
        victim = self._leader()
        self.cluster.kill(victim)
        self.cluster.start(victim)

    def _kill_and_go_on_without(self, victim: int) -> None:
        self.cluster.kill(victim)
        for topic in self.topics:
            await_leaders_without(self.cluster, topic, victim)
        self._await_more()
        self.cluster.start(victim)

    def _pause_leader(self) -> None:
        """A leader sleeps through its session, and wakes when another one leads."""
        victim = self._leader()
        epoch = self.cluster.tree.broker_epoch(victim) or 0
        self.cluster.pause(victim)
        for topic in self.topics:
            await_leaders_without(self.cluster, topic, victim)
        self._await_more()
        self.cluster.resume(victim)
        until(lambda: self.cluster.is_registered_after(victim, epoch), f"{victim} is back")

    def _restart(self) -> None:
        self.cluster.restart(self._draw.choice(self.cluster.ids))

    def _replace(self) -> None:
        """A broker stops, and one of the other kind takes its place and its directory."""
        number = self._draw.choice(self.cluster.ids)
        self.cluster.become(number, self._other_kind(number))

    def _kill_and_replace(self) -> None:
        number = self._draw.choice(self.cluster.ids)
        self.cluster.kill(number)
        self.cluster.become(number, self._other_kind(number))

    def _other_kind(self, number: int) -> str:
        return next(kind for kind in KINDS if kind != self.cluster.kinds[number])

    def _move_controller(self) -> None:
        now = self.cluster.kinds[self.cluster.controller_id()]
        self.cluster.make_controller(self._draw.choice(self._others(now)))

    def _move_leaders(self) -> None:
        """Every partition is led by a broker of the other kind."""
        for topic in self.topics:
            self._lead(topic)

    def _move_coordinator(self) -> None:
        self._lead(OFFSETS)

    def _lead(self, topic: str) -> None:
        leaders = self.cluster.tree.leaders(topic)
        wanted = {}
        for number, leader in leaders.items():
            first = self._draw.choice(self._others(self.cluster.kinds[leader]))
            wanted[number] = [first, *(b for b in self.cluster.ids if b != first)]
        reassign(self.cluster, topic, wanted)
        elect_preferred(self.cluster, topic, *wanted)
        self.cluster.wait_for_leaders(topic, {n: ids[0] for n, ids in wanted.items()})

    def _move_replicas(self) -> None:
        """A replica goes from one broker, which deletes it, and comes back empty."""
        topic = self._draw.choice(self.topics)
        gone = self._draw.choice(self.cluster.ids)
        rest = [b for b in self.cluster.ids if b != gone]
        if len(rest) < 2:
            return
        reassign(self.cluster, topic, {0: rest, 1: rest})
        self._await_more()
        reassign(self.cluster, topic, dict(enumerate(self._orders())))

    def _diverge(self) -> None:
        diverge(self.cluster, f"diverge-{self.faults.total()}", *self._pair(), self._draw)

    def _fall_behind(self) -> None:
        fall_behind(self.cluster, f"behind-{self.faults.total()}", *self._pair(), self._draw)

    def _pair(self) -> tuple[int, int]:
        first = self._draw.choice(self.cluster.ids)
        others = [b for b in self._others(self.cluster.kinds[first]) if b != first]
        return first, self._draw.choice(others)

    def _use_tools(self) -> None:
        """Apache Kafka's tools, through one broker: a replica moves away and back, the first
        replicas are elected, a setting is changed, and the topic described.
        """
        topic, through = self._draw.choice(self.topics), self._draw.choice(self.cluster.ids)
        address = self.cluster.address(through)
        gone = self._draw.choice(self.cluster.ids)
        orders = self._orders()
        self._reassign_with_tool(address, topic, [[b for b in o if b != gone] for o in orders])
        self._await_more()
        self._reassign_with_tool(address, topic, orders)
        await_in_sync(self.cluster, topic)
        tool("LeaderElectionCommand", address, "--election-type", "preferred",
             "--all-topic-partitions")  # fmt: skip
        leaders = {number: order[0] for number, order in enumerate(orders)}
        self.cluster.wait_for_leaders(topic, leaders)
        # Not segment.bytes: a follower of Apache Kafka refuses what comes of larger old segments.
        value = str(self._draw.randint(400_000_000, 800_000_000))
        tool("kafka.admin.ConfigCommand", address, "--alter", "--topic", topic,
             "--add-config", f"retention.ms={value}")  # fmt: skip
        until(lambda: self.cluster.tree.config("topics", topic)["retention.ms"] == value)
        told = tool("TopicCommand", address, "--describe", "--topic", topic)
        for number, leader in leaders.items():
            assert f"Partition: {number}\tLeader: {leader}\t" in told, told

    def _reassign_with_tool(self, address: str, topic: str, orders: list[list[int]]) -> None:
        partitions = [
            {"topic": topic, "partition": number, "replicas": ids}
            for number, ids in enumerate(orders)
        ]
        plan = self.cluster.directory / "reassignment.json"
        plan.write_text(json.dumps({"version": 1, "partitions": partitions}))
        name, file = "reassign.ReassignPartitionsCommand", ("--reassignment-json-file", str(plan))
        tool(name, address, "--execute", *file)
        until(
            lambda: "still in progress" not in tool(name, address, "--verify", *file),
            f"{topic} is moved to {orders}",
        )

    def _orders(self) -> list[list[int]]:
        ids = self.cluster.ids
        return [ids, ids[1:] + ids[:1]]

    def _others(self, kind: str) -> list[int]:
        kinds = self.cluster.kinds
        return [b for b in self.cluster.ids if kinds[b] != kind] or self.cluster.ids

    def _leader(self) -> int:
        return self._draw.choice(sorted(set(self.cluster.tree.leaders(self.topics[0]).values())))

    # ---- what must be true

    def _commit(self) -> None:
        """The group has what it committed after the fault before, and commits more."""
        partition = TopicPartition(self.topics[0], 0, self._committed + 1)
        consumer = Consumer({"bootstrap.servers": self.cluster.bootstrap, "group.id": GROUP})

        def committed() -> bool:
            try:
                if self._committed:
                    (found,) = consumer.committed([partition], timeout=20)
                    assert found.offset == self._committed, (found, self._committed)
                consumer.commit(offsets=[partition], asynchronous=False)
            except KafkaException as error:
                code = error.args[0].code()
                if error.args[0].retriable() or code < 0 or code in _ELSEWHERE:
                    return False
                raise
            return True

        until(committed, "offsets are committed")
        self._committed += 1
        consumer.close()

    def _await_more(self) -> None:
        for writer in self.writers:
            assert writer.errors == [], (writer.topic, writer.errors[:3])
            before = writer.acknowledged.count
            until(
                lambda w=writer, n=before: w.acknowledged.count > n + 50,  # type: ignore[misc]
                f"more of {writer.topic} is acknowledged",
            )

    def told(self) -> str:
        """All figures."""
        counts = {writer.topic: writer.acknowledged.count for writer in self.writers}
        return (
            f"{dict(self.faults)}; acknowledged {counts}; {self._committed} commits; all replicas "
            f"in sync after {max(self.in_sync_s, default=0.0):.1f} s at most; "
            f"{self.compared_bytes:,} bytes compared"
        )


def tool(name: str, bootstrap: str, *args: str) -> str:
    """The output of one of Apache Kafka's tools."""
    main_class = name if name.startswith("kafka.") else f"org.apache.kafka.tools.{name}"
    done = run_tool(main_class, "--bootstrap-server", bootstrap, *args, version=ZOOKEEPER_LINE)
    assert done.returncode == 0, (name, args, done.stdout[-1500:] + done.stderr[-1500:])
    return done.stdout


def run(
    directory: Path, zookeeper: ZooKeeperServers, kinds: Sequence[str], faults: Sequence[str],
    seed: int, *, records_per_s: int = 300, has_java: bool = True, is_replaced: bool = False,
    protocol: str = "3.9", inside: Inside | None = None,
) -> MixedRounds:  # fmt: skip
    """Start a cluster, disturb it, and with `is_replaced` let every broker become one of the other
    kind and one of its own again. Brokers talk to each other at `inside`, if there is one.
    """
    settings = SETTINGS | {
        "offsets.topic.replication.factor": str(len(kinds)),
        "default.replication.factor": str(len(kinds)),
        "min.insync.replicas": str(len(kinds) - 1),
        "inter.broker.protocol.version": protocol,
    }
    own_settings = None
    if inside is not None:
        settings |= inside.common()
        own_settings = inside.listeners
    with Cluster(
        directory, zookeeper, kinds, settings, chroot="/mixed-rounds", own_settings=own_settings
    ) as cluster:
        if inside is not None:
            inside.make_user(cluster)
        cluster.start()
        kinds_of_writers: dict[str, type[LibrdkafkaWriter | JavaWriter]] = {
            "load": LibrdkafkaWriter
        }
        if has_java:
            kinds_of_writers["load-java"] = JavaWriter
        writers = {
            topic: partial(make, cluster.bootstrap, records_per_s=records_per_s)
            for topic, make in kinds_of_writers.items()
        }
        rounds = MixedRounds(cluster, seed, writers)
        try:
            if is_replaced:
                rounds.replace_all("kbroker")
                rounds.replace_all("apache")
            rounds.run(faults)
        finally:
            print(rounds.told(), flush=True)
        return rounds


def main() -> None:
    """Parse the options and run."""
    parser = argparse.ArgumentParser(prog="python -m compat_tests.cluster.mixed_rounds")
    parser.add_argument("--kinds", default="kbroker,kbroker,apache", help="of the brokers")
    parser.add_argument("--faults", type=int, default=60)
    parser.add_argument("--only", default=",".join(FAULTS), help="the faults to draw from")
    parser.add_argument("--replace", action="store_true", help="first let each become the other")
    parser.add_argument("--protocol", default="3.9", help="inter.broker.protocol.version")
    parser.add_argument("--inside", help="how brokers talk to each other, PROTOCOL:MECHANISM")
    parser.add_argument("--records-per-s", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="where data and logs are left")
    options = parser.parse_args()
    logging.disable()  # what clients say while they try again
    draw = random.Random(options.seed)
    faults = [draw.choice(options.only.split(",")) for _ in range(options.faults)]
    with tempfile.TemporaryDirectory(prefix="mixed-rounds-") as temporary:
        directory = options.keep or Path(temporary)
        inside = Inside(directory, *options.inside.split(":")) if options.inside else None
        with zookeeper_servers(directory=directory / "zookeeper") as zookeeper:
            run(
                directory, zookeeper, options.kinds.split(","), faults, options.seed,
                records_per_s=options.records_per_s, is_replaced=options.replace,
                protocol=options.protocol, inside=inside,
            )  # fmt: skip
    print("nothing was lost, nothing was doubled, all replicas are alike")


if __name__ == "__main__":
    main()
