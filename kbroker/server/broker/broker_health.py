"""The checks of one broker's readiness, in the words of `kbroker.http.health`.

Owned by the event loop; asked in small steps, as topics may be many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kbroker.http import health
from kbroker.http.health import Check
from kbroker.model import NO_CONTROLLER, NO_LEADER, TopicPartition
from kbroker.server.broker.broker_parts import BrokerParts
from kbroker.server.broker.broker_state import BrokerLifecycle, BrokerState
from kbroker.zk.tree import SessionState

_AT_ONCE = 256  # partitions
_STARTING = (BrokerState.NOT_RUNNING, BrokerState.STARTING)


def checks_of(
    lifecycle: BrokerLifecycle, running: Callable[[], BrokerParts | None]
) -> Iterator[Check | None]:
    """Yield the checks; None after a step without one. `running` returns no parts before the broker
    serves clients.
    """
    yield Check(name=health.RECOVERY, problem=_recovery(lifecycle.state))
    parts = running()
    if parts is None:
        yield Check(name=health.MEMBERSHIP, problem="the broker has not joined its cluster yet")
    else:
        yield Check(name=health.MEMBERSHIP, problem=_membership(parts))
        yield from _offline_partitions(parts)
        yield Check(name=health.DISKS, problem=_disks(parts))
    stopping = "the broker is stopping" if lifecycle.is_stopping else None
    yield Check(name=health.STOPPING, problem=stopping)


def _recovery(state: BrokerState) -> str | None:
    if state is BrokerState.RECOVERING_FROM_UNCLEAN_SHUTDOWN:
        return "logs are recovered after an unclean stop"
    return "the broker is starting" if state in _STARTING else None


def _membership(parts: BrokerParts) -> str | None:
    if parts.storage.zk.tree.state is SessionState.LOST:  # an interruption alone is nothing yet
        return "the session with ZooKeeper has ended, and there is no new one yet"
    metadata = parts.data.metadata
    if metadata.broker(metadata.broker_id) is None:
        return "the controller does not count this broker as alive"
    return health.NO_CONTROLLER if metadata.controller_id == NO_CONTROLLER else None


def _offline_partitions(parts: BrokerParts) -> Iterator[Check | None]:
    """Look at the partitions that this broker has a replica of: for others it is not needed."""
    metadata, found = parts.data.metadata, []
    for topic in metadata.topics():
        states = list(metadata.partition_states(topic).items())
        for begin in range(0, len(states), _AT_ONCE):
            found += [
                TopicPartition(topic, index)
                for index, state in states[begin : begin + _AT_ONCE]
                if state.leader == NO_LEADER and metadata.broker_id in state.replicas
            ]
            yield None
    yield Check(name=health.OFFLINE_PARTITIONS, problem=health.all_leaderless(found))


def _disks(parts: BrokerParts) -> str | None:
    logs = parts.data.logs
    online = set(logs.online_directories)
    offline = [each.path for each in logs.directories() if each.path not in online]
    return f"offline: {', '.join(offline)}" if offline else None
