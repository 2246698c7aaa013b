"""Partitions of a data directory moved into a KRaft cluster of Apache Kafka: topics of the same
names are made there, the broker is stopped, and its partition directories get the files, each
keeping its own topic id.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from kafka import KafkaAdminClient
from kafka.admin import NewTopic

from compat_tests.apache_directories import ApacheBroker
from tests.integration.apache_tree import Overrides, partitions_by_topic

_OWN = ("meta.properties", "partition.metadata", "__cluster_metadata-0", ".lock")


def placed(root: Path, home: Path, overrides: Overrides) -> ApacheBroker:
    """A stopped broker over `home`, a directory of its own, with the partitions of `root` in it."""
    broker = ApacheBroker(home)
    broker.start()
    try:
        create_topics(broker.bootstrap, partitions_by_topic(root), overrides)
    finally:
        broker.stop()
    own = {path.relative_to(home): path.read_bytes() for path in _own_files(home)}
    shutil.rmtree(home)
    shutil.copytree(root, home, ignore=shutil.ignore_patterns(*_OWN))
    for path, content in own.items():
        if (home / path).parent.exists():
            (home / path).write_bytes(content)
    return broker


def take_back(home: Path, root: Path) -> None:
    """Give the files that `placed` kept from `root` back: `home` becomes `root`."""
    for path in _own_files(root):
        shutil.copy(path, home / path.relative_to(root))
    shutil.rmtree(root)
    home.rename(root)


def create_topics(
    bootstrap: str, partitions: Mapping[str, list[int]], overrides: Overrides
) -> None:
    """Make topics with these partitions."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics(
        [
            NewTopic(topic, max(numbers) + 1, 1, topic_configs=dict(overrides.get(topic, {})))
            for topic, numbers in partitions.items()
        ]
    )
    admin.close()


def _own_files(home: Path) -> list[Path]:
    return [home / "meta.properties", *home.glob("*-*/partition.metadata")]
