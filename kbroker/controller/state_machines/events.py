"""Events of a controller.

Each event is one turn of the controller's queue; no two are handled at once. Kinds of events that
belong to one duty alone live beside it; their handlers register for the type.
"""

from __future__ import annotations

from dataclasses import dataclass

from kbroker.model import UNKNOWN_BROKER_EPOCH, TopicPartition


@dataclass(frozen=True, slots=True)
class Event:
    """Anything a controller works. Two events of one kind with equal content are equal; a kind
    without content needs no methods of its own.
    """


class Startup(Event):
    """The broker has started: look for a controller, or become it."""

    __slots__ = ()


class ControllerChange(Event):
    """The controller's node came or changed: perhaps this broker is no longer it."""

    __slots__ = ()


class Reelect(Event):
    """The controller's node is gone."""

    __slots__ = ()


class Expire(Event):
    """The session has ended: this broker is no longer controller, if it was."""

    __slots__ = ()


class RegisterBrokerAndReelect(Event):
    """A new session follows one that ended: the broker registers again, then takes part again."""

    __slots__ = ()


class SessionResumed(Event):
    """The tree can be reached again, in the same session: see whether the seat is still ours."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class ControllerFenced(Event):
    """A broker knows a newer controller than the one of this epoch."""

    controller_epoch: int


class ReadAgain(Event):
    """An event failed half way: the controller reads the whole cluster again."""

    __slots__ = ()


class BrokerChange(Event):
    """A broker came or went."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class BrokerModifications(Event):
    """A registered broker changed its end points or its rack."""

    broker_id: int


class LogDirEventNotification(Event):
    """Brokers have news of their log directories."""

    __slots__ = ()


class IsrChangeNotification(Event):
    """Brokers without AlterPartition have written ISRs."""

    __slots__ = ()


class TopicChange(Event):
    """A topic was created, or its node removed."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class PartitionModifications(Event):
    """The assignment of one topic changed."""

    topic: str


class TopicDeletion(Event):
    """Somebody asked for topics to be deleted."""

    __slots__ = ()


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
    """A topic (None: all without a setting of their own) may be led by a replica out of sync."""

    topic: str | None = None


@dataclass(frozen=True, slots=True)
class ControlledShutdown(Event):
    """A broker is about to stop: its leaderships move first.

    The answer: partitions with other replicas that it still leads. An unknown epoch stands for any.
    """

    broker_id: int
    broker_epoch: int = UNKNOWN_BROKER_EPOCH
