"""Counts and lists the partitions of a cluster that lack something, or move."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kbroker.client.cluster_configs import MIN_ISR
from kbroker.client.partition_health import PartitionHealth
from kbroker.client.topic_rows import rows_of
from kbroker.model import TopicPartition
from kbroker.protocol.messages.metadata import MetadataResponse

STATE_COLUMNS = ("topic", "partition", "leader", "replicas", "isr", "state")
_LEADERLESS, _UNDER_REPLICATED, _UNDER_MIN_ISR = (
    "leaderless",
    "under-replicated",
    f"under {MIN_ISR}",
)
_REASSIGNING = "reassigning"
_WORST_FIRST = (_LEADERLESS, _UNDER_MIN_ISR, _UNDER_REPLICATED, _REASSIGNING)


def state_counts(health: PartitionHealth) -> str:
    """Say how many partitions are in which state, but for those without leader and for states that
    are not known.
    """
    return ", ".join(
        f"{len(found)} {state}"
        for state, found in _by_state(health).items()
        if found is not None and state != _LEADERLESS
    )


def state_rows(
    topics: Iterable[MetadataResponse.MetadataResponseTopic], health: PartitionHealth
) -> list[dict[str, Any]]:
    """Return a row of `STATE_COLUMNS` for each partition in any state, the worst first."""
    by_state = _by_state(health)
    rows = []
    for place, partition in rows_of(topics):
        states = [state for state, found in by_state.items() if place in (found or ())]
        if states:
            row = {
                **place._asdict(),
                "leader": partition.leader_id,
                "replicas": list(partition.replica_nodes),
                "isr": list(partition.isr_nodes),
                "state": states,
            }
            rows.append((min(map(_WORST_FIRST.index, states)), place, row))
    return [row for _, _, row in sorted(rows, key=lambda each: each[:2])]


def _by_state(health: PartitionHealth) -> dict[str, frozenset[TopicPartition] | None]:
    return {
        _LEADERLESS: health.leaderless,
        _UNDER_REPLICATED: health.under_replicated,
        _UNDER_MIN_ISR: health.under_min_isr,
        _REASSIGNING: health.reassigning,
    }
