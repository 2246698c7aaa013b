"""Aborts of a transaction in one partition, past its coordinator: their markers, and why a leader
refuses one. Pure.
"""

from __future__ import annotations

from kbroker.client.hanging_transactions import OpenTransaction
from kbroker.client.transactions import AbortMarker
from kbroker.errors import ErrorCode

_FIRST_COORDINATOR_EPOCH = 0  # if the partition has seen no marker of this producer


def marker_of(found: OpenTransaction) -> AbortMarker:
    """Return the marker that ends a transaction where it is open."""
    return AbortMarker(
        place=found.place,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        coordinator_epoch=max(found.coordinator_epoch, _FIRST_COORDINATOR_EPOCH),
    )


def refusal_of_abort(marker: AbortMarker, code: ErrorCode) -> str:
    """Return the sentence about a marker that a leader has not written."""
    whose = f"the transaction of producer {marker.producer_id} in {marker.place}"
    if code == ErrorCode.INVALID_PRODUCER_EPOCH:
        why = f"its producer has a newer epoch than {marker.producer_epoch}: look again"
    elif code == ErrorCode.TRANSACTION_COORDINATOR_FENCED:
        why = f"its coordinator has a newer epoch than {marker.coordinator_epoch}: look again"
    elif code == ErrorCode.INVALID_REQUEST:
        why = f"no coordinator has had the epoch {marker.coordinator_epoch}: 0 is the first"
    elif code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        why = "you may not alter the cluster"
    else:
        why = "try again" if code.retriable else "its leader refuses"
    return f"{whose} was not aborted: {why} ({code.name})"
