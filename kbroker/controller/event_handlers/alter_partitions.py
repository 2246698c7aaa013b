"""AlterPartitions: the controller writes the ISRs that leaders ask for (KIP-497).

Only the controller writes them, so its picture is never behind the tree for long; still, the tree's
version check decides.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping

from kbroker.controller.event_handlers.state_changes import StateChanges
from kbroker.controller.state_machines.events import Event
from kbroker.controller.state_machines.isr_change import (
    AlterPartition,
    AlterPartitionResult,
    is_done_already,
    refused_isr_change,
)
from kbroker.controller.state_machines.partition_state_machine import vouch
from kbroker.controller.state_machines.reassignment_phases import (
    PartitionReassignmentIsrChange,
    is_being_reassigned,
)
from kbroker.errors import ErrorCode
from kbroker.model import UNKNOWN_BROKER_EPOCH, LeaderAndIsr, TopicPartition

_log = logging.getLogger(__name__)


class AlterPartitions:
    """Works the ISR changes of leaders. Owned by the controller's queue."""

    def __init__(self, states: StateChanges, put: Callable[[Event], object]) -> None:
        self._states = states
        self._context = states.context
        self._put = put

    async def on(self, event: AlterPartition) -> AlterPartitionResult:
        """Write the changes that are allowed, and send them to all brokers."""
        broker = self._context.live_brokers.get(event.broker_id)
        if broker is None or broker.epoch != event.broker_epoch:
            _log.info(
                "ISR change of broker %d with epoch %d refused", event.broker_id, event.broker_epoch
            )
            return AlterPartitionResult(ErrorCode.STALE_BROKER_EPOCH, {})
        outcomes: dict[TopicPartition, LeaderAndIsr | ErrorCode] = {}
        allowed: dict[TopicPartition, LeaderAndIsr] = {}
        for partition, wanted in event.changes.items():
            decided = self._decide(partition, wanted, event.epochs.get(partition, {}))
            if decided is None:
                allowed[partition] = wanted
            else:
                outcomes[partition] = decided
        for partition, written in (await self._states.change_states(allowed)).items():
            if written is None:
                outcomes[partition] = ErrorCode.INVALID_UPDATE_VERSION
            else:
                outcomes[partition] = written
                vouch(self._context, partition)
        self._states.send_metadata(self._context.live_brokers, event.changes)
        for partition, outcome in outcomes.items():
            is_moving = is_being_reassigned(self._context.assignment(partition))
            if is_moving and isinstance(outcome, LeaderAndIsr):
                self._put(PartitionReassignmentIsrChange(partition))
        return AlterPartitionResult(ErrorCode.NONE, outcomes)

    def _decide(
        self, partition: TopicPartition, wanted: LeaderAndIsr, epochs: Mapping[int, int]
    ) -> LeaderAndIsr | ErrorCode | None:
        """The answer if nothing has to be written, else None."""
        known = self._context.leadership.get(partition)
        if known is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        current = known.leader_and_isr
        if is_done_already(current, wanted):
            return current
        replicas = {*self._context.assignment(partition).replicas, *current.isr}
        eligible = self._eligible(replicas.intersection(wanted.isr), epochs)
        refusal = refused_isr_change(current, wanted, eligible)
        return None if refusal is ErrorCode.NONE else refusal

    def _eligible(self, isr: Iterable[int], epochs: Mapping[int, int]) -> frozenset[int]:
        """The live brokers of `isr`, but for those seen in an earlier life (KIP-903)."""
        live = self._context.live_brokers
        return frozenset(
            broker_id
            for broker_id in self._context.live_broker_ids().intersection(isr)
            if epochs.get(broker_id, UNKNOWN_BROKER_EPOCH)
            in (UNKNOWN_BROKER_EPOCH, live[broker_id].epoch)
        )
