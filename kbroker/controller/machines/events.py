"""What can happen to a controller.

Each event is one turn of the controller's queue; no two are worked at once. Kinds of events that
belong to one duty alone live beside it; whoever works a kind registers for its type.
"""

from __future__ import annotations

from dataclasses import dataclass

from kbroker.model import TopicPartition


class Event:
    """Anything a controller works."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Startup(Event):
    """The broker has started: look for a controller, or become it."""


@dataclass(frozen=True, slots=True)
class ControllerChange(Event):
    """The controller's node came or changed: perhaps this broker is no longer it."""


@dataclass(frozen=True, slots=True)
class Reelect(Event):
    """The controller's node has gone."""


@dataclass(frozen=True, slots=True)
class Expire(Event):
    """The session has ended: whatever this broker was, it is no longer controller."""


@dataclass(frozen=True, slots=True)
class RegisterBrokerAndReelect(Event):
    """A new session follows one that ended: the broker registers anew, then takes part again."""


@dataclass(frozen=True, slots=True)
class SessionResumed(Event):
    """The tree can be reached again, in the same session: see whether the seat is still ours."""


@dataclass(frozen=True, slots=True)
class ControllerFenced(Event):
    """A broker knows a newer controller than the one of this epoch."""

    controller_epoch: int


@dataclass(frozen=True, slots=True)
class ReadAgain(Event):
    """An event failed half way: the controller reads the whole cluster anew."""


@dataclass(frozen=True, slots=True)
class BrokerChange(Event):
    """A broker came or went."""


@dataclass(frozen=True, slots=True)
class BrokerModifications(Event):
    """A registered broker changed its end points or its rack."""

    broker_id: int


@dataclass(frozen=True, slots=True)
class LogDirEventNotification(Event):
    """Brokers have news of their log directories."""


@dataclass(frozen=True, slots=True)
class IsrChangeNotification(Event):
    """Brokers without AlterPartition have written ISRs."""


@dataclass(frozen=True, slots=True)
class TopicChange(Event):
    """A topic was created, or its node removed."""


@dataclass(frozen=True, slots=True)
class PartitionModifications(Event):
    """The assignment of one topic changed."""

    topic: str


@dataclass(frozen=True, slots=True)
class TopicDeletion(Event):
    """Somebody asked for topics to be deleted."""


@dataclass(frozen=True, slots=True)
class LeaderAndIsrResponseReceived(Event):
    """A broker answered; partitions with an error have no working replica there."""

    broker_id: int
    broker_epoch: int  # of the life that was asked
    offline: frozenset[TopicPartition]
    online: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class TopicDeletionStopReplicaResponseReceived(Event):
    """A broker answered the request to delete replicas."""

    broker_id: int
    broker_epoch: int  # of the life that was asked
    deleted: frozenset[TopicPartition]
    failed: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class UncleanLeaderElectionEnable(Event):
    """A topic, or with None every topic that says nothing itself, may now be led by a replica that
    is not in sync.
    """

    topic: str | None = None


@dataclass(frozen=True, slots=True)
class ControlledShutdown(Event):
    """A broker is about to stop: its leaderships move first.

    The answer: partitions with other replicas that it still leads. Epoch -1 stands for any.
    """

    broker_id: int
    broker_epoch: int = -1
