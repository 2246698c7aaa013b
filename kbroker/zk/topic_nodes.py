"""The writes that create and remove the nodes of one topic.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kbroker.zk import zk_paths
from kbroker.zk.tree import CreateOp, DeleteOp, Op, SetOp
from kbroker.zk.zk_paths import TopicAssignment


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class NewTopicNodes:
    """A topic to create."""

    topic: str
    assignment: TopicAssignment
    overrides: Mapping[str, str]

    def ops(self, *, replace: bool) -> Sequence[Op]:
        """One transaction; `replace` is for overrides that exist without their topic."""
        path = zk_paths.config_path(zk_paths.TOPIC_CONFIGS, self.topic)
        config = zk_paths.encode_config(self.overrides)
        data = zk_paths.encode_topic(self.assignment)
        return (
            SetOp(path, config) if replace else CreateOp(path, config),
            CreateOp(zk_paths.topic_path(self.topic), data),
        )


def topic_removal(topic: str, partitions: Iterable[int]) -> list[Sequence[Op]]:
    """Transactions that remove a topic with these partitions, and the request to delete it."""
    paths = [zk_paths.partition_path(topic, partition) for partition in partitions]
    below = [f"{path}/state" for path in paths] + paths
    below.append(zk_paths.partitions_path(topic))
    below.append(zk_paths.config_path(zk_paths.TOPIC_CONFIGS, topic))
    # The last transaction frees the name: afterwards nothing may be left to remove that a new topic
    # of this name would own.
    wish = zk_paths.delete_topic_path(topic)
    return [
        *((DeleteOp(path),) for path in below),
        (DeleteOp(zk_paths.topic_path(topic)), DeleteOp(wish)),
    ]
