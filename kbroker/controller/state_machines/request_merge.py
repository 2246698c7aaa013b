"""Makes few requests out of many that wait for one broker, without changing what they come to.

PURE. Law: afterwards there is at most one request of each kind, in the order StopReplica,
LeaderAndIsr, UpdateMetadata, and each names a partition at most once; so what waits for a broker
that cannot be reached is bounded by the number of its partitions, however long that lasts. A
broker that was to hear of the others before it leads or follows hears of them first, in one more
UpdateMetadata without partitions: Apache Kafka's brokers do not follow a leader they do not know.

Of several orders for one partition the last one counts: a stop makes an order to lead or follow
before it pointless; an order to lead or follow comes after any stop that stays. What was to be
deleted is deleted, and what was new is still new.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from typing import Any, TypeVar
from uuid import UUID

from kbroker.model import TopicPartition
from kbroker.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from kbroker.protocol.messages.stop_replica import StopReplicaRequest
from kbroker.protocol.messages.update_metadata import UpdateMetadataRequest
from kbroker.replication.controller_requests.request_shapes import ControlRequest
from kbroker.replication.metadata_cache import FULL_UPDATE

_LeadState = LeaderAndIsrRequest.LeaderAndIsrPartitionState
_StopState = StopReplicaRequest.StopReplicaPartitionState
_MetadataState = UpdateMetadataRequest.UpdateMetadataPartitionState
_StructT = TypeVar("_StructT")


def merge_requests(requests: Iterable[ControlRequest]) -> list[ControlRequest]:
    """The requests of one reign to one registration of a broker, in fewer requests."""
    merge = _Merge()
    for request in requests:
        if isinstance(request, LeaderAndIsrRequest):
            merge.add_leader_and_isr(request)
        elif isinstance(request, StopReplicaRequest):
            merge.add_stop_replica(request)
        else:
            merge.add_update_metadata(request)
    return merge.build()


class _Merge:
    """The last order for each partition. Ids go with the partition: a name may be used again."""

    def __init__(self) -> None:
        self._last_stop: StopReplicaRequest | None = None
        self._last_lead: LeaderAndIsrRequest | None = None
        self._last_metadata: UpdateMetadataRequest | None = None
        self._knows_brokers_first = False  # before it leads or follows
        self._metadata_type = 0  # of a full one with what came later, it is full again
        self._stops: dict[TopicPartition, _StopState] = {}
        self._leads: dict[TopicPartition, tuple[UUID, _LeadState]] = {}
        self._live_leaders: dict[int, LeaderAndIsrRequest.LeaderAndIsrLiveLeader] = {}
        self._metadata: dict[TopicPartition, tuple[UUID, _MetadataState]] = {}

    def add_leader_and_isr(self, request: LeaderAndIsrRequest) -> None:
        self._last_lead = request
        self._knows_brokers_first |= self._last_metadata is not None
        self._live_leaders.update((leader.broker_id, leader) for leader in request.live_leaders)
        for topic in request.topic_states:
            for state in topic.partition_states:
                partition = TopicPartition(topic.topic_name, state.partition_index)
                before = self._leads.pop(partition, None)
                is_new = state.is_new or (
                    before is not None and before[0] == topic.topic_id and before[1].is_new
                )
                self._leads[partition] = (topic.topic_id, _with(state, is_new=is_new))

    def add_stop_replica(self, request: StopReplicaRequest) -> None:
        self._last_stop = request
        for topic in request.topic_states:
            for state in topic.partition_states:
                partition = TopicPartition(topic.topic_name, state.partition_index)
                self._leads.pop(partition, None)
                before = self._stops.pop(partition, None)
                delete = state.delete_partition or (before is not None and before.delete_partition)
                self._stops[partition] = _with(state, delete_partition=delete)

    def add_update_metadata(self, request: UpdateMetadataRequest) -> None:
        if request.type == FULL_UPDATE:
            self._metadata.clear()
            self._metadata_type = FULL_UPDATE
        self._last_metadata = request
        for topic in request.topic_states:
            for state in topic.partition_states:
                partition = TopicPartition(topic.topic_name, state.partition_index)
                self._metadata.pop(partition, None)
                self._metadata[partition] = (topic.topic_id, state)

    def build(self) -> list[ControlRequest]:
        requests: list[ControlRequest] = []
        if self._last_stop is not None and self._stops:
            stops: dict[str, list[_StopState]] = {}
            for partition, stop in self._stops.items():
                stops.setdefault(partition.topic, []).append(stop)
            stop_topics = [
                StopReplicaRequest.StopReplicaTopicState(topic_name=topic, partition_states=states)
                for topic, states in stops.items()
            ]
            requests.append(_with(self._last_stop, topic_states=stop_topics))
        if self._last_lead is not None and self._leads:
            if self._last_metadata is not None and self._knows_brokers_first:
                requests.append(_with(self._last_metadata, topic_states=[], type=0))
            requests.append(self._leader_and_isr(self._last_lead))
        if self._last_metadata is not None:
            requests.append(self._update_metadata(self._last_metadata))
        return requests

    def _leader_and_isr(self, last: LeaderAndIsrRequest) -> LeaderAndIsrRequest:
        by_topic: dict[tuple[str, UUID], list[_LeadState]] = {}
        for partition, (topic_id, state) in self._leads.items():
            by_topic.setdefault((partition.topic, topic_id), []).append(state)
        return _with(
            last,
            live_leaders=list(self._live_leaders.values()),
            topic_states=[
                LeaderAndIsrRequest.LeaderAndIsrTopicState(
                    topic_name=topic, topic_id=topic_id, partition_states=states
                )
                for (topic, topic_id), states in by_topic.items()
            ],
        )

    def _update_metadata(self, last: UpdateMetadataRequest) -> UpdateMetadataRequest:
        by_topic: dict[tuple[str, UUID], list[_MetadataState]] = {}
        for partition, (topic_id, state) in self._metadata.items():
            by_topic.setdefault((partition.topic, topic_id), []).append(state)
        return _with(
            last,
            topic_states=[
                UpdateMetadataRequest.UpdateMetadataTopicState(
                    topic_name=topic, topic_id=topic_id, partition_states=states
                )
                for (topic, topic_id), states in by_topic.items()
            ],
            type=self._metadata_type,
        )


def _with(struct: _StructT, **changes: Any) -> _StructT:
    """A copy of a request, or of a part of one: what is queued is shared with other brokers."""
    changed = copy(struct)
    for name, value in changes.items():
        setattr(changed, name, value)
    return changed
