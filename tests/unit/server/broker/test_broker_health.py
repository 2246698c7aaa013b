"""The checks of a broker's health."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.server.broker.broker_health import checks_of
from kbroker.server.broker.broker_state import BrokerLifecycle, BrokerState
from kbroker.zk.tree import SessionState

SELF, CONTROLLER = 1, 2


def parts(
    *,
    states: dict[int, tuple[int, list[int]]] | None = None,
    alive: tuple[int, ...] = (SELF, CONTROLLER),
    online: tuple[str, ...] = ("/a", "/b"),
    session: SessionState = SessionState.CONNECTED,
) -> Any:
    """The parts that are looked at; `states` has leader and replicas by partition of topic t."""
    partitions = {
        index: SimpleNamespace(leader=leader, replicas=replicas)
        for index, (leader, replicas) in (states or {}).items()
    }
    metadata = SimpleNamespace(
        broker_id=SELF,
        controller_id=CONTROLLER if CONTROLLER in alive else -1,
        broker=lambda broker_id: broker_id if broker_id in alive else None,
        topics=lambda: ["t"],
        partition_states=lambda _: partitions,
    )
    logs = SimpleNamespace(
        online_directories=list(online),
        directories=lambda: [SimpleNamespace(path="/a"), SimpleNamespace(path="/b")],
    )
    return SimpleNamespace(
        data=SimpleNamespace(metadata=metadata, logs=logs),
        storage=SimpleNamespace(zk=SimpleNamespace(tree=SimpleNamespace(state=session))),
    )


def problems(running: Any, state: BrokerState = BrokerState.RUNNING_AS_BROKER) -> dict[str, str]:
    lifecycle = BrokerLifecycle()
    lifecycle.state = state
    found = [check for check in checks_of(lifecycle, lambda: running) if check is not None]
    return {check.name: check.problem for check in found if check.problem is not None}


def test_a_broker_without_problems_has_none() -> None:
    assert problems(parts(states={0: (SELF, [SELF]), 1: (CONTROLLER, [CONTROLLER])})) == {}


def test_partitions_without_a_leader_count_if_this_broker_has_a_replica() -> None:
    states = {0: (-1, [SELF, 3]), 1: (-1, [3]), 2: (-2, [SELF])}
    assert problems(parts(states=states)) == {"offline partitions": "t-0 has no leader"}


@pytest.mark.parametrize(
    ("alive", "said"),
    [
        ((CONTROLLER,), "the controller does not count this broker as alive"),
        ((SELF,), "the cluster has no controller"),
    ],
)
def test_a_broker_that_is_no_member_of_its_cluster_is_not_ready(
    alive: tuple[int, ...], said: str
) -> None:
    assert problems(parts(alive=alive)) == {"membership": said}


def test_a_broker_whose_session_has_ended_is_not_ready_and_an_interruption_is_nothing_yet() -> None:
    assert problems(parts(session=SessionState.SUSPENDED)) == {}
    assert problems(parts(session=SessionState.LOST)) == {
        "membership": "the session with ZooKeeper has ended, and there is no new one yet"
    }


def test_a_directory_that_is_offline_is_named() -> None:
    assert problems(parts(online=("/b",))) == {"disks": "offline: /a"}


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (BrokerState.STARTING, {"recovery": "the broker is starting"}),
        (BrokerState.PENDING_CONTROLLED_SHUTDOWN, {"stopping": "the broker is stopping"}),
        (BrokerState.BROKER_SHUTTING_DOWN, {"stopping": "the broker is stopping"}),
    ],
)
def test_starting_and_stopping_are_states_of_the_broker(
    state: BrokerState, said: dict[str, str]
) -> None:
    assert problems(parts(), state) == said
