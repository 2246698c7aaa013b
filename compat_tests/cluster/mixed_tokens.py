"""Delegation tokens that a broker of kbroker and one of Apache Kafka 3.9.2 make, renew and end over one
ZooKeeper: `python -m compat_tests.cluster.mixed_tokens --edits 200 --seed 1`. Afterwards both show the
same tokens, each of them logs in at both, and all nodes have the bytes that Apache Kafka writes.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import Any

from kazoo.client import KazooClient

from compat_tests.answers.authorized import Authorized
from compat_tests.answers.token_steps import (
    DESCRIBE,
    Stage,
    create,
    expire,
    log_in,
    renew,
)
from compat_tests.answers.tokens import WITH_TOKENS
from compat_tests.conftest import BrokerProcess
from compat_tests.running import apache_kafka
from compat_tests.running.apache_directories import ApacheBroker
from compat_tests.running.shared_zookeeper import fresh_chroot
from compat_tests.running.waiting import until

SETTINGS = WITH_TOKENS | {
    "zookeeper.session.timeout.ms": "30000",  # of a busy machine
    "delegation.token.expiry.check.interval.ms": "300",
    "inter.broker.listener.name": "PLAINTEXT",
}
FIELDS = ["issueTimestamp", "renewers", "tokenRequester", "tokenId", "owner", "expiryTimestamp",
          "maxTimestamp", "version"]  # fmt: skip
OURS, THEIRS = "kbroker", "apache"


class Mixed:
    """The two brokers, kbroker first, and their tree."""

    def __init__(self, folder: Path, zookeeper: str) -> None:
        ports = [apache_kafka.free_port() for _ in range(4)]
        self.addresses = {OURS: f"127.0.0.1:{ports[0]}", THEIRS: f"127.0.0.1:{ports[2]}"}
        self.inside = {OURS: ports[1], THEIRS: ports[3]}
        given = SETTINGS | {"broker.id": "1", "listeners": _listeners(*ports[:2])}
        options = [word for pair in given.items() for word in ("--override", "=".join(pair))]
        self.ours = BrokerProcess(
            folder / OURS / "data", ("--zookeeper", zookeeper, *options), ports[0]
        )
        given = SETTINGS | {"broker.id": "2", "listeners": _listeners(*ports[2:])}
        self.theirs = ApacheBroker(folder / THEIRS, zookeeper, settings=given, port=ports[2])
        self.tree = KazooClient(zookeeper)

    def stage(self, kind: str) -> Stage:
        """Users at one of the brokers."""
        return Stage(Authorized(self.addresses[kind], self.inside[kind], settles=False))

    def node(self, token_id: str) -> bytes:
        data: bytes = self.tree.get(f"/delegation_token/tokens/{token_id}")[0]
        return data


def _listeners(plain: int, inside: int) -> str:
    return f"PLAINTEXT://127.0.0.1:{plain},SASL_PLAINTEXT://127.0.0.1:{inside}"


@contextmanager
def mixed(folder: Path) -> Iterator[Mixed]:
    """Start both; kbroker is the controller."""
    made = Mixed(folder, fresh_chroot())
    with ExitStack() as running:
        made.ours.start()
        running.callback(lambda: made.ours.process.poll() is None and made.ours.stop())
        made.theirs.start()
        running.callback(made.theirs.stop)
        made.tree.start()
        running.callback(made.tree.close)
        running.callback(made.tree.stop)
        yield made


def shown(stage: Stage) -> dict[str, tuple[Any, ...]]:
    """Ask a broker about each token."""
    answer = stage.connection("ann").call(DESCRIBE, 3, owners=None)
    assert answer.error_code == 0
    return {
        each.token_id: (
            each.principal_name, each.token_requester_principal_name, each.issue_timestamp,
            each.expiry_timestamp, each.max_timestamp, each.hmac,
            tuple(renewer.principal_name for renewer in each.renewers),
        )
        for each in answer.tokens
    }  # fmt: skip


def as_kafka_writes_it(data: bytes) -> bool:
    document = json.loads(data)
    is_same = json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode() == data
    return list(document) == FIELDS and document["version"] == 3 and is_same


def logs_in(stage: Stage, label: str) -> bool:
    found = [log_in(label, mechanism)(stage) for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")]
    return all("signature right" in each for each in found)


def soon(what: Callable[[], bool], sentence: str) -> float:
    """Wait until it is so; returns after how many seconds it was."""
    began = time.monotonic()
    until(what, sentence)
    return time.monotonic() - began


def play(brokers: Mixed, seed: int, edits: int) -> float:
    """Let users edit at one broker or the other; returns the longest time that the other one took to
    know.
    """
    draw = Random(seed)
    stages = [brokers.stage(OURS), brokers.stage(THEIRS)]
    labels: list[str] = []
    longest_s = 0.0

    def are_alike() -> bool:
        return shown(stages[0]) == shown(stages[1])

    for number in range(edits):
        here = draw.choice(stages)
        there = stages[1 - stages.index(here)]
        label = draw.choice(labels) if labels and draw.random() < 0.6 else f"t{number}"
        if label not in labels:
            renewers = [("User", name) for name in ("bob", "CN=é,O=x:y") if draw.random() < 0.5]
            assert create("ann", label, renewers=renewers)(here).startswith("0 ")
            there.tokens[label] = here.tokens[label]
            labels.append(label)
        elif draw.random() < 0.3:
            assert expire("ann", label)(here).startswith("0 ")
            labels.remove(label)
        else:
            change = draw.choice((renew, expire))
            assert change("ann", label, draw.randrange(10**6, 10**9))(here).startswith("0 ")
        longest_s = max(longest_s, soon(are_alike, "both know it"))
    for label in labels:
        assert as_kafka_writes_it(brokers.node(stages[0].tokens[label].token_id))
        assert all(logs_in(stage, label) for stage in stages), label
    assert len(brokers.tree.get_children("/delegation_token/tokens")) == len(labels)
    return longest_s


def main() -> int:
    """Say how it went."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edits", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mixed-tokens-") as root, mixed(Path(root)) as brokers:
        took = play(brokers, arguments.seed, arguments.edits)
    print(f"{arguments.edits} edits, nodes as Apache Kafka's, known at both within {took:.2f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
