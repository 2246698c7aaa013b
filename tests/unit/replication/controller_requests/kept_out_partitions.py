"""Fails unless what is made for 250 partitions is kept out of collections, and goes with them though
no collection looks at it; a program, so that nothing else has been made.
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path

from kbroker.log.partition.log import Log
from kbroker.model import TopicPartition
from kbroker.replication.partitions.partition import Partition
from tests.fakes.clusters.replication_cluster import ReplicationCluster, stop_replica
from tests.fakes.logs.log_maker import manager

PARTITIONS = 250


def held() -> int:
    return sum(isinstance(each, Log | Partition) for each in gc.get_objects())


def main(directory: Path) -> None:
    gc.disable()
    logs = manager(directory, file_delete_delay_ms=0)
    logs.load("cluster", 0)
    cluster = ReplicationCluster(logs)
    for number in range(PARTITIONS):
        cluster.lead("t", number)
    assert held() <= 2 < gc.get_freeze_count()
    assert logs.get_log(TopicPartition("t", 0)) is not None

    for number in range(PARTITIONS):
        cluster.replicas.leadership.stop_replicas(stop_replica("t", number))
    logs.finish_deletions()
    gc.unfreeze()
    assert held() == 0
    cluster.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
