"""The states of a broker, and the transitions between them (Kafka's BrokerStates)."""

from __future__ import annotations

import logging
from enum import Enum

from kbroker.counters import CounterRegistry, MetricName

_log = logging.getLogger(__name__)


class BrokerState(Enum):
    """The state of a broker; its value is the number in Kafka's BrokerState metric."""

    NOT_RUNNING = 0
    STARTING = 1
    RECOVERING_FROM_UNCLEAN_SHUTDOWN = 2
    RUNNING_AS_BROKER = 3
    RUNNING_AS_CONTROLLER = 4
    PENDING_CONTROLLED_SHUTDOWN = 6
    BROKER_SHUTTING_DOWN = 7


_RUNNING = frozenset({BrokerState.RUNNING_AS_BROKER, BrokerState.RUNNING_AS_CONTROLLER})
_STOPPING = (BrokerState.PENDING_CONTROLLED_SHUTDOWN, BrokerState.BROKER_SHUTTING_DOWN)
VALID_PREVIOUS: dict[BrokerState, frozenset[BrokerState]] = {
    BrokerState.NOT_RUNNING: frozenset({BrokerState.BROKER_SHUTTING_DOWN}),
    BrokerState.STARTING: frozenset({BrokerState.NOT_RUNNING}),
    BrokerState.RECOVERING_FROM_UNCLEAN_SHUTDOWN: frozenset({BrokerState.STARTING}),
    BrokerState.RUNNING_AS_BROKER: frozenset(
        {
            BrokerState.STARTING,
            BrokerState.RECOVERING_FROM_UNCLEAN_SHUTDOWN,
            BrokerState.RUNNING_AS_CONTROLLER,
        }
    ),
    BrokerState.RUNNING_AS_CONTROLLER: frozenset({BrokerState.RUNNING_AS_BROKER}),
    BrokerState.PENDING_CONTROLLED_SHUTDOWN: _RUNNING,
    # A start that fails goes straight to its end.
    BrokerState.BROKER_SHUTTING_DOWN: _RUNNING
    | {
        BrokerState.STARTING,
        BrokerState.RECOVERING_FROM_UNCLEAN_SHUTDOWN,
        BrokerState.PENDING_CONTROLLED_SHUTDOWN,
    },
}


class BrokerLifecycle:
    """The present state of one broker."""

    def __init__(self) -> None:
        self.state = BrokerState.NOT_RUNNING
        self.name = "broker"  # in the log; with its id once that is known
        self.is_killed = False  # it ends without a word, and finishes no file
        self.is_to_stop = False  # others of its process stop before it does

    def register(self, counters: CounterRegistry) -> None:
        """Register the state under its name."""
        name = MetricName("kafka.server", "KafkaServer", "BrokerState")
        counters.add(name, lambda: self.state.value)

    def transition_to(self, state: BrokerState) -> None:
        """Move to a state; a transition that is not in the table is a bug."""
        assert self.state in VALID_PREVIOUS[state], f"{self.state.name} -> {state.name}"
        _log.info("%s state %s -> %s", self.name, self.state.name, state.name)
        self.state = state

    @property
    def is_running(self) -> bool:
        """True while clients are served."""
        return self.state in _RUNNING

    @property
    def is_stopping(self) -> bool:
        """True once it is certain that the broker ends."""
        return self.is_to_stop or self.state in _STOPPING

    def on_controller_activity(self, is_controller: bool) -> None:
        """Note that this broker has become the controller, or no longer is."""
        if self.is_running:
            wanted = (
                BrokerState.RUNNING_AS_CONTROLLER
                if is_controller
                else BrokerState.RUNNING_AS_BROKER
            )
            if wanted is not self.state:
                self.transition_to(wanted)
