"""NewTopics: the topics that one request creates, from the check to the write.

Law: everything is checked before anything is written; all of it is looked up and written at once,
each topic whole or not at all, because half a topic can be neither used nor created again. Refusals
of one topic are values in its result.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID, uuid4

from kbroker.admin.replica_assignment import SpreadStart, assign_replicas, shared_assignments
from kbroker.admin.topic_validation import (
    MetricNames,
    validate_assignment,
    validate_topic_name,
)
from kbroker.config.config_view import ConfigEntry
from kbroker.config.topic_config import validate_overrides
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import ZERO_UUID
from kbroker.zk import zk_paths
from kbroker.zk.topic_nodes import NewTopicNodes
from kbroker.zk.tree import MAX_NODE_BYTES, NodeTooLargeError
from kbroker.zk.zk_paths import TopicAssignment
from kbroker.zk.zk_utils import ZkUtils

UNKNOWN_COUNT = -1
CountPartitions = Callable[[int], None]
"""Counts partitions that are about to be made. Raises KafkaError if they may not be."""


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class TopicResult:
    """The result for one topic.

    The layout is set for topics that were, or with validate_only would be, created.
    """

    name: str
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    topic_id: UUID = ZERO_UUID
    num_partitions: int = UNKNOWN_COUNT
    replication_factor: int = -1
    configs: Sequence[ConfigEntry] = ()

    def refuse(self, error: KafkaError) -> None:
        """Note the refusal; the topic is not created."""
        self.error, self.message = error.code, error.message


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class NewTopics:
    """A request's view of the tree, and the topics to create."""

    zk: ZkUtils
    rng: random.Random
    racks: Mapping[int, str | None]  # of the registered brokers
    existing: Collection[str]  # the existing ones among the topics asked for
    gives_ids: bool
    metric_names: MetricNames  # of all topics, if names could collide
    wanted: list[tuple[TopicResult, NewTopicNodes]] = field(default_factory=list)

    @classmethod
    async def look(
        cls, zk: ZkUtils, rng: random.Random, names: Sequence[str], *, gives_ids: bool
    ) -> NewTopics:
        """Read the topics of these names from the tree, all at once."""
        colliding = any("." in name or "_" in name for name in names)
        return cls(
            zk=zk,
            rng=rng,
            gives_ids=gives_ids,
            racks={b.broker_id: b.rack for b in await zk.all_brokers()},
            existing=await zk.existing_topics(names),
            metric_names=MetricNames(await zk.topics() if colliding else ()),
        )

    def spread(self, partitions: int, factor: int) -> dict[int, list[int]]:
        """Replicas by partition, over the registered brokers. Raises KafkaError."""
        count = max(len(self.racks), 1)
        spread = SpreadStart(self.rng.randrange(count), self.rng.randrange(count))
        return assign_replicas(self.racks, partitions, factor, spread)

    def add(
        self,
        result: TopicResult,
        assignment: Mapping[int, Sequence[int]],
        overrides: Mapping[str, str],
    ) -> None:
        """Add a topic to be written. Raises KafkaError for one that cannot be."""
        name = result.name
        validate_topic_name(name)
        if name in self.existing:
            raise topic_exists(name)
        self.metric_names.check(name)
        validate_assignment(assignment, self.racks)
        validate_overrides(overrides)
        partitions = shared_assignments(assignment)
        topic_id = uuid4() if self.gives_ids else ZERO_UUID
        nodes = TopicAssignment(topic_id=topic_id, partitions=partitions)
        self.wanted.append((result, NewTopicNodes(name, nodes, overrides)))
        self.metric_names.add(name)
        result.num_partitions = len(partitions)

    def count_last(self, count: CountPartitions) -> None:
        """Count the topic that was added last. Raises KafkaError: it is not written then."""
        result, _ = self.wanted[-1]
        try:
            count(result.num_partitions)
        except KafkaError:
            self.wanted.pop()
            raise

    async def write(self) -> None:
        """Create the added topics, all in one go; refusals are values in the results.

        Raises TreeUnavailableError: some of them may exist.
        """
        outcomes = await self.zk.create_topics([new for _, new in self.wanted])
        for (result, new), outcome in zip(self.wanted, outcomes, strict=True):
            if outcome is None:
                result.topic_id = new.assignment.topic_id
            elif isinstance(outcome, NodeTooLargeError):
                result.refuse(topic_too_large(new.topic, outcome, len(new.assignment.partitions)))
            else:
                result.refuse(topic_exists(new.topic))


def topic_exists(name: str) -> KafkaError:
    return KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")


def topic_too_large(name: str, error: NodeTooLargeError, partitions: int) -> KafkaError:
    """The refusal of a topic whose nodes no store takes."""
    if error.path == zk_paths.topic_path(name):
        code, what = ErrorCode.INVALID_PARTITIONS, f"{partitions} partitions"
    else:
        code, what = ErrorCode.INVALID_CONFIG, "its settings"
    message = (
        f"Topic '{name}' with {what} does not fit into a node of the tree, which takes "
        f"{MAX_NODE_BYTES} bytes"
    )
    return KafkaError(code, message)
