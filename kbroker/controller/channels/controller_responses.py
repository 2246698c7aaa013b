"""Turns the brokers' answers to the controller's requests into events of the controller.

As in Kafka, a replica is unusable when its broker answers KAFKA_STORAGE_ERROR, and usable when it
answers without an error. It is usable, too, when its broker knows the order already, and answers
STALE_CONTROLLER_EPOCH for the partition: the first answer may have been lost with the connection.
With Kafka such a replica counts as unusable until its broker starts again. Other codes of a
partition say neither.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from kbroker.controller.state_machines import events
from kbroker.controller.state_machines.events import Event
from kbroker.errors import ErrorCode
from kbroker.model import TopicPartition
from kbroker.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from kbroker.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from kbroker.replication.controller_requests.request_shapes import ControlRequest, ControlResponse

_log = logging.getLogger(__name__)

_USABLE = (ErrorCode.NONE, ErrorCode.STALE_CONTROLLER_EPOCH)  # codes of a partition

ANSWERS = (events.LeaderAndIsrResponseReceived, events.TopicDeletionStopReplicaResponseReceived)


def event_of_response(
    broker_id: int, request: ControlRequest, response: ControlResponse
) -> Event | None:
    """The event by which the controller acts on an answer; None if there is nothing to do."""
    if response.error_code == ErrorCode.STALE_CONTROLLER_EPOCH:
        return events.ControllerFenced(request.controller_epoch)
    if response.error_code != ErrorCode.NONE:
        # STALE_BROKER_EPOCH: the broker has registered again, and will get everything again.
        kind, code = type(request).__name__, ErrorCode(response.error_code).name
        _log.warning("broker %d refused %s: %s", broker_id, kind, code)
    if isinstance(request, LeaderAndIsrRequest) and isinstance(response, LeaderAndIsrResponse):
        return _leader_and_isr_outcome(broker_id, request, response)
    if isinstance(request, StopReplicaRequest) and isinstance(response, StopReplicaResponse):
        return _deletion_outcome(broker_id, request, response)
    return None


def _leader_and_isr_outcome(
    broker_id: int, request: LeaderAndIsrRequest, response: LeaderAndIsrResponse
) -> Event | None:
    offline: set[TopicPartition] = set()
    online: set[TopicPartition] = set()
    for partition, code in _partition_errors(request, response):
        if code == ErrorCode.KAFKA_STORAGE_ERROR:
            offline.add(partition)
        elif code in _USABLE:
            online.add(partition)
        else:
            _log.debug("broker %d: %s: %s", broker_id, partition, ErrorCode(code).name)
    if not offline and not online:
        return None
    return events.LeaderAndIsrResponseReceived(
        broker_id, request.broker_epoch, frozenset(offline), frozenset(online)
    )


def _partition_errors(
    request: LeaderAndIsrRequest, response: LeaderAndIsrResponse
) -> Iterator[tuple[TopicPartition, int]]:
    """Codes by partition: topics have ids from version 5 on, before that partitions have names. The
    broker in this process sends both, and names work for topics without ids as well.
    """
    for answer in response.partition_errors:
        yield TopicPartition(answer.topic_name, answer.partition_index), answer.error_code
    if response.partition_errors:
        return
    names = {topic.topic_id: topic.topic_name for topic in request.topic_states}
    for topic in response.topics:
        name = names.get(topic.topic_id)
        if name is not None:
            for answer in topic.partition_errors:
                yield TopicPartition(name, answer.partition_index), answer.error_code


def _deletion_outcome(
    broker_id: int, request: StopReplicaRequest, response: StopReplicaResponse
) -> Event | None:
    asked = {
        TopicPartition(topic.topic_name, state.partition_index)
        for topic in request.topic_states
        for state in topic.partition_states
        if state.delete_partition
    }
    if not asked:
        return None
    failed = asked
    if response.error_code == ErrorCode.NONE:
        failed = {
            TopicPartition(error.topic_name, error.partition_index)
            for error in response.partition_errors
            if error.error_code != ErrorCode.NONE
        } & asked
    return events.TopicDeletionStopReplicaResponseReceived(
        broker_id, request.broker_epoch, frozenset(asked - failed), frozenset(failed)
    )
