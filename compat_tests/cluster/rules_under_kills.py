"""Access rules that change at every broker of a cluster, of kbroker and of Apache Kafka 3.9.2, while
brokers are killed: `python -m compat_tests.cluster.rules_under_kills --kills 60 --twins 200 --seed 1`.

At first twins: each edit goes to kbroker for one resource, and to Apache Kafka for its twin, and both
have the same rules afterwards, each in the same bytes. Then each broker has somebody who edits, and somebody
who asks again and again by which rules it decides: what was denied, and is not taken back, is there in
every answer, also in the first one after a start. At the end all brokers have the rules that are in the
tree, and all that was confirmed is among them.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from compat_tests.answers.rules import (
    CREATE_ACLS,
    DELETE_ACLS,
    LITERAL,
    PREFIXED,
)
from compat_tests.clients.raw_connection import ClosedError, RawConnection, SilenceError
from compat_tests.cluster.mixed_rules import (
    SETTINGS,
    Rule,
    creation_of,
    described,
    filter_of,
    written,
)
from compat_tests.cluster.processes import Cluster
from compat_tests.running.shared_zookeeper import shared_zookeeper

KINDS = ("kbroker", "apache", "kbroker", "kbroker")
DENY = 2
# Within which brokers have heard of a change, on a busy machine: one of Apache Kafka works off one
# notification after the other.
_NOTICE_S = {"kbroker": 2.0, "apache": 15.0}
_SOON_S = 30.0
_OWN_RULES_MAX = 40
_LOST = (ClosedError, SilenceError, OSError)


class Ledger:
    """The rules that must be there, with the broker that has confirmed each and when."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._there: dict[Rule, tuple[int, float]] = {}
        self._gone: set[Rule] = set()
        self.violations: list[str] = []
        self.is_over = threading.Event()
        self.counts = dict.fromkeys(("edits", "unanswered", "answers looked at"), 0)

    def count(self, what: str) -> None:
        with self._lock:
            self.counts[what] += 1

    def confirmed(self, rule: Rule, number: int, *, is_there: bool) -> None:
        """A broker has said that a rule was added, or taken back."""
        with self._lock:
            self.counts["edits"] += 1
            if is_there:
                self._there[rule] = number, time.monotonic()
            else:
                self._gone.add(rule)

    def doubt(self, rule: Rule) -> None:
        """A rule is about to be taken back, or nobody knows whether it is there."""
        with self._lock:
            self._there.pop(rule, None)

    def due(self, number: int, kind: str) -> set[Rule]:
        """The denials by which a broker has to decide from now on."""
        now = time.monotonic()
        with self._lock:
            return {
                rule
                for rule, (by, when) in self._there.items()
                if rule[5] == DENY and (by == number or now - when > _NOTICE_S[kind])
            }

    def look(self, number: int, due: set[Rule], rules: set[Rule], when: str) -> None:
        """Compare the rules of a broker with those that were due when it was asked."""
        with self._lock:
            self.counts["answers looked at"] += 1
            missing = {rule for rule in due - rules if rule in self._there}
            if missing:
                self.violations.append(f"broker {number} {when}: without {sorted(missing)}")

    def compare(self, rules: set[Rule]) -> None:
        """All that was confirmed is in the tree at the end, and nothing that was taken back."""
        with self._lock:
            lost, back = set(self._there) - rules, self._gone & rules
            if lost or back:
                self.violations.append(f"at the end: lost {sorted(lost)}, back {sorted(back)}")


class Connected:
    """A connection to one broker, opened again after it was lost."""

    def __init__(self, cluster: Cluster, number: int, ledger: Ledger) -> None:
        self._cluster, self._number, self._ledger = cluster, number, ledger
        self._connection: RawConnection | None = None

    def call(self, key: int, **values: Any) -> Any:
        """The answer; None if it was lost."""
        while self._connection is None:
            try:
                self._connection = RawConnection(self._cluster.address(self._number), 30)
            except OSError:
                if self._ledger.is_over.wait(0.05):
                    return None
        try:
            return self._connection.call(key, 1, **values)
        except _LOST:
            self._connection.close()
            self._connection = None
            return None


def edit(cluster: Cluster, number: int, ledger: Ledger, seed: int) -> None:
    """Add rules at a broker, and take some of them back, until it is over."""
    draw, own, count = Random(f"{seed} {number}"), list[Rule](), 0
    connection = Connected(cluster, number, ledger)
    while not ledger.is_over.wait(0.01):
        if own and (len(own) > _OWN_RULES_MAX or draw.random() < 0.4):
            rule = own.pop(draw.randrange(len(own)))
            ledger.doubt(rule)
            answer = connection.call(DELETE_ACLS, filters=[filter_of(rule)])
            results = () if answer is None else answer.filter_results
            is_done = [int(each.error_code) for each in results] == [0]
            is_done = is_done and [int(e.error_code) for e in results[0].matching_acls] == [0]
        else:
            count += 1
            name, pattern = draw.choice(("t", "to", "u")), draw.choice((LITERAL, PREFIXED))
            permission = draw.choice((DENY, DENY, 3))
            principal = f"User:{number}-{count}"
            rule = name, pattern, principal, "*", draw.randrange(3, 12), permission
            answer = connection.call(CREATE_ACLS, creations=[creation_of(rule)])
            is_done = answer is not None and [int(e.error_code) for e in answer.results] == [0]
            if is_done:
                own.append(rule)
        if is_done:
            ledger.confirmed(rule, number, is_there=bool(own) and own[-1] == rule)
        else:
            ledger.count("unanswered")


