"""A group of members of Java and librdkafka, of the new protocol and the classic one, that come,
leave, are killed and sleep through their sessions, while its coordinator is killed.

    python -m compat_tests.cluster.group_rounds --members 10 --seconds 40
    python -m compat_tests.cluster.group_rounds --members 50 --seconds 300 --brokers 3 --kills 20

With several brokers these share a ZooKeeper. What must be true: no partition is read by two members
at once; no committed offset goes back; each record is read; after the last change everything is read
by somebody within the rebalance time-out and ten seconds.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from compat_tests.clients.every_client import create_topic
from compat_tests.clients.java_clients import java_command, kept_classes
from compat_tests.cluster.processes import Cluster
from compat_tests.commands.command_line import run
from compat_tests.conftest import BrokerProcess
from compat_tests.running import apache_kafka
from compat_tests.running.shared_zookeeper import shared_zookeeper

TOPIC, GROUP = "t", "g"
REBALANCE_S, MORE_S = 20, 10
SESSION_S = 10
REPLICATED = {"offsets.topic.replication.factor": "3", "default.replication.factor": "3"}


@dataclass(eq=False)
class Member:
    """A process of the group, and what it has said."""

    name: str
    process: subprocess.Popen[str]
    said: list[tuple[int, str, list[int]]] = field(default_factory=list)
    ended_ms: int | None = None  # what it does from then on does not count

    def listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            time_ms, what, *rest = line.split()
            numbers = [int(each) for each in ",".join(rest).split(",") if each]
            self.said.append((int(time_ms), what, numbers))
        if self.ended_ms is None:  # by itself, or as it was told
            self.ended_ms = int(time.time() * 1000)
            print(f"{self.name} ended with {self.process.wait()}", flush=True)

    def owned(self) -> set[int]:
        """The partitions that it has now."""
        has: set[int] = set()
        for _, what, numbers in list(self.said):
            if what == "got":
                has |= set(numbers)
            elif what == "lost":
                has -= set(numbers)
        return has

    def spans(self) -> Iterator[tuple[int, int, int]]:
        """Yield the partitions that it had, each with its first and last millisecond."""
        since: dict[int, int] = {}
        for time_ms, what, numbers in self.said:
            if self.ended_ms is not None and time_ms > self.ended_ms:
                break
            for each in numbers if what != "read" else ():
                if what == "got":
                    since[each] = time_ms
                elif each in since:
                    yield each, since.pop(each), time_ms
        end_ms = self.ended_ms or int(time.time() * 1000)
        yield from ((each, began_ms, end_ms) for each, began_ms in since.items())


class Rounds:
    """One hunt."""

    def __init__(self, given: argparse.Namespace, bootstrap: str) -> None:
        self.given, self.bootstrap = given, bootstrap
        self.random = random.Random(given.seed)
        self.members: list[Member] = []
        self.live: list[Member] = []
        self.sleeping: list[tuple[float, Member]] = []
        self.produced: dict[int, int] = dict.fromkeys(range(given.partitions), 0)
        self.committed: dict[int, int] = {}
        self.faults: list[str] = []
        self._ends = threading.Event()
        self._outside = Consumer(  # which is not a member
            {"bootstrap.servers": bootstrap, "group.id": GROUP, "log_level": 0}
        )

    def join(self) -> None:
        """Start a member of some client and protocol."""
        client = self.random.choice(self.given.clients.split(","))
        protocol = self.random.choice(self.given.protocols.split(","))
        command = [sys.executable, "-m", "compat_tests.clients.librdkafka_member"]
        if client == "java":
            version = apache_kafka.NEWEST
            command = java_command(kept_classes("Member", version), version, "Member")
        process = subprocess.Popen(
            [*command, self.bootstrap, TOPIC, GROUP, protocol], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        member = Member(f"{client}-{protocol}-{len(self.members)}", process)
        threading.Thread(target=member.listen, daemon=True).start()
        self.members.append(member)
        self.live.append(member)

    def change(self) -> str:
        """One member comes, leaves, is killed or sleeps."""
        what = self.random.choice(("join", "leave", "kill", "sleep"))
        if len(self.live) <= self.given.members // 2 or (
            what == "join" and len(self.live) < self.given.members
        ):
            self.join()
            return f"join {self.members[-1].name}"
        member = self.random.choice(self.live)
        self.live.remove(member)
        if what == "sleep":
            member.process.send_signal(signal.SIGSTOP)
            member.ended_ms = int(time.time() * 1000)
            self.sleeping.append((time.monotonic() + SESSION_S * 1.5, member))
        elif what == "kill":
            member.process.kill()
            member.ended_ms = int(time.time() * 1000)
        else:
            what = "leave"
            self._let_leave(member)
        return f"{what} {member.name}"

    def _let_leave(self, member: Member) -> None:
        assert member.process.stdin is not None
        member.process.stdin.close()

    def wake(self, *, all_of_them: bool = False) -> None:
        """End those that have slept through their sessions: awake they find that they are out."""
        for until_s, member in list(self.sleeping):
            if all_of_them or time.monotonic() > until_s:
                self.sleeping.remove((until_s, member))
                member.process.send_signal(signal.SIGCONT)
                self._let_leave(member)

    def produce(self) -> None:
        """Write all the time, in the background."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "acks": "all", "log_level": 0})
        number = 0
        while not self._ends.is_set():
            for _ in range(100):
                producer.produce(TOPIC, b"%d" % number, partition=number % self.given.partitions)
                number += 1
            producer.flush(30)
            time.sleep(0.1)

    def look(self) -> None:
        """See what is committed: it never goes back."""
        try:
            places = self._outside.committed(
                [TopicPartition(TOPIC, each) for each in range(self.given.partitions)], timeout=5
            )
        except KafkaException:  # its coordinator is away
            return
        for place in places:
            if place.offset < 0 and place.partition not in self.committed:
                continue  # nothing yet
            before = self.committed.get(place.partition, -1)
            if place.offset < before:
                self.faults.append(f"{place.partition}: {place.offset} committed after {before}")
            self.committed[place.partition] = max(before, place.offset)

    def two_owners(self) -> None:
        """Find partitions that two members had at once."""
        spans: dict[int, list[tuple[int, int, str]]] = {}
        for member in self.members:
            for partition, began_ms, end_ms in member.spans():
                spans.setdefault(partition, []).append((began_ms, end_ms, member.name))
        for partition, had in spans.items():
            had.sort()
            for (_, end_ms, one), (began_ms, _, other) in pairwise(had):
                if began_ms < end_ms and one != other:
                    self.faults.append(
                        f"{partition} of {one} until {end_ms}, of {other} from {began_ms}"
                    )

    def missed(self, ends: dict[int, int]) -> None:
        """Find records that nobody has read."""
        read: dict[int, set[int]] = {each: set() for each in ends}
        for member in self.members:
            for _, what, numbers in member.said:
                if what == "read":
                    partition, first, last = numbers
                    read[partition].update(range(first, last + 1))
        for partition, end in ends.items():
            left = set(range(end)) - read[partition]
            if left:
                self.faults.append(f"{partition}: {len(left)} of {end} records were not read")

    def play(self, brokers: Brokers) -> None:
        """Let members come and go, then look at what came of it."""
        for _ in range(self.given.members):
            self.join()
        writing = threading.Thread(target=self.produce, daemon=True)
        writing.start()
        started, kills = time.monotonic(), 0
        while (elapsed := time.monotonic() - started) < self.given.seconds:
            time.sleep(self.random.uniform(0.5, 1.5) * self.given.pause)
            print(f"{elapsed:5.0f} s: {self.change()}", flush=True)
            self.wake()
            self.look()
            if kills < self.given.kills * elapsed / self.given.seconds:
                kills += 1
                print(f"{elapsed:5.0f} s: {brokers.kill()}", flush=True)
        self._ends.set()
        writing.join()
        self.wake(all_of_them=True)
        self._settle()

    def _settle(self) -> None:
        began = time.monotonic()
        everything = set(range(self.given.partitions))
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "ends"})
        ends = {
            each: consumer.get_watermark_offsets(TopicPartition(TOPIC, each), timeout=30)[1]
            for each in everything
        }
        consumer.close()
        settled_s = None
        while time.monotonic() - began < SESSION_S + REBALANCE_S + MORE_S:
            self.look()
            here = [each for each in self.live if each.ended_ms is None]
            has = [each for member in here for each in member.owned()]
            is_settled = sorted(has) == sorted(everything)
            if is_settled and settled_s is None:
                settled_s = time.monotonic() - began
            if is_settled and all(self.committed.get(each, 0) >= ends[each] for each in ends):
                break
            time.sleep(0.2)
        if settled_s is None:
            self.faults.append("the members never came to share everything")
        print(f"everything had its reader after {settled_s} s, all was read after "
              f"{time.monotonic() - began:.1f} s")  # fmt: skip
        self.two_owners()
        self.missed(ends)

    def close(self) -> None:
        for member in self.members:
            if member.process.poll() is None:
                member.process.kill()
            member.process.wait()


