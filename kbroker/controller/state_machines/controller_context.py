"""ControllerContext: all that a controller knows of its cluster, and its machines' questions.

Data with indexes. Owned by the controller's queue; a new controller starts with an empty one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from enum import Enum
from typing import NamedTuple
from uuid import UUID

from kbroker.counters import Counter
from kbroker.model import ZERO_UUID, Broker, EndPoint, ReplicaAssignment, TopicPartition
from kbroker.zk.zk_paths import PartitionStateZnode, TopicAssignment


class PartitionState(Enum):
    """The state of a partition."""

    NON_EXISTENT = "NonExistentPartition"
    NEW = "NewPartition"  # replicas assigned, no leader yet
    ONLINE = "OnlinePartition"
    OFFLINE = "OfflinePartition"  # its leader has died


class ReplicaState(Enum):
    """The state of one replica of a partition."""

    NON_EXISTENT = "NonExistentReplica"
    NEW = "NewReplica"
    ONLINE = "OnlineReplica"
    OFFLINE = "OfflineReplica"
    DELETION_STARTED = "ReplicaDeletionStarted"
    DELETION_SUCCESSFUL = "ReplicaDeletionSuccessful"
    DELETION_INELIGIBLE = "ReplicaDeletionIneligible"


class Replica(NamedTuple):
    """One copy of a partition on one broker."""

    topic_partition: TopicPartition
    broker_id: int


class ControllerContext:
    """The controller's picture of the cluster."""

    def __init__(self) -> None:
        self.epoch = 0
        self.epoch_version = 0  # version of /controller_epoch, checked with every write
        self.inter_broker_listener: str | None = None  # None: the first of a broker
        self.gives_topic_ids = True  # to topics that were created without
        self.first_levels: Mapping[str, int] = {}  # of features, in a new cluster
        self.live_brokers: dict[int, Broker] = {}
        self.shutting_down: set[int] = set()
        self.topic_ids: dict[str, UUID] = {}
        self.assignments: dict[str, dict[int, ReplicaAssignment]] = {}
        self.leadership: dict[TopicPartition, PartitionStateZnode] = {}
        self.partition_states: dict[TopicPartition, PartitionState] = {}
        self.replica_states: dict[Replica, ReplicaState] = {}
        self.topics_to_delete: set[str] = set()
        self.topics_ineligible_for_deletion: set[str] = set()
        self.topics_with_deletion_started: set[str] = set()
        self.replicas_on_failed_dirs: set[Replica] = set()
        self.replicas_away: set[Replica] = set()  # considered offline, though their broker lives
        self.in_doubt: set[TopicPartition] = set()  # see partitions_in_doubt
        self.unclean_elections = Counter()  # by all controllers of this broker

    def forget_cluster(self) -> None:
        """Be ready to read the cluster again within one reign.

        The brokers about to stop stay, and so do the registrations, which show whether a broker is
        still the same. Unusable replicas are asked for again: an answer that one can be used may
        have been dropped with all others.
        """
        self.topic_ids.clear()
        self.assignments.clear()
        self.leadership.clear()
        self.partition_states.clear()
        self.replica_states.clear()
        self.topics_to_delete.clear()
        self.topics_ineligible_for_deletion.clear()
        self.topics_with_deletion_started.clear()
        self.replicas_on_failed_dirs.clear()
        self.replicas_away.clear()

    # ---- brokers

    def is_live(self, broker_id: int) -> bool:
        """True when the broker is registered and not about to stop."""
        return broker_id in self.live_brokers and broker_id not in self.shutting_down

    def is_registered(self, broker_id: int, broker_epoch: int) -> bool:
        """True if this is the broker's present life: answers of an earlier one prove nothing."""
        broker = self.live_brokers.get(broker_id)
        return broker is not None and broker.epoch == broker_epoch

    def end_points_between_brokers(self, broker_id: int) -> list[EndPoint]:
        """The address at which other brokers reach a live broker: one end point, or none."""
        name, end_points = self.inter_broker_listener, self.live_brokers[broker_id].end_points
        return [e for e in end_points if name in (None, e.listener_name)][:1]

    def live_broker_ids(self) -> set[int]:
        """All brokers that are registered and not about to stop."""
        return self.live_brokers.keys() - self.shutting_down

    def is_replica_online(self, replica: Replica) -> bool:
        """True when the replica's broker lives and its directory has not failed."""
        return (
            self.is_live(replica.broker_id)
            and replica not in self.replicas_on_failed_dirs
            and replica not in self.replicas_away
        )

    # ---- topics

    def set_assignment(self, topic: str, assignment: TopicAssignment) -> None:
        """Take over the content of a topic's node."""
        self.topic_ids[topic] = assignment.topic_id
        self.assignments[topic] = {}
        self.add_partitions(topic, assignment.partitions)

    def add_partitions(self, topic: str, added: Mapping[int, ReplicaAssignment]) -> None:
        """Take over partitions of a topic; a broker that is named twice by hand counts once."""
        for partition, assignment in added.items():
            if len(set(assignment.replicas)) < len(assignment.replicas):
                distinct = tuple(dict.fromkeys(assignment.replicas))
                assignment = replace(assignment, replicas=distinct)
            self.assignments[topic][partition] = assignment

    def topic_id(self, topic: str) -> UUID:
        """The topic's id, zero if it has none."""
        return self.topic_ids.get(topic, ZERO_UUID)

    def topic_names(self, topic_ids: Collection[UUID]) -> dict[UUID, str]:
        return {
            topic_id: name for name, topic_id in self.topic_ids.items() if topic_id in topic_ids
        }

    def assignment(self, topic_partition: TopicPartition) -> ReplicaAssignment:
        """The replicas of a partition; none if it is unknown."""
        found = self.assignments.get(topic_partition.topic, {}).get(topic_partition.partition)
        return found if found is not None else ReplicaAssignment(replicas=())

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, p) for p in sorted(self.assignments.get(topic, ()))]

    def all_partitions(self) -> list[TopicPartition]:
        return [p for topic in self.assignments for p in self.partitions_of(topic)]

    def replicas_of(self, partitions: Iterable[TopicPartition]) -> list[Replica]:
        return [Replica(p, b) for p in partitions for b in self.assignment(p).replicas]

    def replicas_of_topic(self, topic: str) -> list[Replica]:
        return self.replicas_of(self.partitions_of(topic))

    def all_replicas(self) -> Iterator[Replica]:
        """All replicas of all topics, which may not change meanwhile."""
        for topic, partitions in self.assignments.items():
            for number, assignment in partitions.items():
                partition = TopicPartition(topic, number)
                for broker_id in assignment.replicas:
                    yield Replica(partition, broker_id)

    def replicas_on(self, brokers: Iterable[int]) -> list[Replica]:
        """All replicas on these brokers."""
        wanted = set(brokers)
        return [
            Replica(TopicPartition(topic, number), broker_id)
            for topic, partitions in self.assignments.items()
            for number, assignment in partitions.items()
            for broker_id in assignment.replicas
            if broker_id in wanted
        ]

    def remove_replica(self, replica: Replica) -> None:
        """Take a replica out of its partition's assignment.

        The partition goes with its last one.
        """
        partitions = self.assignments[replica.topic_partition.topic]
        old = partitions[replica.topic_partition.partition]
        left = tuple(b for b in old.replicas if b != replica.broker_id)
        partitions[replica.topic_partition.partition] = replace(old, replicas=left)

    def remove_topic(self, topic: str) -> None:
        """Forget all of a topic."""
        for partition in self.partitions_of(topic):
            self.leadership.pop(partition, None)
            self.partition_states.pop(partition, None)
            for replica in self.replicas_of([partition]):
                self.replica_states.pop(replica, None)
                self.replicas_on_failed_dirs.discard(replica)
        self.assignments.pop(topic, None)
        self.topic_ids.pop(topic, None)
        self.topics_to_delete.discard(topic)
        self.topics_ineligible_for_deletion.discard(topic)
        self.topics_with_deletion_started.discard(topic)

    # ---- states

    def partition_state(self, topic_partition: TopicPartition) -> PartitionState:
        """The state of a partition: NonExistent if it is unknown."""
        return self.partition_states.get(topic_partition, PartitionState.NON_EXISTENT)

    def replica_state(self, replica: Replica) -> ReplicaState:
        """The state of a replica: NonExistent if it is unknown."""
        return self.replica_states.get(replica, ReplicaState.NON_EXISTENT)

    def replicas_in_state(self, topic: str, state: ReplicaState) -> list[Replica]:
        return [r for r in self.replicas_of_topic(topic) if self.replica_state(r) is state]

    def is_queued_for_deletion(self, topic: str) -> bool:
        """True from the wish to delete a topic until it is gone."""
        return topic in self.topics_to_delete

    def partitions_led_by_dead_brokers(self) -> list[TopicPartition]:
        """Partitions with a leader that cannot lead now, without those being deleted."""
        return [
            partition
            for partition, state in self.leadership.items()
            if not self.is_queued_for_deletion(partition.topic)
            and not self.is_replica_online(Replica(partition, state.leader_and_isr.leader))
        ]

    def partitions_needing_leader(self) -> list[TopicPartition]:
        """Partitions that are new or offline, without those being deleted."""
        waiting = (PartitionState.NEW, PartitionState.OFFLINE)
        return [
            partition
            for partition, state in self.partition_states.items()
            if state in waiting and not self.is_queued_for_deletion(partition.topic)
        ]
