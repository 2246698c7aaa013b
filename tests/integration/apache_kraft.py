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

from compat_tests.running.apache_directories import ApacheBroker
from tests.integration.apache_tree import Overrides, partitions_by_topic

_OWN = ("meta.properties", "partition.metadata", "__cluster_metadata-0", ".lock")


class KraftCluster:
    """A cluster of one broker, stopped, with the topics of a data directory; `place` and
    `take_back` may follow each other any number of times.
    """

    def __init__(self, root: Path, home: Path, overrides: Overrides) -> None:
        self.broker = ApacheBroker(home)
        self.broker.start()
        try:
            create_topics(self.broker.bootstrap, partitions_by_topic(root), overrides)
        finally:
            self.broker.stop()
        self._own = {path.relative_to(home): path.read_bytes() for path in _own_files(home)}
        shutil.rmtree(home)

    def place(self, root: Path) -> None:
        """Put the partitions of `root` where the broker looks."""
        home = self.broker.data
        shutil.copytree(root, home, ignore=shutil.ignore_patterns(*_OWN))
        for path, content in self._own.items():
            if (home / path).parent.exists():
                (home / path).write_bytes(content)

    def take_back(self, root: Path) -> None:
        """Make `root` what the broker made of it; topic ids and identity are those from before."""
        home = self.broker.data
        for path in _own_files(root):
            if (home / path.relative_to(root)).parent.exists():
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
