"""The operations that make the nodes of a topic whose logs are there already; pure except for the
id of a topic that has none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from uuid import UUID, uuid4

from kbroker.model import LeaderAndIsr, ReplicaAssignment
from kbroker.zk import zk_paths
from kbroker.zk.tree import CreateOp, Op
from kbroker.zk.zk_paths import TopicAssignment


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicWithLogs:
    """A topic to be made for its logs; each partition goes on with its entry in `leader_epochs`."""

    name: str
    topic_id: UUID | None  # None if no file has it: it gets a new one
    leader_epochs: tuple[int, ...]
    settings: Mapping[str, str]


def topic_ops(topic: TopicWithLogs, broker_id: int) -> Iterator[Op]:
    """Yield the operations; the broker holds the only replica of each partition and leads it."""
    replicas = ReplicaAssignment(replicas=(broker_id,))
    assignment = TopicAssignment(
        topic_id=topic.topic_id or uuid4(),
        partitions=dict.fromkeys(range(len(topic.leader_epochs)), replicas),
    )
    yield CreateOp(
        zk_paths.config_path(zk_paths.TOPIC_CONFIGS, topic.name),
        zk_paths.encode_config(topic.settings),
    )
    yield CreateOp(zk_paths.topic_path(topic.name), zk_paths.encode_topic(assignment))
    yield CreateOp(zk_paths.partitions_path(topic.name))
    for partition, leader_epoch in enumerate(topic.leader_epochs):
        state = LeaderAndIsr(leader=broker_id, leader_epoch=leader_epoch, isr=(broker_id,))
        yield CreateOp(zk_paths.partition_path(topic.name, partition))
        yield CreateOp(
            zk_paths.partition_state_path(topic.name, partition),
            zk_paths.encode_partition_state(state, controller_epoch=0),
        )
