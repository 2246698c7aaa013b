"""A ledger of what the members of a group did, and of its offsets, which says afterwards if partitions
had two readers, records none, or something stood still.
"""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from compat_tests.cluster.group_members import Member, Span, command_of, now_ms
from compat_tests.commands.command_line import run

TOPIC, GROUP = "t", "g"
# The members' time to give up partitions, and what they get beyond it; the time until one is missed.
REBALANCE_S, MORE_S, SESSION_S = 20, 10, 10
_LOOK_S = 5
# librdkafka 2.16 that waits for the answer to its join for longer than a second sends its next heartbeat
# as soon as that has come: with no partitions, before it takes those of the answer. A coordinator, also
# Apache Kafka's, takes it by its word, and gives to others what it then has for some milliseconds.
_MISREPORTED_MS = 1000


@dataclass
class Targets:
    """How long members have had other partitions than the group wants them to have."""

    worst_ms: int = 0
    of: str = ""
    _since: dict[str, int] = field(default_factory=dict)

    def count_anew(self) -> None:
        self._since = {}

    def look(self, bootstrap: str, alive: set[str]) -> None:
        """Ask the group; a classic one has no targets. By a command: the administrator of librdkafka
        2.16 ends this process where coordinators come and go.
        """
        asked_ms = now_ms()
        asked = ("group", "describe", GROUP, "--members", "--output", "json")
        with suppress(subprocess.TimeoutExpired):
            rows = json.loads(run(*asked, bootstrap=bootstrap).out or "[]")
            shares = [(row["client_id"], row["partitions"], row.get("target")) for row in rows]
            # Who has joined again beside a member of its own that is not yet gone counts once.
            there = {name for name, has, target in shares if target is None or has == target}
            away = {name for name, *_ in shares if name in alive} - there
            self._since = {name: self._since.get(name, asked_ms) for name in away}
        for name, since_ms in self._since.items():
            if asked_ms - since_ms > self.worst_ms:
                self.worst_ms, self.of = asked_ms - since_ms, name


