"""The codes that a coordinator answers when its record could not be stored, as in Kafka."""

from __future__ import annotations

from kbroker.errors import ErrorCode


def append_errors(*, too_large: ErrorCode) -> dict[ErrorCode, ErrorCode]:
    """Map codes of appends to codes for clients; `too_large`: for a record that no log takes."""
    return {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
        ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
        ErrorCode.MESSAGE_TOO_LARGE: too_large,
        ErrorCode.RECORD_LIST_TOO_LARGE: too_large,
        ErrorCode.INVALID_FETCH_SIZE: too_large,
    }
