"""Quotas that brokers of kbroker and of Apache Kafka 3.9.2 change, over one ZooKeeper: `python -m
compat_tests.cluster.mixed_quotas --edits 2000 --twins 200 --seed 1`.

At first twins: each edit goes to kbroker for one entity, and to Apache Kafka for its twin, and both have
the same bytes in the tree afterwards, or neither has a node. Then all brokers edit at once. Those of
kbroker share nodes, also with passwords of the same users, and none of their changes is lost. Apache
Kafka, which would overwrite what it has not read, has entities of its own.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

from compat_tests.clients.raw_connection import RawConnection
from compat_tests.cluster.processes import Cluster
from compat_tests.running.shared_zookeeper import shared_zookeeper
from compat_tests.wire.wire_client import (
    ALTER_CLIENT_QUOTAS,
    ALTER_USER_SCRAM_CREDENTIALS,
    DESCRIBE_CLIENT_QUOTAS,
)

KINDS = ("kbroker", "apache", "kbroker", "kbroker")
SETTINGS = {"zookeeper.session.timeout.ms": "30000"}  # of a busy machine
KEYS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage",
        "controller_mutation_rate")  # fmt: skip
RATE = "connection_creation_rate"
_CREDENTIAL = {"mechanism": 1, "iterations": 4096, "salt": b"salt", "salted_password": b"p" * 32}
_SOON_S = 10.0
_TYPES = {"user": "users", "client-id": "clients", "ip": "ips"}

Entity = tuple[tuple[str, str | None], ...]  # types with their names, None is the default
Quotas = dict[Entity, dict[str, float]]


def alter(connection: RawConnection, entity: Entity, key: str, value: float | None) -> None:
    """Set a quota, or remove it."""
    parts = [{"entity_type": kind, "entity_name": name} for kind, name in entity]
    op = {"key": key, "value": value or 0.0, "remove": value is None}
    answer = connection.call(
        ALTER_CLIENT_QUOTAS, 1, entries=[{"entity": parts, "ops": [op]}], validate_only=False
    )
    assert [int(each.error_code) for each in answer.entries] == [0], (entity, key, value, answer)


def described(address: str) -> Quotas:
    """All quotas as a broker tells them."""
    connection = RawConnection(address, 60)
    answer = connection.call(DESCRIBE_CLIENT_QUOTAS, 1, components=[], strict=False)
    connection.close()
    return {
        tuple(sorted((part.entity_type, part.entity_name) for part in each.entity)): {
            value.key: float(value.value) for value in each.values
        }
        for each in answer.entries
    }


def place(entity: Entity) -> str:
    """The path of an entity's node; names are plain here."""
    names = {kind: "<default>" if name is None else name for kind, name in entity}
    if len(names) == 2:
        return f"/config/users/{names['user']}/clients/{names['client-id']}"
    ((kind, name),) = names.items()
    return f"/config/{_TYPES[kind]}/{name}"


def edit_twins(cluster: Cluster, draw: Random, edits: int) -> None:
    """Make edits at both kinds, and hold their nodes against each other after each."""
    kinds = cluster.kinds
    ours = next(number for number in cluster.ids if kinds[number] == "kbroker")
    theirs = next(number for number in cluster.ids if kinds[number] == "apache")
    connections = [RawConnection(cluster.address(number), 60) for number in (ours, theirs)]
    touched: set[tuple[str, str]] = set()
    for _ in range(edits):
        entities = _twins(draw)
        key = RATE if entities[0][0][0] == "ip" else draw.choice(KEYS)
        value = None if draw.random() < 0.4 else _value(draw, key)
        for connection, entity in zip(connections, entities, strict=True):
            alter(connection, entity, key, value)
        touched.add((place(entities[0]), place(entities[1])))
        for paths in touched:
            for inner in (paths, [path.rpartition("/clients/")[0] or path for path in paths]):
                first, second = (_node(cluster, path) for path in inner)
                assert first == second, (inner, first, second, entities, key, value)
    for connection in connections:
        connection.close()


def _twins(draw: Random) -> tuple[Entity, Entity]:
    number, kind = draw.randrange(3), draw.randrange(4)
    first, second = f"first-{number}", f"second-{number}"
    if kind == 0:
        return (("ip", f"10.1.0.{number}"),), (("ip", f"10.2.0.{number}"),)
    if kind == 1:
        return (("client-id", first),), (("client-id", second),)
    if kind == 2:
        return (("user", first),), (("user", second),)
    client = draw.choice(("app", "b", None))
    return (("client-id", client), ("user", first)), (("client-id", client), ("user", second))


