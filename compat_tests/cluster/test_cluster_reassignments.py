"""kafka-reassign-partitions and a cluster: partitions move at the rate that is asked for, a move can
be added to those under way and cancelled, and the tool's throttles end with the moves.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from compat_tests.cluster.processes import Cluster
from compat_tests.cluster.replicas import await_in_sync, await_same_logs, log_bytes
from compat_tests.commands.tool_runner import run_tool
from compat_tests.running.apache_kafka import NEWEST, ZOOKEEPER_LINE
from compat_tests.running.waiting import until
from compat_tests.wire.record_bytes import batch

pytestmark = pytest.mark.java

REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
BATCH_BYTES = 500_000
BATCHES = 12
RATE = 1_000_000
# One answer may bring more than the rate allows: of a partition a megabyte, and its last batch.
ANSWER_BYTES = 2_000_000
LEADER, FOLLOWER = "leader.replication.throttled", "follower.replication.throttled"


class Moves:
    """The tool, with a file of its own for each plan."""

    def __init__(self, cluster: Cluster, folder: Path, topic: str) -> None:
        self._cluster = cluster
        self._folder = folder
        self._topic = topic

    def plan(
        self,
        action: str,
        replicas: Mapping[int, Sequence[int]],
        *options: str,
        version: str = ZOOKEEPER_LINE,
    ) -> str:
        """Act on the moves of these partitions to these replicas."""
        plan = [
            {"topic": self._topic, "partition": index, "replicas": list(ids)}
            for index, ids in replicas.items()
        ]
        path = self._folder / "plan.json"
        path.write_text(json.dumps({"version": 1, "partitions": plan}))
        return self.tool(action, "--reassignment-json-file", str(path), *options, version=version)

    def tool(self, *args: str, version: str = ZOOKEEPER_LINE) -> str:
        done = run_tool(
            REASSIGN, "--bootstrap-server", self._cluster.bootstrap, *args, version=version
        )
        return done.stdout + done.stderr


@pytest.fixture
def moves(cluster: Cluster, tmp_path: Path, topic: str) -> Moves:
    """For a topic with two partitions on broker 1, of 6 MB each."""
    cluster.create_topic(topic, 1, 1)
    with cluster.wire(1) as wire:
        for partition in (0, 1):
            for _ in range(BATCHES):
                records = batch(value_bytes=BATCH_BYTES)
                assert wire.produce(topic, records, partition=partition).startswith("0;")
    return Moves(cluster, tmp_path, topic)


def rates(cluster: Cluster, broker_id: int) -> dict[str, str]:
    found = cluster.tree.config("brokers", str(broker_id))
    return {name: value for name, value in found.items() if name.endswith("throttled.rate")}


def lists(cluster: Cluster, topic: str) -> dict[str, str]:
    found = cluster.tree.config("topics", topic)
    return {name: value for name, value in found.items() if name.endswith("throttled.replicas")}


def test_a_partition_moves_at_the_rate_of_its_throttle(
    cluster: Cluster, moves: Moves, topic: str
) -> None:
    started = time.monotonic()
    said = moves.plan("--execute", {0: [1, 2]}, "--throttle", str(RATE))
    assert "Successfully started partition reassignment" in said
    assert rates(cluster, 1) == {f"{LEADER}.rate": str(RATE), f"{FOLLOWER}.rate": str(RATE)}
    assert lists(cluster, topic) == {f"{LEADER}.replicas": "0:1", f"{FOLLOWER}.replicas": "0:2"}

    copied = 0
    while copied < BATCHES * BATCH_BYTES:
        copied = len(log_bytes(cluster, 2, f"{topic}-0"))
        elapsed_s = time.monotonic() - started
        assert copied <= elapsed_s * RATE * 1.2 + ANSWER_BYTES, (copied, elapsed_s)
        assert elapsed_s < 60, copied
        time.sleep(0.1)
    assert time.monotonic() - started > (BATCHES * BATCH_BYTES - ANSWER_BYTES) / RATE / 1.2
    await_in_sync(cluster, topic)
    until(lambda: "no longer" not in (said := moves.plan("--verify", {0: [1, 2]}))
          and "is completed" in said, "the move is over")  # fmt: skip

    for broker_id in cluster.ids:
        until(lambda n=broker_id: not rates(cluster, n), "the rates are gone")
    assert lists(cluster, topic) == {}
    await_same_logs(cluster, topic)


def test_moves_are_added_listed_and_cancelled(cluster: Cluster, moves: Moves, topic: str) -> None:
    moves.plan("--execute", {0: [1, 2]}, "--throttle", "1")  # stands still after the first answer
    refused = moves.plan("--execute", {1: [3]})
    assert "Use --additional" in refused or "existing assignment running" in refused
    added = moves.plan("--execute", {1: [3]}, "--additional", "--throttle", "1")
    assert "Successfully started partition reassignment" in added

    listed = moves.tool("--list").splitlines()
    assert f"{topic}-0: replicas: 1,2. adding: 2." in listed
    assert f"{topic}-1: replicas: 3,1. adding: 3. removing: 1." in listed
    assert "is still in progress" in moves.plan("--verify", {0: [1, 2], 1: [3]})

    # The tool of 3.9.2 finds no move to cancel, with brokers of 3.9.2 as with these.
    cancelled = moves.plan("--cancel", {0: [1, 2]}, version=NEWEST)
    assert f"Successfully cancelled partition reassignment for: {topic}-0" in cancelled
    until(lambda: cluster.tree.assignment(topic) == {0: [1], 1: [3]}, "the other one goes on")
    until(lambda: not (cluster.brokers[2].data / f"{topic}-0").exists(), "nothing is left of it")
    verified = moves.plan("--verify", {1: [3]})

    assert f"Reassignment of partition {topic}-1 is completed." in verified
    assert "No partition reassignments found." in moves.tool("--list")
    assert all(not rates(cluster, number) for number in cluster.ids)
    assert len(log_bytes(cluster, 3, f"{topic}-1")) > BATCHES * BATCH_BYTES
