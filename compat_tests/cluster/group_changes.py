"""A group that changes from the classic protocol to that of KIP-848 and back under load, its members
of Java, librdkafka and franz-go one by one.

    python -m compat_tests.cluster.group_changes --changes 20

What must be true: no member and no partition stands still for longer than the rebalance time-out; each
record is read, no partition by two at once; and after each step kafka-consumer-groups of Apache Kafka
4.3.1 and `kbroker group describe` say of the group what its members say themselves.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import time
from dataclasses import dataclass

from compat_tests.cluster.group_brokers import add_options, group_of, verdict
from compat_tests.cluster.group_ledger import GROUP, MORE_S, REBALANCE_S, TOPIC, Ledger
from compat_tests.cluster.group_members import Member
from compat_tests.commands.command_line import run
from compat_tests.commands.tool_runner import run_tool

_TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
_PROTOCOLS = ("consumer", "classic")
_WAYS = ("leave first", "join first", "kill first")


@dataclass(frozen=True)
class Seen:
    """A group: its type, its state, the partitions of each member, and who is not yet upgraded."""

    type: str
    state: str
    shares: dict[str, frozenset[int]]
    classic: frozenset[str]  # those in a group of KIP-848


def of_members(ledger: Ledger) -> Seen:
    """The group as its members see it."""
    shares = {each.name: frozenset(each.owned()) for each in ledger.here()}
    classic = frozenset(each.name for each in ledger.here() if each.protocol == "classic")
    if len(classic) == len(shares):
        return Seen("classic", "Stable", shares, frozenset())
    return Seen("consumer", "Stable", shares, classic)


def of_apache(bootstrap: str) -> Seen:
    """The group as kafka-consumer-groups prints it."""
    asked = ("--bootstrap-server", bootstrap, "--describe", "--group", GROUP)
    members = run_tool(_TOOL, *asked, "--members", "--verbose").stdout
    state = run_tool(_TOOL, *asked, "--state").stdout
    listed = run_tool(_TOOL, "--bootstrap-server", bootstrap, "--list", "--type").stdout
    shares, classic = {}, set()
    for words in _rows(members):
        at = next((n for n, word in enumerate(words) if word.startswith("/127.")), 0) + 1
        # The name of the client, the count, in groups of KIP-848 the epoch, what the member has.
        kept = next((word for word in words[at + 2 :] if word.startswith(f"{TOPIC}:")), f"{TOPIC}:")
        shares[words[at]] = _numbers(kept.partition(":")[2])
        if words[-1] == "false":  # the column UPGRADED
            classic.add(words[at])
    kinds = {words[0]: words[1].lower() for words in _rows(listed)}
    described = (_rows(state) or [["", ""]])[0][-2]
    return Seen(kinds.get(GROUP, "none"), described, shares, frozenset(classic))


def _rows(printed: str) -> list[list[str]]:
    """The lines of a table, in words, without its header and what a tool says beside it."""
    return [line.split() for line in printed.splitlines() if line.startswith(f"{GROUP} ")]


def _numbers(text: str) -> frozenset[int]:
    return frozenset(int(each) for each in text.split(",") if each)


def of_kbroker(bootstrap: str) -> Seen:
    """The group as kbroker's own commands print it."""
    done = run("group", "describe", GROUP, "--members", "--output", "json", bootstrap=bootstrap)
    rows = json.loads(done.out or "[]")
    listed = run("group", "list", "--output", "json", bootstrap=bootstrap).out
    kinds = {each["group"]: each["type"] for each in json.loads(listed or "[]")}
    shares = {
        row["client_id"]: _numbers(",".join(each.rpartition("-")[2] for each in row["partitions"]))
        for row in rows
    }
    classic = {row["client_id"] for row in rows if row.get("protocol") == "classic"}
    state = rows[0]["state"] if rows else "none"
    return Seen(kinds.get(GROUP, "none"), state, shares, frozenset(classic))


