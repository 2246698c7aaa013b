"""ISR changes: a leader's request to the controller by AlterPartition, and the answer (KIP-497,
KIP-704, KIP-841).

Pure. Law: a change counts only if it was decided on the tree's present state: same leader epoch,
same partition epoch. One that is in the tree already is answered as done, so a leader that missed
the answer may ask again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from kbroker.controller.state_machines.events import Event
from kbroker.errors import ErrorCode
from kbroker.model import RECOVERING, LeaderAndIsr, TopicPartition


@dataclass(frozen=True, slots=True)
class AlterPartition(Event):
    """A leader asks for other ISRs; `changes` has the new states of the nodes, with the leader and
    partition epochs that the leader knows. `epochs` has for each of them the broker epochs under
    which it saw the replicas, unknown (-1) for some.

    Its answer is an `AlterPartitionResult`.
    """

    broker_id: int
    broker_epoch: int
    changes: Mapping[TopicPartition, LeaderAndIsr]
    epochs: Mapping[TopicPartition, Mapping[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AlterPartitionResult:
    """`error` refuses the whole request; else every partition has its new state or its error."""

    error: ErrorCode
    partitions: Mapping[TopicPartition, LeaderAndIsr | ErrorCode]


def refused_isr_change(
    current: LeaderAndIsr, wanted: LeaderAndIsr, eligible: Collection[int]
) -> ErrorCode:
    """NONE for a change to write, else the reason against it; `eligible` brokers may be in sync."""
    if (
        wanted.partition_epoch > current.partition_epoch
        or wanted.leader_epoch > current.leader_epoch
    ):
        return ErrorCode.NOT_CONTROLLER  # the leader has heard of a newer controller than this one
    if wanted.leader_epoch < current.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if wanted.partition_epoch != current.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    if not _is_legal(current, wanted):
        return ErrorCode.INVALID_REQUEST
    if not set(wanted.isr) <= set(eligible):
        return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE


def is_done_already(current: LeaderAndIsr, wanted: LeaderAndIsr) -> bool:
    """True if the tree holds the requested state, perhaps since an earlier request."""
    return (
        wanted.partition_epoch <= current.partition_epoch
        and (wanted.leader, wanted.leader_epoch, wanted.leader_recovery_state)
        == (current.leader, current.leader_epoch, current.leader_recovery_state)
        and wanted.isr == current.isr
    )


def _is_legal(current: LeaderAndIsr, wanted: LeaderAndIsr) -> bool:
    """Only the leader asks, and stays in its ISR; recovery ends before others join, for good."""
    if wanted.leader != current.leader or wanted.leader not in wanted.isr:
        return False
    if wanted.leader_recovery_state != RECOVERING:
        return True
    return len(wanted.isr) == 1 and current.leader_recovery_state == RECOVERING
