"""What Apache Kafka makes of the golden log directories when it opens them and stops again:
`python -m tests.golden.record_restarts` runs 3.9.2 (ZooKeeper) and 4.3.1 (KRaft) over copies and
writes name and digest of every file into `logs/<image>.after-restart.tsv.gz`.
"""

from __future__ import annotations

import gzip
import shutil
import sys
import tempfile
import time
from pathlib import Path

from compat_tests.running.apache_directories import ApacheBroker
from compat_tests.running.apache_kafka import NEWEST
from compat_tests.running.shared_zookeeper import fresh_chroot
from tests.golden import golden_logs
from tests.integration.apache_kraft import KraftCluster
from tests.integration.apache_tree import partitions_by_topic, write_tree

TOPIC = {"retention.ms": "-1", "index.interval.bytes": "200"}
TOPIC_OF_3_9 = TOPIC | {"segment.bytes": "1800", "segment.index.bytes": "4096"}
INTERNAL = {"segment.bytes": "6000", "segment.index.bytes": "4096", "cleanup.policy": "compact"}


def restarted_with_zookeeper(root: Path) -> ApacheBroker:
    """Open and close `root` with Apache Kafka 3.9.2."""
    overrides = {
        topic: INTERNAL if topic.startswith("__") else TOPIC_OF_3_9
        for topic in partitions_by_topic(root)
    }
    if "preallocated" in overrides:
        overrides["preallocated"] = TOPIC_OF_3_9 | {"preallocate": "true"}
    connect = fresh_chroot()
    write_tree(connect, root, overrides)
    broker = ApacheBroker(root, connect, settings={"broker.id": "0"})
    run(broker)
    return broker


def restarted_with_kraft(root: Path) -> ApacheBroker:
    """The same with 4.3.1, in a new cluster."""
    overrides = {topic: TOPIC for topic in partitions_by_topic(root) if not topic.startswith("__")}
    cluster = KraftCluster(root, root.parent / f"{root.name}-kraft", overrides)
    cluster.place(root)
    run(cluster.broker)
    cluster.take_back(root)
    return cluster.broker


def run(broker: ApacheBroker) -> None:
    """Start, let it become leader of everything, stop."""
    broker.start()
    time.sleep(1)
    broker.stop()


def main() -> None:
    images = sys.argv[1:] or golden_logs.IMAGES
    work = Path(tempfile.mkdtemp(prefix="kbroker-restarts-"))
    for image in images:
        root = golden_logs.unpack(image, work / image)
        if image.startswith(NEWEST):
            broker = restarted_with_kraft(root)
        else:
            broker = restarted_with_zookeeper(root)
        digests = golden_logs.digests(root)
        lines = [f"{name}\t{digest}\n" for name, digest in sorted(digests.items())]
        target = golden_logs.HOME / f"{image}.after-restart.tsv.gz"
        target.write_bytes(gzip.compress("".join(lines).encode(), mtime=0))
        sys.stdout.write(f"{image}: {len(lines)} files, {len(broker.complaints())} complaints\n")
    shutil.rmtree(work)


if __name__ == "__main__":
    main()
