"""A group of members of Java, librdkafka and franz-go, of the new protocol and the classic one, that
come, leave, are killed and sleep through their sessions, while its coordinator is killed.

    python -m compat_tests.cluster.group_rounds --members 10 --seconds 40
    python -m compat_tests.cluster.group_rounds --members 50 --seconds 300 --brokers 3 --kills 20

With several brokers these share a ZooKeeper. What must be true: no partition is read by two members
at once; no committed offset goes back; each record is read; who comes or loses a partition is at the
target, and a partition has its next reader, within the rebalance time-out and ten seconds.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import time

from compat_tests.cluster.group_brokers import Brokers, add_options, group_of, verdict
from compat_tests.cluster.group_ledger import MORE_S, REBALANCE_S, SESSION_S, Ledger
from compat_tests.cluster.group_members import Member

_CHANGES = ("join", "leave", "kill", "sleep")


class Rounds:
    """One hunt."""

    def __init__(self, given: argparse.Namespace, ledger: Ledger, brokers: Brokers | None) -> None:
        self.given, self.ledger, self.brokers = given, ledger, brokers
        self._random = random.Random(given.seed)
        self._sleeping: list[tuple[float, Member]] = []
        self.changes = dict.fromkeys((*_CHANGES, "kill of a coordinator"), 0)

    def play(self) -> None:
        """Let members come and go, then look at what came of it."""
        for _ in range(self.given.members):
            self._join()
        self.ledger.begin_to_write()
        began_s = time.monotonic()
        while (elapsed_s := time.monotonic() - began_s) < self.given.seconds:
            time.sleep(self._random.uniform(0.5, 1.5) * self.given.pause)
            print(f"{elapsed_s:5.0f} s: {self._change()}", flush=True)
            self._wake()
            self.ledger.look()
            self._kill_in_time(elapsed_s)
        self._wake(all_of_them=True)
        self.ledger.end_writing()
        print(*(f"{count} x {what}" for what, count in self.changes.items()), sep=", ")
        self.ledger.settle(SESSION_S + REBALANCE_S + MORE_S)
        self.ledger.judge()

    def _join(self) -> Member:
        client = self._random.choice(self.given.clients.split(","))
        return self.ledger.join(client, self._random.choice(self.given.protocols.split(",")))

    def _change(self) -> str:
        """One member comes, leaves, is killed or sleeps."""
        what = self._random.choice(self.given.ways.split(","))
        here = self.ledger.here()
        if len(here) <= self.given.members // 2 or (
            what == "join" and len(here) < self.given.members
        ):
            self.changes["join"] += 1
            return f"join {self._join().name}"
        what = "leave" if what == "join" else what
        self.changes[what] += 1
        member = self._random.choice(here)
        self.ledger.live.remove(member)
        if what == "sleep":
            member.stop(signal.SIGSTOP)
            self._sleeping.append((time.monotonic() + SESSION_S * 1.5, member))
        elif what == "kill":
            member.stop(signal.SIGKILL)
        else:
            member.let_leave()
        return f"{what} {member.name}"

    def _wake(self, *, all_of_them: bool = False) -> None:
        """End those that have slept through their sessions: awake they find that they are out."""
        for until_s, member in list(self._sleeping):
            if all_of_them or time.monotonic() > until_s:
                self._sleeping.remove((until_s, member))
                member.process.send_signal(signal.SIGCONT)
                member.let_leave()

    def _kill_in_time(self, elapsed_s: float) -> None:
        kills = self.changes["kill of a coordinator"]
        if self.brokers and kills < self.given.kills * elapsed_s / self.given.seconds:
            self.changes["kill of a coordinator"] += 1
            print(f"{elapsed_s:5.0f} s: {self.brokers.kill()}", flush=True)
            self.ledger.coordinator_killed()


def hunt(*words: str) -> list[str]:
    """Play as the command line says; what was wrong."""
    parser = argparse.ArgumentParser(description="members of both protocols come and go")
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--pause", type=float, default=2, help="seconds between two changes")
    parser.add_argument("--kills", type=int, default=0, help="of coordinators")
    parser.add_argument("--protocols", default="consumer,classic")
    parser.add_argument("--ways", default=",".join(_CHANGES), help="to come and go")
    add_options(parser)
    parser.set_defaults(assignor="cooperative-sticky")
    given = parser.parse_args(words)
    with group_of(given) as (ledger, brokers):
        Rounds(given, ledger, brokers).play()
    return ledger.faults


if __name__ == "__main__":
    sys.exit(verdict(hunt(*sys.argv[1:])))
