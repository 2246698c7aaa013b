"""ClusterWatches: turns the tree's notifications into events of the controller.

One object for all reigns of a broker: a node that is watched again by the same callback is not
watched twice, and a watch of an earlier reign is as good as a new one. The event of a broker that
is not controller is dropped.
"""

from __future__ import annotations

from collections.abc import Callable

from kbroker.controller.state_machines import events
from kbroker.controller.state_machines.events import Event
from kbroker.controller.state_machines.reassignment_phases import ZkPartitionReassignment
from kbroker.controller.state_machines.requested_elections import ZkPreferredElection
from kbroker.zk.tree import EventType, WatchEvent


class ClusterWatches:
    """The callbacks. Each is called on the event loop, once each time it is set."""

    def __init__(self, put: Callable[[Event], object]) -> None:
        self._put = put

    def brokers(self, _event: WatchEvent) -> None:
        self._put(events.BrokerChange())

    def broker(self, event: WatchEvent) -> None:
        """The node of a broker was changed; its parent reports that it went."""
        if event.type is not EventType.DELETED:
            self._put(events.BrokerModifications(int(_name(event))))

    def topics(self, _event: WatchEvent) -> None:
        self._put(events.TopicChange())

    def topic(self, event: WatchEvent) -> None:
        """The node of a topic was changed, or went: it may be another one by now."""
        self._put(events.PartitionModifications(_name(event)))

    def deletions(self, _event: WatchEvent) -> None:
        self._put(events.TopicDeletion())

    def reassignment(self, _event: WatchEvent) -> None:
        self._put(ZkPartitionReassignment())

    def preferred_election(self, _event: WatchEvent) -> None:
        self._put(ZkPreferredElection())

    def log_dir_events(self, _event: WatchEvent) -> None:
        self._put(events.LogDirEventNotification())

    def isr_changes(self, _event: WatchEvent) -> None:
        self._put(events.IsrChangeNotification())


def _name(event: WatchEvent) -> str:
    return event.path.rpartition("/")[2]