class Ledger:
    """The group of one hunt; what its members write to standard error goes to files in `directory`."""

    def __init__(self, bootstrap: str, partitions: int, directory: Path, assignor: str) -> None:
        self.bootstrap, self.partitions, self.directory = bootstrap, partitions, directory
        self._assignor = assignor
        self._is_new_coordinator = False
        self.members: list[Member] = []
        self.live: list[Member] = []
        self.committed: dict[int, int] = {}
        self.faults: list[str] = []
        self.targets = Targets()
        self.written = 0
        self.ends: dict[int, int] = {}  # of the partitions, when all is written
        self._stops_writing = threading.Event()
        self._outside = Consumer(  # which is not a member
            {"bootstrap.servers": bootstrap, "group.id": GROUP, "log_level": 0}
        )
        self._writing = threading.Thread(target=self._write, daemon=True)

    def join(self, client: str, protocol: str) -> Member:
        """Start a member."""
        name = f"{client}-{protocol}-{len(self.members)}"
        with (self.directory / f"{name}.log").open("w") as log:
            process = subprocess.Popen(
                [*command_of(client), self.bootstrap, TOPIC, GROUP, protocol, name,
                 self._assignor],
                text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
            )  # fmt: skip
        member = Member(name, client, protocol, process)
        threading.Thread(target=member.listen, daemon=True).start()
        self.members.append(member)
        self.live.append(member)
        return member

    def here(self) -> list[Member]:
        """The members that nobody has taken out, and that have not ended by themselves."""
        return [each for each in self.live if each.ended_ms is None]

    def coordinator_killed(self) -> None:
        """Count anew how long members wait: a new coordinator gives those that are dead all their
        session again, as Apache Kafka's, and so it may not end as long as coordinators are killed.
        """
        self._is_new_coordinator = True
        self.targets.count_anew()

    def begin_to_write(self) -> None:
        self._writing.start()

    def end_writing(self) -> None:
        self._stops_writing.set()
        self._writing.join()
        for each in range(self.partitions):
            place = TopicPartition(TOPIC, each)
            self.ends[each] = self._outside.get_watermark_offsets(place, timeout=30)[1]

    def _write(self) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "acks": "all", "log_level": 0})
        while not self._stops_writing.is_set():
            for _ in range(100):
                place = self.written % self.partitions
                producer.produce(TOPIC, b"%d" % self.written, partition=place)
                self.written += 1
            producer.flush(30)
            self._stops_writing.wait(0.1)

    def look(self) -> None:
        """See what is committed, which never goes back, and who is not at the target."""
        self.targets.look(self.bootstrap, {each.name for each in self.here()})
        asked = [TopicPartition(TOPIC, each) for each in range(self.partitions)]
        with suppress(KafkaException):  # its coordinator is away
            for place in self._outside.committed(asked, timeout=_LOOK_S):
                self._see_committed(place)

    def _see_committed(self, place: TopicPartition) -> None:
        before = self.committed.get(place.partition, -1)
        if place.offset < 0 and before < 0:
            return  # nothing yet
        if place.offset < before:
            self.faults.append(f"{place.partition}: {place.offset} committed after {before}")
        self.committed[place.partition] = max(before, place.offset)

    def is_shared(self) -> bool:
        """Whether each partition has one reader."""
        has = [each for member in self.here() for each in member.owned()]
        return sorted(has) == list(range(self.partitions))

    def is_read(self) -> bool:
        """Whether somebody has come to the end of each partition. It may not be committed: who is
        refused a commit as the group changes reads on, and commits with the next record.
        """
        read = dict.fromkeys(self.ends, -1)
        for member in self.members:
            for _, partition, _, last in member.reads():
                read[partition] = max(read[partition], last)
        return all(read[each] >= end - 1 for each, end in self.ends.items())

    def settle(self, patience_s: float) -> None:
        """Wait until everything has its reader and all is read, and say when."""
        began_s = time.monotonic()
        shared_s = read_s = None
        while time.monotonic() - began_s < patience_s and (shared_s is None or read_s is None):
            self.look()
            if shared_s is None and self.is_shared():
                shared_s = time.monotonic() - began_s
            if shared_s is not None and self.is_read():
                read_s = time.monotonic() - began_s
            time.sleep(0.2)
        if shared_s is None:
            self.faults.append("the members never came to share everything")
        print(f"everything had its reader after {_seconds(shared_s)}, "
              f"all was read after {_seconds(read_s)}")  # fmt: skip

    def judge(self) -> None:
        """Look at what came of it all."""
        self._two_owners()
        self._missed()
        self._without_owner()
        if self.targets.worst_ms > (REBALANCE_S + MORE_S) * 1000:
            self.faults.append(f"{self.targets.of}: {self.targets.worst_ms} ms off its target")
        joined = len(self.members)
        print(f"{joined} members, {self.written} records, {sum(self.committed.values())} committed; "
              f"longest off its target: {self.targets.worst_ms} ms ({self.targets.of or 'none'})")  # fmt: skip

    def _successions(self) -> Iterator[tuple[Span, Span]]:
        """Yield who had a partition, and who had it next."""
        spans: dict[int, list[Span]] = {each: [] for each in range(self.partitions)}
        for member in self.members:
            for span in member.spans():
                spans[span.partition].append(span)
        for had in spans.values():
            yield from pairwise(sorted(had, key=lambda each: (each.began_ms, each.end_ms)))

    def _two_owners(self) -> None:
        """Find partitions that two members had at once."""
        late, misreported = Counter[str](), Counter[str]()
        for one, other in self._successions():
            if other.began_ms >= one.end_ms or one.member is other.member:
                continue
            if one.is_taken:
                late[one.member.name] += 1
            elif one.member.client == "librdkafka" and one.end_ms - one.began_ms < _MISREPORTED_MS:
                misreported[one.member.name] += 1
            else:
                self.faults.append(
                    f"{one.partition} of {one.member.name} until {one.end_ms}, of "
                    f"{other.member.name} from {other.began_ms}"
                )
        print(f"partitions kept until members heard that their session is over: {dict(late)}; "
              f"taken by librdkafka that said that it has none: {dict(misreported)}")  # fmt: skip

    def _without_owner(self) -> None:
        """Find the longest time that a partition had no reader after the group knew that one is gone."""
        worst_ms, words = 0, "none"
        for one, other in self._successions():
            is_known = not one.member.is_silent or one.end_ms != one.member.ended_ms
            known_ms = one.end_ms + (0 if is_known else SESSION_S * 1000)
            if other.began_ms - known_ms > worst_ms:
                worst_ms = other.began_ms - known_ms
                words = f"{one.partition}, from {one.member.name} to {other.member.name}"
                words += f" at {other.began_ms}"
        print(f"longest without a reader: {worst_ms} ms ({words})")
        if worst_ms > (REBALANCE_S + MORE_S) * 1000 and not self._is_new_coordinator:
            self.faults.append(f"{worst_ms} ms without a reader: {words}")

    def _missed(self) -> None:
        """Find records that nobody has read."""
        read: dict[int, set[int]] = {each: set() for each in self.ends}
        for member in self.members:
            for _, partition, first, last in member.reads():
                read[partition].update(range(first, last + 1))
        for partition, end in self.ends.items():
            left = set(range(end)) - read[partition]
            if left:
                self.faults.append(f"{partition}: {len(left)} of {end} records were not read")

    def standstills(self, from_ms: int, to_ms: int) -> None:
        """Find members that have read nothing for longer than the rebalance time-out, and partitions."""
        of_members = {each.name: self._reading(each, from_ms, to_ms) for each in self.members}
        of_partitions: dict[str, list[int]] = {
            f"partition {each}": [from_ms, to_ms] for each in range(self.partitions)
        }
        for member in self.members:
            for time_ms, partition, _, _ in member.reads():
                if from_ms < time_ms < to_ms:
                    of_partitions[f"partition {partition}"].append(time_ms)
        for kind, times in (("member", of_members), ("partition", of_partitions)):
            worst = {name: _longest(sorted(each)) for name, each in times.items()}
            name, worst_ms = max(worst.items(), key=lambda each: each[1])
            print(f"longest standstill of a {kind}: {worst_ms} ms ({name})")
            self.faults += [
                f"{name} stood still for {still_ms} ms"
                for name, still_ms in worst.items()
                if still_ms > REBALANCE_S * 1000
            ]

    def _reading(self, member: Member, from_ms: int, to_ms: int) -> list[int]:
        """When a member read, with its begin and its end; one that is to leave has no more to read."""
        end_ms = min(to_ms, member.ended_ms or to_ms)
        times = [time_ms for time_ms, *_ in member.reads() if from_ms < time_ms < end_ms]
        return [max(from_ms, member.began_ms()), *times, *([] if member.ended_ms else [end_ms])]

    def close(self) -> None:
        """End all members; what they have said is kept beside what they complained of."""
        for member in self.members:
            lines = (f"{at} {what} {numbers}\n" for at, what, numbers in list(member.said))
            (self.directory / f"{member.name}.said").write_text("".join(lines))
            if member.process.poll() is None:
                member.stop(signal.SIGKILL)
            member.process.wait()


def _longest(times: list[int]) -> int:
    return max((after - before for before, after in pairwise(times)), default=0)


def _seconds(count: float | None) -> str:
    return "no time at all" if count is None else f"{count:.1f} s"
