"""Access rules that brokers of kbroker and of Apache Kafka 3.9.2 change at once, over one ZooKeeper:
`python -m compat_tests.cluster.mixed_rules --edits 2000 --seed 1`. Each broker adds rules and takes
some of its own back, all about the same few resources. Afterwards both kinds have the rules that are
left, none more and none less, and nodes as Apache Kafka writes them.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

from compat_tests.answers.authorized import ACL_AUTHORIZER, RIGHTS
from compat_tests.answers.rules import (
    CREATE_ACLS,
    DELETE_ACLS,
    DESCRIBE_ACLS,
    EVERYTHING,
    LITERAL,
    PREFIXED,
    TOPIC,
)
from compat_tests.clients.raw_connection import RawConnection
from compat_tests.cluster.processes import Cluster
from compat_tests.running.shared_zookeeper import shared_zookeeper

KINDS = ("kbroker", "apache", "kbroker", "kbroker")
SETTINGS = RIGHTS | {
    "authorizer.class.name": ACL_AUTHORIZER,
    "zookeeper.session.timeout.ms": "30000",  # of a busy machine
}
_SOON_S = 10.0
_PLACES = {LITERAL: "/kafka-acl", PREFIXED: "/kafka-acl-extended/prefixed"}

Rule = tuple[str, int, str, str, int, int]  # name, pattern, principal, host, operation, permission


def edit(address: str, number: int, seed: int, edits: int) -> set[Rule]:
    """Add rules at a broker, and take some back; returns those that are left."""
    draw, left = Random(f"{seed} {number}"), set[Rule]()
    connection = RawConnection(address, 60)
    for count in range(edits):
        if left and draw.random() < 0.4:
            rule = draw.choice(sorted(left))
            answer = connection.call(DELETE_ACLS, 1, filters=[filter_of(rule)])
            (result,) = answer.filter_results
            assert (int(result.error_code), len(result.matching_acls)) == (0, 1), (rule, result)
            left.discard(rule)
        else:
            principal = f"User:{number}-{count}"
            name, pattern = draw.choice(("t", "to")), draw.choice((LITERAL, PREFIXED))
            rule = (name, pattern, principal, "*", draw.randrange(3, 12), draw.choice((2, 3)))
            answer = connection.call(CREATE_ACLS, 1, creations=[creation_of(rule)])
            assert [int(result.error_code) for result in answer.results] == [0], answer
            left.add(rule)
    connection.close()
    return left


def creation_of(rule: Rule) -> dict[str, Any]:
    name, pattern, principal, host, operation, permission = rule
    return {
        "resource_type": TOPIC, "resource_name": name, "resource_pattern_type": pattern,
        "principal": principal, "host": host, "operation": operation, "permission_type": permission,
    }  # fmt: skip


def filter_of(rule: Rule) -> dict[str, Any]:
    name, pattern, principal, host, operation, permission = rule
    return {
        "resource_type_filter": TOPIC, "resource_name_filter": name, "pattern_type_filter": pattern,
        "principal_filter": principal, "host_filter": host, "operation": operation,
        "permission_type": permission,
    }  # fmt: skip


def described(address: str) -> set[Rule]:
    """The rules that a broker decides by."""
    connection = RawConnection(address, 60)
    answer = connection.call(DESCRIBE_ACLS, 3, **EVERYTHING)
    connection.close()
    return {
        (
            r.resource_name, int(r.pattern_type), a.principal, a.host, int(a.operation),
            int(a.permission_type),
        )
        for r in answer.resources
        for a in r.acls
    }  # fmt: skip


def written(cluster: Cluster) -> set[Rule]:
    """The rules in the tree, each node in the bytes of Apache Kafka."""
    found = set()
    operations = ("Read", "Write", "Create", "Delete", "Alter", "Describe", "ClusterAction",
                  "DescribeConfigs", "AlterConfigs", "IdempotentWrite")  # fmt: skip
    for pattern, root in _PLACES.items():
        for name in cluster.tree.children(f"{root}/Topic"):
            data = cluster.tree.get(f"{root}/Topic/{name}") or b""
            document = json.loads(data)
            assert list(document) == ["acls", "version"], data
            assert json.dumps(document, separators=(",", ":")).encode() == data
            for acl in document["acls"]:
                assert list(acl) == ["principal", "permissionType", "host", "operation"], data
                operation = operations.index(acl["operation"]) + 3
                permission = {"Deny": 2, "Allow": 3}[acl["permissionType"]]
                found.add((name, pattern, acl["principal"], acl["host"], operation, permission))
    return found


def play(cluster: Cluster, seed: int, edits: int) -> float:
    """Let all brokers edit at once; returns after how many seconds all of them knew all."""
    addresses = cluster.bootstraps
    each = edits // len(addresses)
    with ThreadPoolExecutor(len(addresses)) as pool:
        jobs = [
            pool.submit(edit, address, number, seed, each)
            for number, address in enumerate(addresses)
        ]
        left = set().union(*(job.result() for job in jobs))
    began = time.monotonic()
    while not all(described(address) == left for address in addresses):
        assert time.monotonic() - began < _SOON_S, [
            (address, described(address) ^ left) for address in addresses
        ]
        time.sleep(0.02)
    took = time.monotonic() - began
    assert written(cluster) == left
    return took


def main() -> int:
    """Say how it went."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edits", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mixed-rules-") as root:
        folder = Path(root)
        with Cluster(folder, shared_zookeeper(), KINDS, SETTINGS, "/mixed-rules") as cluster:
            cluster.start()
            took = play(cluster, arguments.seed, arguments.edits)
    print(
        f"{arguments.edits:,} edits by {len(KINDS)} brokers, all known everywhere {took:.2f} s later"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