class Brokers:
    """A broker, or several over a ZooKeeper."""

    def __init__(self, given: argparse.Namespace, directory: Path) -> None:
        self.cluster: Cluster | None = None
        short = ("--override", f"group.consumer.session.timeout.ms={SESSION_S * 1000}",
                 "--override", "group.consumer.min.session.timeout.ms=5000",
                 "--override", "group.consumer.heartbeat.interval.ms=1000",
                 "--override", "group.consumer.min.heartbeat.interval.ms=1000")  # fmt: skip
        if given.brokers == 1:
            self.alone = BrokerProcess(directory / "data", short)
            self.alone.start()
            self.bootstrap = self.alone.bootstrap
            return
        settings = {**REPLICATED, **dict(each.split("=") for each in short[1::2])}
        self.cluster = Cluster(
            directory, shared_zookeeper(), ["kbroker"] * given.brokers, settings,
            chroot=f"/rounds-{os.getpid()}",
        )  # fmt: skip
        self.cluster.start()
        self.bootstrap = self.cluster.bootstrap
        raised = run("cluster", "features", "--set", "group.version=1", bootstrap=self.bootstrap)
        assert raised.code == 0, raised

    def kill(self) -> str:
        """kill -9 a broker that leads offsets of groups, and start it again."""
        if self.cluster is None:
            self.alone.stop(signal.SIGKILL)
            self.alone.start()
            return "kill -9 of the broker"
        leaders = self.cluster.tree.leaders("__consumer_offsets")
        number = random.choice(sorted({each for each in leaders.values() if each > 0}))
        self.cluster.kill(number)
        time.sleep(5)
        self.cluster.start(number)
        return f"kill -9 of broker {number}"

    def close(self) -> None:
        if self.cluster is None:
            self.alone.stop()
        else:
            self.cluster.close()


@contextmanager
def brokers_of(given: argparse.Namespace) -> Iterator[Brokers]:
    with tempfile.TemporaryDirectory() as directory:
        brokers = Brokers(given, Path(directory))
        try:
            yield brokers
        finally:
            brokers.close()


def main() -> int:
    parser = argparse.ArgumentParser(description="members of both protocols come and go")
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--partitions", type=int, default=64)
    parser.add_argument("--pause", type=float, default=2, help="seconds between two changes")
    parser.add_argument("--brokers", type=int, default=1)
    parser.add_argument("--kills", type=int, default=0, help="of brokers")
    parser.add_argument("--clients", default="java,librdkafka")
    parser.add_argument("--protocols", default="consumer,classic")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with brokers_of(given) as brokers:
        create_topic(brokers.bootstrap, TOPIC, given.partitions)
        rounds = Rounds(given, brokers.bootstrap)
        try:
            rounds.play(brokers)
        finally:
            rounds.close()
    print(*rounds.faults, f"{len(rounds.faults)} faults", sep="\n")
    return 1 if rounds.faults else 0


if __name__ == "__main__":
    sys.exit(main())
