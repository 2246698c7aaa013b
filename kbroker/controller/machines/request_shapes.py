"""The controller's requests of every version in the shape of the newest, and checks of what they
say.

PURE. Before LeaderAndIsr 2, UpdateMetadata 5 and StopReplica 1 partitions came in one list, each
with its topic's name; before StopReplica 3 one flag said for all of them whether logs are deleted,
and no leader epoch was given.
"""

from __future__ import annotations

from collections.abc import Iterable

from kbroker.controller.machines.request_batch import SECURITY_PROTOCOL_IDS
from kbroker.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from kbroker.protocol.messages.stop_replica import StopReplicaRequest
from kbroker.protocol.messages.update_metadata import UpdateMetadataRequest
from kbroker.replication.topic_name import is_valid_topic_name

_PLAINTEXT = "PLAINTEXT"
_DIRECTORY_NAME_MAX = 255  # bytes of "<topic>-<partition>"; a longer one looks like a failed disk


def grouped_leader_and_isr(request: LeaderAndIsrRequest) -> LeaderAndIsrRequest:
    """The request with its partitions under their topics."""
    if not request.ungrouped_partition_states:
        return request
    by_topic: dict[str, list[LeaderAndIsrRequest.LeaderAndIsrPartitionState]] = {}
    for state in request.ungrouped_partition_states:
        by_topic.setdefault(state.topic_name, []).append(state)
    topic_states = [
        LeaderAndIsrRequest.LeaderAndIsrTopicState(topic_name=topic, partition_states=states)
        for topic, states in by_topic.items()
    ]
    return LeaderAndIsrRequest(
        controller_id=request.controller_id,
        controller_epoch=request.controller_epoch,
        broker_epoch=request.broker_epoch,
        topic_states=topic_states,
        live_leaders=request.live_leaders,
    )


def grouped_stop_replica(request: StopReplicaRequest) -> StopReplicaRequest:
    """The request with its partitions under their topics, each with its own order."""
    if not (request.ungrouped_partitions or request.topics):
        return request
    by_topic: dict[str, list[int]] = {}
    for named in request.ungrouped_partitions:
        by_topic.setdefault(named.topic_name, []).append(named.partition_index)
    for topic in request.topics:
        by_topic.setdefault(topic.name, []).extend(topic.partition_indexes)
    topic_states = [
        StopReplicaRequest.StopReplicaTopicState(
            topic_name=name,
            partition_states=[
                StopReplicaRequest.StopReplicaPartitionState(
                    partition_index=index, delete_partition=request.delete_partitions
                )
                for index in indexes
            ],
        )
        for name, indexes in by_topic.items()
    ]
    return StopReplicaRequest(
        controller_id=request.controller_id,
        controller_epoch=request.controller_epoch,
        broker_epoch=request.broker_epoch,
        topic_states=topic_states,
    )


def with_end_points(request: UpdateMetadataRequest) -> UpdateMetadataRequest:
    """The request with an end point for brokers that version 0 names by host and port."""
    if not any(live.v0_host for live in request.live_brokers):
        return request
    live_brokers = [
        UpdateMetadataRequest.UpdateMetadataBroker(
            id=live.id,
            endpoints=[
                UpdateMetadataRequest.UpdateMetadataEndpoint(
                    port=live.v0_port, host=live.v0_host, listener=_PLAINTEXT
                )
            ],
            rack=None,
        )
        for live in request.live_brokers
    ]
    return UpdateMetadataRequest(
        controller_id=request.controller_id,
        controller_epoch=request.controller_epoch,
        ungrouped_partition_states=request.ungrouped_partition_states,
        live_brokers=live_brokers,
    )


def check_leader_and_isr(request: LeaderAndIsrRequest) -> None:
    """Raise KafkaError INVALID_REQUEST for what no controller says: names become directories."""
    for topic in request.topic_states:
        for state in topic.partition_states:
            if state.leader_epoch < 0:
                message = f"{topic.topic_name}: leader epoch {state.leader_epoch} is below 0"
                raise KafkaError(ErrorCode.INVALID_REQUEST, message)
        _check(topic.topic_name, (s.partition_index for s in topic.partition_states))


def check_stop_replica(request: StopReplicaRequest) -> None:
    """As `check_leader_and_isr`."""
    for topic in request.topic_states:
        _check(topic.topic_name, (s.partition_index for s in topic.partition_states))


def check_update_metadata(request: UpdateMetadataRequest) -> None:
    """As `check_leader_and_isr`; security protocols are known ones too."""
    for topic in request.topic_states:
        _check(topic.topic_name, (s.partition_index for s in topic.partition_states))
    for state in request.ungrouped_partition_states:
        _check(state.topic_name, (state.partition_index,))
    known = SECURITY_PROTOCOL_IDS.values()
    for live in request.live_brokers:
        for end_point in live.endpoints:
            if end_point.security_protocol not in known:
                message = (
                    f"broker {live.id}: security protocol {end_point.security_protocol} is unknown"
                )
                raise KafkaError(ErrorCode.INVALID_REQUEST, message)


def _check(topic: str, partitions: Iterable[int]) -> None:
    if not is_valid_topic_name(topic):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{topic[:100]!r} is no topic name")
    index_max = min(2**31, 10 ** (_DIRECTORY_NAME_MAX - len(topic) - 1)) - 1
    for index in partitions:
        if not 0 <= index <= index_max:
            message = f"{topic}: partition {index} is not between 0 and {index_max}"
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)
