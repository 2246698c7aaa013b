"""Three brokers over a ZooKeeper for clients that are tested against a cluster, replicas of everything
on each; while the tests run, one broker after the other may be restarted.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from compat_tests.cluster.processes import Cluster
from compat_tests.running.zookeeper_servers import zookeeper_servers

SETTINGS = {
    "default.replication.factor": "3",
    "offsets.topic.replication.factor": "3",
    "num.partitions": "1",
    "auto.create.topics.enable": "true",
    "auto.leader.rebalance.enable": "true",
    "leader.imbalance.check.interval.seconds": "5",
}


@contextmanager
def three_brokers(directory: Path, restart_every_s: float | None) -> Iterator[str]:
    """The addresses of three brokers. At the end all of them must have stopped well."""
    with (
        zookeeper_servers(directory=directory / "zookeeper") as zookeeper,
        Cluster(directory, zookeeper, ["kbroker"] * 3, SETTINGS) as cluster,
    ):
        cluster.start()
        over = threading.Event()
        restarts = threading.Thread(target=_restart, args=(cluster, restart_every_s, over))
        if restart_every_s is not None:
            restarts.start()
        try:
            yield cluster.bootstrap
        finally:
            over.set()
            if restart_every_s is not None:
                restarts.join()
        cluster.stop()
        for broker in cluster.brokers.values():
            assert "Traceback" not in broker.log_text(), broker.log_text()[-3000:]


def _restart(cluster: Cluster, every_s: float | None, over: threading.Event) -> None:
    for broker_id in itertools.cycle(cluster.ids):
        if over.wait(every_s):
            return
        cluster.restart(broker_id)
