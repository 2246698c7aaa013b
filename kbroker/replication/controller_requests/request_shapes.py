"""Controller requests of every version in the shape of the newest, without what cannot be carried
out.

Pure. Before LeaderAndIsr 2, UpdateMetadata 5 and StopReplica 1, partitions came in one list, each
with its topic's name; before StopReplica 3, one flag said for all whether logs are deleted, and
there was no leader epoch.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from functools import lru_cache
from typing import Any, TypeVar

from kbroker.model import SECURITY_PROTOCOL_IDS
from kbroker.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from kbroker.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from kbroker.protocol.messages.update_metadata import (
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from kbroker.topic_name import is_valid_topic_name

ControlRequest = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest
ControlResponse = LeaderAndIsrResponse | UpdateMetadataResponse | StopReplicaResponse

OrderT = TypeVar("OrderT", LeaderAndIsrRequest, UpdateMetadataRequest, StopReplicaRequest)

_PLAINTEXT = "PLAINTEXT"
_SECURITY_PROTOCOLS = frozenset(SECURITY_PROTOCOL_IDS.values())
_DIRECTORY_NAME_MAX = 255  # bytes of "<topic>-<partition>"; a longer one looks like a failed disk


def grouped_leader_and_isr(request: LeaderAndIsrRequest) -> LeaderAndIsrRequest:
    """The request with partitions grouped by topic."""
    if not request.ungrouped_partition_states:
        return request
    topic_states = [
        LeaderAndIsrRequest.LeaderAndIsrTopicState(topic_name=topic, partition_states=states)
        for topic, states in _by_topic(request.ungrouped_partition_states).items()
    ]
    return with_topics(request, topic_states)


def grouped_stop_replica(request: StopReplicaRequest) -> StopReplicaRequest:
    """The request with partitions grouped by topic, each with its own order."""
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
    return with_topics(request, topic_states)


def grouped_update_metadata(request: UpdateMetadataRequest) -> UpdateMetadataRequest:
    """The request with partitions grouped by topic, and end points for brokers of version 0."""
    if not (
        request.ungrouped_partition_states or any(live.v0_host for live in request.live_brokers)
    ):
        return request
    topic_states = [
        UpdateMetadataRequest.UpdateMetadataTopicState(topic_name=topic, partition_states=states)
        for topic, states in _by_topic(request.ungrouped_partition_states).items()
    ]
    grouped = with_topics(request, topic_states)
    grouped.live_brokers = [_with_end_point(live) for live in request.live_brokers]
    return grouped


def _by_topic(states: Iterable[Any]) -> dict[str, list[Any]]:
    by_topic: dict[str, list[Any]] = {}
    for state in states:
        by_topic.setdefault(state.topic_name, []).append(state)
    return by_topic


def _with_end_point(
    live: UpdateMetadataRequest.UpdateMetadataBroker,
) -> UpdateMetadataRequest.UpdateMetadataBroker:
    if not live.v0_host:
        return live
    end_point = UpdateMetadataRequest.UpdateMetadataEndpoint(
        port=live.v0_port, host=live.v0_host, listener=_PLAINTEXT
    )
    return UpdateMetadataRequest.UpdateMetadataBroker(id=live.id, endpoints=[end_point], rack=None)


def with_topics(request: OrderT, topic_states: list[Any]) -> OrderT:
    """A copy of the request with other topics."""
    other = copy(request)
    other.topic_states = topic_states
    return other


def is_sound(topic: str, partition: int) -> bool:
    """Whether a partition can have a directory; nodes made by hand may name one that cannot."""
    if len(topic) > _DIRECTORY_NAME_MAX:
        return False  # without filling the cache
    return 0 <= partition < _partition_limit(topic)


@lru_cache(maxsize=1_024)
def _partition_limit(topic: str) -> int:
    """The number of partitions the topic can have; 0 for an invalid name."""
    if not is_valid_topic_name(topic):
        return 0
    digits = _DIRECTORY_NAME_MAX - len(topic) - 1
    return min(int("1" + "0" * digits), 2**31)


def without_unsound(request: UpdateMetadataRequest) -> tuple[UpdateMetadataRequest, list[str]]:
    """The request without what no broker can carry out, and the names of what was left out.

    The request itself is not changed: the controller in this process shares it with others.
    """
    left_out = [
        topic.topic_name
        for topic in request.topic_states
        for state in topic.partition_states
        if not is_sound(topic.topic_name, state.partition_index)
    ]
    left_out += [
        f"end point {end_point.host}:{end_point.port} of broker {live.id}"
        for live in request.live_brokers
        for end_point in live.endpoints
        if end_point.security_protocol not in _SECURITY_PROTOCOLS
    ]
    return (_sound_part(request) if left_out else request), left_out


def _sound_part(request: UpdateMetadataRequest) -> UpdateMetadataRequest:
    sound = copy(request)
    sound.topic_states = [
        UpdateMetadataRequest.UpdateMetadataTopicState(
            topic_name=topic.topic_name,
            topic_id=topic.topic_id,
            partition_states=[
                state
                for state in topic.partition_states
                if is_sound(topic.topic_name, state.partition_index)
            ],
        )
        for topic in request.topic_states
    ]
    sound.live_brokers = [
        UpdateMetadataRequest.UpdateMetadataBroker(
            id=live.id,
            endpoints=[
                end_point
                for end_point in live.endpoints
                if end_point.security_protocol in _SECURITY_PROTOCOLS
            ],
            rack=live.rack,
        )
        for live in request.live_brokers
    ]
    return sound
