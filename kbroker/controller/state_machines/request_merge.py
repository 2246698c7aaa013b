"""Makes few requests out of many that wait for one broker, to the same effect.

Pure. Law: afterwards there is at most one request of each kind, in the order StopReplica,
LeaderAndIsr, UpdateMetadata, and each names a partition at most once; so the queue for a broker
that cannot be reached is bounded by the number of its partitions, however long that lasts. A broker
that was to hear of the others before it leads or follows hears of them first, in one more
UpdateMetadata without partitions: Apache Kafka's brokers do not follow a leader they do not know.

Of several orders for one partition the last one counts: a stop makes an order to lead or follow
before it pointless; an order to lead or follow comes after any stop that stays. What was to be
deleted is deleted, and what was new is still new.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from itertools import chain
from typing import Any, TypeVar
from uuid import UUID

from kbroker.model import ZERO_UUID, TopicPartition
from kbroker.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from kbroker.protocol.messages.stop_replica import StopReplicaRequest
from kbroker.protocol.messages.update_metadata import UpdateMetadataRequest
from kbroker.replication.controller_requests.request_shapes import ControlRequest
from kbroker.replication.metadata_cache import FULL_UPDATE

_LeadState = LeaderAndIsrRequest.LeaderAndIsrPartitionState
_StopState = StopReplicaRequest.StopReplicaPartitionState
_MetadataState = UpdateMetadataRequest.UpdateMetadataPartitionState
_StructT = TypeVar("_StructT")
_StateT = TypeVar("_StateT")
_Topics = dict[tuple[str, UUID], list[_StateT]]

_AT_ONCE = 1_024  # partitions; about five milliseconds


class RequestMerge:
    """The requests of one reign to one registration of a broker, made fewer in small steps.

    It has the last order for each partition. Ids go with the partition: a name may be used again.
    """

    def __init__(self, requests: Iterable[ControlRequest]) -> None:
        self.merged: list[ControlRequest] = []  # once all steps are taken
        self._requests = list(requests)
        self._last_stop: StopReplicaRequest | None = None
        self._last_lead: LeaderAndIsrRequest | None = None
        self._last_metadata: UpdateMetadataRequest | None = None
        self._knows_brokers_first = False  # before it leads or follows
        self._metadata_type = 0  # of a full one with what came later, it is full again
        self._stops: dict[TopicPartition, tuple[UUID, _StopState]] = {}
        self._leads: dict[TopicPartition, tuple[UUID, _LeadState]] = {}
        self._live_leaders: dict[int, LeaderAndIsrRequest.LeaderAndIsrLiveLeader] = {}
        self._metadata: dict[TopicPartition, tuple[UUID, _MetadataState]] = {}

    def steps(self) -> Iterator[None]:
        """Do all of the work, with a yield after every few milliseconds."""
        works = chain.from_iterable(map(self._add, self._requests))
        for number, _ in enumerate(chain(works, self._build()), 1):
            if number % _AT_ONCE == 0:
                yield

    def _add(self, request: ControlRequest) -> Iterator[None]:
        if isinstance(request, LeaderAndIsrRequest):
            return self._add_leader_and_isr(request)
        if isinstance(request, StopReplicaRequest):
            return self._add_stop_replica(request)
        return self._add_update_metadata(request)

    def _add_leader_and_isr(self, request: LeaderAndIsrRequest) -> Iterator[None]:
        self._last_lead = request
        self._knows_brokers_first |= self._last_metadata is not None
        self._live_leaders.update((leader.broker_id, leader) for leader in request.live_leaders)
        for topic in request.topic_states:
            for state in topic.partition_states:
                partition = TopicPartition(topic.topic_name, state.partition_index)
                before = self._leads.pop(partition, None)
                if before is not None and before[0] == topic.topic_id and before[1].is_new:
                    state = _with(state, is_new=True)
                self._leads[partition] = (topic.topic_id, state)
                yield

    def _add_stop_replica(self, request: StopReplicaRequest) -> Iterator[None]:
        self._last_stop = request
        for topic in request.topic_states:
            for state in topic.partition_states:
                partition = TopicPartition(topic.topic_name, state.partition_index)
                self._leads.pop(partition, None)
                before = self._stops.pop(partition, None)
                if before is not None and before[1].delete_partition:
                    state = _with(state, delete_partition=True)
                self._stops[partition] = (ZERO_UUID, state)
                yield

    def _add_update_metadata(self, request: UpdateMetadataRequest) -> Iterator[None]:
        if request.type == FULL_UPDATE:
            self._metadata.clear()
            self._metadata_type = FULL_UPDATE
        self._last_metadata = request
        for topic in request.topic_states:
            for state in topic.partition_states:
                partition = TopicPartition(topic.topic_name, state.partition_index)
                self._metadata.pop(partition, None)
                self._metadata[partition] = (topic.topic_id, state)
                yield

    def _build(self) -> Iterator[None]:
        if self._last_stop is not None and self._stops:
            yield from self._build_stop_replica(self._last_stop)
        if self._last_lead is not None and self._leads:
            if self._last_metadata is not None and self._knows_brokers_first:
                self.merged.append(_with(self._last_metadata, topic_states=[], type=0))
            yield from self._build_leader_and_isr(self._last_lead)
        if self._last_metadata is not None:
            yield from self._build_update_metadata(self._last_metadata)

    def _build_stop_replica(self, last: StopReplicaRequest) -> Iterator[None]:
        topics: _Topics[_StopState] = {}
        yield from _sort_by_topic(self._stops, topics)
        topic_states = [
            StopReplicaRequest.StopReplicaTopicState(topic_name=topic, partition_states=states)
            for (topic, _), states in topics.items()
        ]
        self.merged.append(_with(last, topic_states=topic_states))

    def _build_leader_and_isr(self, last: LeaderAndIsrRequest) -> Iterator[None]:
        topics: _Topics[_LeadState] = {}
        yield from _sort_by_topic(self._leads, topics)
        topic_states = [
            LeaderAndIsrRequest.LeaderAndIsrTopicState(
                topic_name=topic, topic_id=topic_id, partition_states=states
            )
            for (topic, topic_id), states in topics.items()
        ]
        live_leaders = list(self._live_leaders.values())
        self.merged.append(_with(last, live_leaders=live_leaders, topic_states=topic_states))

    def _build_update_metadata(self, last: UpdateMetadataRequest) -> Iterator[None]:
        topics: _Topics[_MetadataState] = {}
        yield from _sort_by_topic(self._metadata, topics)
        topic_states = [
            UpdateMetadataRequest.UpdateMetadataTopicState(
                topic_name=topic, topic_id=topic_id, partition_states=states
            )
            for (topic, topic_id), states in topics.items()
        ]
        self.merged.append(_with(last, topic_states=topic_states, type=self._metadata_type))


def _sort_by_topic(
    states: Mapping[TopicPartition, tuple[UUID, _StateT]], topics: _Topics[_StateT]
) -> Iterator[None]:
    for partition, (topic_id, state) in states.items():
        topics.setdefault((partition.topic, topic_id), []).append(state)
        yield


def _with(struct: _StructT, **changes: Any) -> _StructT:
    """A copy of a request, or of a part of one: queued ones are shared with other brokers."""
    changed = copy(struct)
    for name, value in changes.items():
        setattr(changed, name, value)
    return changed
