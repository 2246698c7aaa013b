"""The short form of the rounds: sessions expire, ZooKeeper restarts, the controller is killed, and
afterwards nothing is lost and every broker's metadata is right.
"""

from __future__ import annotations

from pathlib import Path

from compat_tests.cluster.rounds import run
from compat_tests.running.zookeeper_servers import zookeeper_servers

FAULTS = ["expiry", "zookeeper", "kill", "expiry"]


def test_metadata_and_records_are_right_after_every_fault(kind: str, tmp_path: Path) -> None:
    with zookeeper_servers(directory=tmp_path / "zookeeper") as zookeeper:
        rounds = run(tmp_path, zookeeper, kind, FAULTS, seed=3)

    assert rounds.figures.compared == len(FAULTS)
    assert sum(rounds.administrator.done.values()) > 10
    assert all(writer.acknowledged.count > 100 for writer in rounds.writers)
