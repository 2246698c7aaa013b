"""Answers to members of consumer groups if what they rest on could not be stored.

Pure. Law: codes are those of Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kbroker.coordinator.group.rebalance import refused_join
from kbroker.coordinator.runtime.append_errors import append_errors
from kbroker.errors import ErrorCode
from kbroker.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kbroker.protocol.messages.join_group import JoinGroupResponse
from kbroker.protocol.messages.sync_group import SyncGroupResponse

_APPEND_ERRORS = {
    **append_errors(too_large=ErrorCode.UNKNOWN_SERVER_ERROR),
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}


Refused = Callable[[ErrorCode], Any]
"""Makes a response of why something was not stored."""


def refusal_of(error: ErrorCode) -> ConsumerGroupHeartbeatResponse:
    """The answer to a heartbeat whose records were not stored."""
    return ConsumerGroupHeartbeatResponse(error_code=int(_APPEND_ERRORS.get(error, error)))


def refused_join_of(error: ErrorCode) -> JoinGroupResponse:
    """The answer to a JoinGroup whose records were not stored."""
    return refused_join("", _APPEND_ERRORS.get(error, error))


def refused_sync_of(error: ErrorCode) -> SyncGroupResponse:
    """The answer to a SyncGroup that rests on records that were not stored."""
    return SyncGroupResponse(error_code=int(_APPEND_ERRORS.get(error, error)))


def refused_code(error: ErrorCode) -> ErrorCode:
    """The answer to a Heartbeat that rests on records that were not stored."""
    return _APPEND_ERRORS.get(error, error)


def refused_leave_of(error: ErrorCode) -> tuple[ErrorCode, list[ErrorCode]]:
    """The answer to a LeaveGroup whose records were not stored."""
    return _APPEND_ERRORS.get(error, error), []
