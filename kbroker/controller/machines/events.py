"""What can happen to a controller.

Each event is one turn of the controller's queue; no two are worked at once.
"""

from __future__ import annotations

from dataclasses import dataclass

from kbroker.model import TopicPartition


@dataclass(frozen=True, slots=True)
class Startup:
    """The broker has started: look for a controller, or become it."""


@dataclass(frozen=True, slots=True)
class ControllerChange:
    """The controller's node came or changed: perhaps this broker is no longer it."""


@dataclass(frozen=True, slots=True)
class Reelect:
    """The controller's node has gone."""


@dataclass(frozen=True, slots=True)
class Expire:
    """The session has ended: whatever this broker was, it is no longer controller."""


@dataclass(frozen=True, slots=True)
class BrokerChange:
    """A broker came or went."""


@dataclass(frozen=True, slots=True)
class TopicChange:
    """A topic was created, or its node removed."""


@dataclass(frozen=True, slots=True)
class PartitionModifications:
    """The assignment of one topic changed."""

    topic: str


@dataclass(frozen=True, slots=True)
class TopicDeletion:
    """Somebody asked for topics to be deleted."""


@dataclass(frozen=True, slots=True)
class LeaderAndIsrResponseReceived:
    """A broker answered; partitions with an error have no working replica there."""

    broker_id: int
    offline: frozenset[TopicPartition]
    online: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class TopicDeletionStopReplicaResponseReceived:
    """A broker answered the request to delete replicas."""

    broker_id: int
    deleted: frozenset[TopicPartition]
    failed: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class ReplicaLeaderElection:
    """Move leadership to the preferred replicas; None stands for all partitions that need it."""

    partitions: frozenset[TopicPartition] | None = None


@dataclass(frozen=True, slots=True)
class ControlledShutdown:
    """A broker is about to stop: its leaderships move first."""

    broker_id: int


Event = (
    Startup
    | ControllerChange
    | Reelect
    | Expire
    | BrokerChange
    | TopicChange
    | PartitionModifications
    | TopicDeletion
    | LeaderAndIsrResponseReceived
    | TopicDeletionStopReplicaResponseReceived
    | ReplicaLeaderElection
    | ControlledShutdown
)