def _value(draw: Random, key: str) -> float:
    if key in KEYS[2:]:
        return draw.choice((0.0, 12.5, 1e7, 1.25e-4, float(draw.randrange(10**9)), draw.random()))
    return float(draw.choice((0, 1, draw.randrange(2**31))))


def _node(cluster: Cluster, path: str) -> tuple[bool, bytes | None]:
    found = cluster.tree.node(path)
    return (found is not None, None if found is None else found[0])


class Editor:
    """A broker, the entities that it edits, and the keys that are its own."""

    def __init__(self, address: str, number: int, seed: int, keys: Sequence[str]) -> None:
        self._connection = RawConnection(address, 60)
        self._draw = Random(f"{seed} {number}")
        self._prefix = "shared" if len(keys) == 1 else f"own-{number}"
        self._keys = keys
        self.left: Quotas = {}
        self.users: set[str] = set()  # that got a password

    def run(self, edits: int) -> None:
        """Edit, and keep what should be left."""
        for _ in range(edits):
            entity, key = self._entity(), self._draw.choice(self._keys)
            known = self.left.setdefault(entity, {})
            user = dict(entity).get("user")
            if user is not None and len(self._keys) == 1 and self._draw.random() < 0.1:
                self._give_password(user)
            elif key in known and self._draw.random() < 0.5:
                alter(self._connection, entity, key, None)
                del known[key]
            else:
                known[key] = float(self._draw.randrange(1, 10**6))
                alter(self._connection, entity, key, known[key])
        self._connection.close()

    def _give_password(self, user: str) -> None:
        wanted = {"name": user, **_CREDENTIAL}
        answer = self._connection.call(
            ALTER_USER_SCRAM_CREDENTIALS, 0, deletions=[], upsertions=[wanted]
        )
        if [int(each.error_code) for each in answer.results] == [0]:
            self.users.add(user)

    def _entity(self) -> Entity:
        name, kind = f"{self._prefix}-{self._draw.randrange(3)}", self._draw.randrange(3)
        if kind == 0:
            return (("client-id", name),)
        if kind == 1:
            return (("user", name),)
        return (("client-id", "app"), ("user", name))


def edit_at_once(cluster: Cluster, seed: int, edits: int) -> float:
    """Let all brokers edit at once; returns after how many seconds all of them told all."""
    editors, ours = [], 0
    for number in cluster.ids:
        keys: Sequence[str] = KEYS
        if cluster.kinds[number] == "kbroker":
            keys, ours = KEYS[ours : ours + 1], ours + 1
        editors.append(Editor(cluster.address(number), number, seed, keys))
    with ThreadPoolExecutor(len(editors)) as pool:
        jobs = [pool.submit(editor.run, edits // len(editors)) for editor in editors]
        for job in jobs:
            job.result()
    wanted: Quotas = {}
    for editor in editors:
        for entity, values in editor.left.items():
            if values:
                wanted.setdefault(entity, {}).update(values)
    began = time.monotonic()
    while not all(_about(described(each), wanted) for each in cluster.bootstraps):
        assert time.monotonic() - began < _SOON_S, [
            (each, wanted, described(each)) for each in cluster.bootstraps
        ]
        time.sleep(0.02)
    took = time.monotonic() - began
    for user in set().union(*(editor.users for editor in editors)):
        config: Any = json.loads(cluster.tree.get(f"/config/users/{user}") or b"{}")
        assert "SCRAM-SHA-256" in config["config"], user
    return took


def _about(found: Quotas, wanted: Quotas) -> bool:
    """Whether these are told, and none more of the entities that editors have."""
    names = ("shared-", "own-")
    told = {
        entity: values
        for entity, values in found.items()
        if any((name or "").startswith(names) for _, name in entity)
    }
    return told == wanted


def main() -> int:
    """Say how it went."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edits", type=int, default=2_000)
    parser.add_argument("--twins", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="mixed-quotas-") as root,
        Cluster(Path(root), shared_zookeeper(), KINDS, SETTINGS, "/mixed-quotas") as cluster,
    ):
        cluster.start()
        edit_twins(cluster, Random(given.seed), given.twins)
        took = edit_at_once(cluster, given.seed, given.edits)
    print(
        f"{given.twins:,} edits of twins: the same bytes after each; {given.edits:,} edits by "
        f"{len(KINDS)} brokers at once, all told everywhere {took:.2f} s later"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