def watch(cluster: Cluster, number: int, ledger: Ledger) -> None:
    """Ask a broker by which rules it decides, until it is over."""
    when = "at its start"
    while not ledger.is_over.wait(0.02):
        due = ledger.due(number, cluster.kinds[number])
        try:
            rules = described(cluster.address(number))
        except _LOST:
            when = "after it was killed"
            continue
        ledger.look(number, due, rules, when)
        when = "later"


def kill(cluster: Cluster, kills: int, draw: Random) -> None:
    """Kill a broker, and start it again, so many times."""
    ours = [number for number in cluster.ids if cluster.kinds[number] == "kbroker"]
    for count in range(kills):
        time.sleep(draw.random())
        number = draw.choice(ours if count % 8 else cluster.ids)
        cluster.kill(number)
        time.sleep(draw.choice((0.0, 0.1, 0.5)))
        cluster.start(number)


def play(cluster: Cluster, seed: int, kills: int) -> Ledger:
    """Edit, watch and kill; returns what was found."""
    ledger = Ledger()
    work: list[Callable[[], None]] = []
    for number in cluster.ids:
        work.append(lambda number=number: edit(cluster, number, ledger, seed))
        work.append(lambda number=number: watch(cluster, number, ledger))
    threads = [threading.Thread(target=each, daemon=True) for each in work]
    for thread in threads:
        thread.start()
    try:
        kill(cluster, kills, Random(seed))
    finally:
        ledger.is_over.set()
        for thread in threads:
            thread.join(60)
    end = time.monotonic() + _SOON_S
    while not all(described(each) == written(cluster) for each in cluster.bootstraps):
        assert time.monotonic() < end, "brokers do not have the rules of the tree"
        time.sleep(0.1)
    ledger.compare(written(cluster))
    return ledger


def edit_twins(cluster: Cluster, draw: Random, edits: int) -> None:
    """Make edits at both kinds, and hold their nodes against each other after each."""
    kinds = cluster.kinds
    ours, theirs = (
        RawConnection(cluster.address(next(n for n in cluster.ids if kinds[n] == kind)), 60)
        for kind in ("kbroker", "apache")
    )
    there: list[Rule] = []
    for _ in range(edits):
        pattern = draw.choice((LITERAL, PREFIXED))
        if there and draw.random() < 0.45:
            rule = there.pop(draw.randrange(len(there)))
            key, field, made = DELETE_ACLS, "filters", filter_of
        else:
            principal, operation = f"User:{draw.randrange(3)}", draw.randrange(3, 12)
            rule = ("", pattern, principal, draw.choice(("*", "10.0.0.1")), operation,
                    draw.choice((2, 3)))  # fmt: skip
            key, field, made = CREATE_ACLS, "creations", creation_of
            there += [rule] if rule not in there else []
        for connection, name in ((ours, "first"), (theirs, "other")):
            connection.call(key, 1, **{field: [made((name, *rule[1:]))]})
        for place in ("/kafka-acl", "/kafka-acl-extended/prefixed"):
            first, other = (_rules(cluster, f"{place}/Topic/{n}") for n in ("first", "other"))
            assert first == other, (rule, place, first, other)
    ours.close()
    theirs.close()


def _rules(cluster: Cluster, path: str) -> list[str]:
    """The rules in a node as they are written; none if it is not there. Apache Kafka has them in
    the order of a set.
    """
    data = cluster.tree.get(path)
    if not data:
        return []
    document = json.loads(data)
    assert json.dumps(document, separators=(",", ":")).encode() == data, data
    return sorted(json.dumps(each) for each in document["acls"])


def main() -> int:
    """Say how it went; the exit code is 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--twins", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    settings = SETTINGS | {"zookeeper.session.timeout.ms": "6000"}
    with tempfile.TemporaryDirectory(prefix="rules-under-kills-") as root:
        chroot = f"/rules-under-kills-{arguments.seed}"
        with Cluster(Path(root), shared_zookeeper(), KINDS, settings, chroot) as cluster:
            cluster.start()
            edit_twins(cluster, Random(arguments.seed), arguments.twins)
            print(f"{arguments.twins} edits of twins: the same bytes", flush=True)
            ledger = play(cluster, arguments.seed, arguments.kills)
    print(*ledger.violations, sep="\n")
    counts = ", ".join(f"{what} {count:,}" for what, count in ledger.counts.items())
    print(f"{arguments.kills} kills, {len(ledger.violations)} violations; {counts}")
    return bool(ledger.violations)


if __name__ == "__main__":
    sys.exit(main())
