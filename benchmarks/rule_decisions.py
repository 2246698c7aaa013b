"""The time of a decision that is not remembered, beside AclAuthorizer of Apache Kafka 3.9.2, both without
a broker, and what many rules add to a start: `python -m benchmarks.rule_decisions`.

Every resource has as many rules as there are users; each question is about another user and resource.
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import processes
from benchmarks.ruled_loads import make_rules
from compat_tests.clients.java_clients import jars, kept_classes
from compat_tests.running.apache_kafka import ZOOKEEPER_LINE
from compat_tests.running.shared_zookeeper import fresh_chroot
from kbroker.acl.acl import (
    WILDCARD,
    Acl,
    AclOperation,
    AclPattern,
    AclResource,
    AclResourceType,
    PatternType,
    Permission,
)
from kbroker.acl.acl_rules import AclRules, SuperUsers

RESOURCES, RULES_OF_EACH = 50_000, 50
RULES_OF_A_START = 100_000
_WARM_UP = 200_000  # decisions, at both
_SHARE_OF_PREFIXED = (
    500  # at Apache Kafka, which takes milliseconds for one: it makes so many fewer
)
_JAVA_MEMORY = "-Xmx3g"


def kbrokers_ns(decisions: int, pattern_type: PatternType) -> float:
    """Nanoseconds of a decision of kbroker."""
    rules = AclRules(SuperUsers())
    users = [f"User:user-{number}" for number in range(RULES_OF_EACH)]
    acls = tuple(
        Acl(user, WILDCARD, (AclOperation.READ, AclOperation.WRITE)[number % 2], Permission.ALLOW)
        for number, user in enumerate(users)
    )
    names = [f"topic-{number:05}" for number in range(RESOURCES)]
    rules.replace({AclPattern(AclResourceType.TOPIC, name, pattern_type): acls for name in names})
    draw = random.Random(1)
    asked = [
        (draw.choice(users), AclResource(AclResourceType.TOPIC, draw.choice(names)))
        for _ in range(_WARM_UP + decisions)
    ]
    for user, resource in asked[:_WARM_UP]:
        rules.is_granted(user, "127.0.0.1", AclOperation.WRITE, resource)
    began = time.perf_counter_ns()
    for user, resource in asked[_WARM_UP:]:
        rules.is_granted(user, "127.0.0.1", AclOperation.WRITE, resource)
    return (time.perf_counter_ns() - began) / decisions


def apaches_ns(decisions: int, pattern_type: PatternType) -> float:
    """Nanoseconds of a decision of AclAuthorizer."""
    classes = kept_classes("DecisionTimes", ZOOKEEPER_LINE, "Asker")
    is_prefixed = str(pattern_type is PatternType.PREFIXED).lower()
    warm_up = _WARM_UP
    if pattern_type is PatternType.PREFIXED:
        decisions, warm_up = decisions // _SHARE_OF_PREFIXED, warm_up // _SHARE_OF_PREFIXED
    words = [fresh_chroot(), *map(str, (RESOURCES, RULES_OF_EACH, decisions, warm_up))]
    path = f"{jars(ZOOKEEPER_LINE)}/*:{classes}"
    command = ["java", _JAVA_MEMORY, "-cp", path, "DecisionTimes", *words, is_prefixed]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-1_000:])
    return float(done.stdout.split()[-2])


def start(rules: int) -> tuple[float, float]:
    """Seconds from the start to the first connection, and MiB, of a broker that has so many rules."""
    with tempfile.TemporaryDirectory(prefix="kbroker-bench-") as home:
        options = (
            "--data", str(Path(home, "data")),
            "--override", "authorizer.class.name=kafka.security.authorizer.AclAuthorizer",
            "--override", "allow.everyone.if.no.acl.found=true",
        )  # fmt: skip
        with processes.kbroker(*options) as broker:
            if rules:
                make_rules(broker, rules)
        with processes.kbroker(*options) as broker:
            return time.perf_counter() - broker.started_at, broker.rss_mib()


def main() -> None:
    """Measure, and print medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--decisions", type=int, default=100_000)
    arguments = parser.parse_args()
    for pattern_type in (PatternType.LITERAL, PatternType.PREFIXED):
        ours, theirs = [], []
        for _ in range(arguments.rounds):
            ours.append(kbrokers_ns(arguments.decisions, pattern_type))
            theirs.append(apaches_ns(arguments.decisions, pattern_type))
        ns, of_apache = statistics.median(ours), statistics.median(theirs)
        print(
            f"{pattern_type.name}: kbroker {ns:,.0f} ns, AclAuthorizer {of_apache:,.0f} ns,"
            f" {ns / of_apache:.2f}",
            flush=True,
        )
    without = [start(0) for _ in range(arguments.rounds)]
    having = [start(RULES_OF_A_START) for _ in range(arguments.rounds)]
    seconds, mib = (
        statistics.median(each[figure] for each in having)
        - statistics.median(each[figure] for each in without)
        for figure in (0, 1)
    )
    print(f"{RULES_OF_A_START:,} rules: {seconds:.2f} s more to a start, {mib:.0f} MiB more")


if __name__ == "__main__":
    sys.exit(main())