class Changes:
    """One hunt."""

    def __init__(self, given: argparse.Namespace, ledger: Ledger) -> None:
        self.given, self.ledger = given, ledger
        self._random = random.Random(given.seed)
        self.steps = 0
        self.worst_s = 0.0  # until all agreed about a step

    def play(self) -> None:
        """Change the members there and back."""
        clients = self.given.clients.split(",")
        for number in range(self.given.members):
            self.ledger.join(clients[number % len(clients)], "classic")
        self._agree("the first members", REBALANCE_S + MORE_S)
        self.ledger.begin_to_write()
        self._wait_for_readers()
        began_ms = int(time.time() * 1000)
        for number in range(self.given.changes):
            self._change(_PROTOCOLS[number % 2])
        ended_ms = int(time.time() * 1000)
        self.ledger.end_writing()
        self.ledger.settle(REBALANCE_S + MORE_S)
        print(f"{self.given.changes} changes of protocol in {self.steps} steps; all agreed about "
              f"each after {self.worst_s:.1f} s at the most")  # fmt: skip
        self.ledger.standstills(began_ms, ended_ms)
        self.ledger.judge()

    def _wait_for_readers(self) -> None:
        deadline_s = time.monotonic() + REBALANCE_S
        while time.monotonic() < deadline_s and not all(
            any(each.reads()) for each in self.ledger.here()
        ):
            time.sleep(0.1)

    def _change(self, protocol: str) -> None:
        """Bring all members to a protocol."""
        members = self.ledger.here()
        self._random.shuffle(members)
        for member in members:
            way = self._random.choice(_WAYS[: 3 if self.given.kills else 2])
            self._replace(member, protocol, way)
            self.steps += 1
            self._agree(f"{self.steps}: {way}, {member.name} to {protocol}", REBALANCE_S + MORE_S)

    def _replace(self, member: Member, protocol: str, way: str) -> None:
        if way == "join first":
            self.ledger.join(member.client, protocol)
        self.ledger.live.remove(member)
        if way == "kill first":
            member.stop(signal.SIGKILL)
        else:
            member.let_leave()
        if way != "join first":
            self.ledger.join(member.client, protocol)

    def _agree(self, step: str, patience_s: float) -> None:
        """Wait until the members share everything, and all that describe the group say so."""
        began_s = time.monotonic()
        while True:
            self.ledger.look()
            truth = of_members(self.ledger)
            said = {"Apache Kafka": of_apache(self.ledger.bootstrap)} if self._is_whole() else {}
            if said and self.given.target == "kbroker":
                said["kbroker"] = of_kbroker(self.ledger.bootstrap)
            took_s = time.monotonic() - began_s
            if said and all(each == truth == of_members(self.ledger) for each in said.values()):
                break
            if took_s > patience_s:
                self.ledger.faults.append(f"{step}: members say {truth}, {said or 'nobody asked'}")
                break
            time.sleep(0.2)
        self.worst_s = max(self.worst_s, took_s)
        print(f"{took_s:5.1f} s: {step}", flush=True)

    def _is_whole(self) -> bool:
        """Whether it is worth to ask others."""
        return self.ledger.is_shared() and all(each.owned() for each in self.ledger.here())


def hunt(*words: str) -> list[str]:
    """Play as the command line says; what was wrong."""
    parser = argparse.ArgumentParser(description="a group changes its protocol and back")
    parser.add_argument("--members", type=int, default=6)
    parser.add_argument("--changes", type=int, default=20, help="of the whole group, in turn")
    parser.add_argument(
        "--kills", action="store_true", help="kill -9 some members that are replaced"
    )
    add_options(parser)
    # Where librdkafka assigns by its cooperative-sticky, data of its own go with the partitions, and a
    # group that has such is not changed, also by Apache Kafka.
    parser.set_defaults(assignor="range")
    given = parser.parse_args(words)
    with group_of(given) as (ledger, _):
        Changes(given, ledger).play()
    return ledger.faults


if __name__ == "__main__":
    sys.exit(verdict(hunt(*sys.argv[1:])))
