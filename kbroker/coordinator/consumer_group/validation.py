"""Checks of a ConsumerGroupHeartbeat, whatever group it is for.

Pure. Law: codes, sentences and their order are those of Kafka 4.3, as clients show them.
"""

from __future__ import annotations

from kbroker.coordinator.consumer_group.member import AWAY, JOINING, LEFT
from kbroker.coordinator.consumer_group.step import KnownAssignors
from kbroker.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

_FIRST_VERSION_WITH_OWN_IDS = 1  # members choose their ids


def check_request(
    request: ConsumerGroupHeartbeatRequest, version: int, assignors: KnownAssignors
) -> None:
    """Raises KafkaError INVALID_REQUEST or UNSUPPORTED_ASSIGNOR."""
    epoch = request.member_epoch
    if version >= _FIRST_VERSION_WITH_OWN_IDS or epoch > 0 or epoch == LEFT:
        _refuse_empty(request.member_id, "MemberId")
    _refuse_empty(request.group_id, "GroupId")
    _refuse_empty(request.instance_id, "InstanceId")
    _refuse_empty(request.rack_id, "RackId")
    if epoch == JOINING:
        _check_join(request)
    elif epoch == AWAY and request.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    elif epoch < AWAY:
        raise _invalid("MemberEpoch is invalid.")
    name = request.server_assignor
    if name is not None and assignors.get(name) is None:
        known = f"Supported assignors: {assignors.names}."
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR, f"ServerAssignor {name} is not supported. {known}"
        )


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid(
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when"
            " (re-)joining."
        )


def _refuse_empty(text: str | None, name: str) -> None:
    if text is not None and not text.strip():
        raise _invalid(f"{name} can't be empty.")


def _invalid(sentence: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, sentence)
