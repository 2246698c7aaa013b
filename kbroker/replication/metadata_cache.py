"""The cluster as this broker knows it from the controller: live brokers, topics, who leads what.

Law: owned by the event loop; only `update` changes it, except for the cluster's features, which
come from the tree. Answers to Metadata are built from structs that are kept per topic, with their
bytes, until the topic or the set of live brokers changes: such a struct belongs to the cache, and
nobody who puts it into an answer may change it. Whole answers are kept until anything changes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from copy import copy
from uuid import UUID

from kbroker.errors import ErrorCode
from kbroker.features import SUPPORTED_FEATURES
from kbroker.model import (
    INTERNAL_TOPICS,
    LEADER_DURING_DELETE,
    NO_LEADER,
    SECURITY_PROTOCOLS,
    ZERO_UUID,
    Broker,
    EndPoint,
    FinalizedFeatures,
    TopicPartition,
)
from kbroker.protocol.codec import keep_encoded
from kbroker.protocol.messages.metadata import MetadataResponse
from kbroker.protocol.messages.update_metadata import UpdateMetadataRequest
from kbroker.replication.kept_answers import KeptAnswers

PartitionState = UpdateMetadataRequest.UpdateMetadataPartitionState

FULL_UPDATE = 2  # UpdateMetadataRequest.Type: what it does not name is forgotten
OPERATIONS_NOT_ASKED = -(2**31)
FIRST_VERSION_WITH_LISTENER_ERRORS = 6


class TopicMetadata:
    """A topic: its id, the states of its partitions by index, and the answers built from them."""

    __slots__ = ("described", "partitions", "topic_id")

    def __init__(self, topic_id: UUID) -> None:
        self.topic_id = topic_id
        self.partitions: dict[int, PartitionState] = {}
        self.described: dict[
            tuple[str, bool, bool, int], MetadataResponse.MetadataResponseTopic
        ] = {}


class MetadataCache:
    """The cluster as the controller last described it to broker `broker_id`."""

    def __init__(self, broker_id: int, cluster_id: str = "") -> None:
        self.broker_id = broker_id
        self.cluster_id = cluster_id
        self.controller_epoch = 0
        self._controller_id = NO_LEADER
        self._brokers: dict[int, Broker] = {}
        self._end_points: dict[tuple[int, str], EndPoint] = {}
        self._topics: dict[str, TopicMetadata] = {}
        self._names: dict[UUID, str] = {}
        # Whether this broker cannot use a replica of its own, whatever the controller says.
        self.is_offline_here: Callable[[TopicPartition], bool] = lambda _: False
        self.supported_features = SUPPORTED_FEATURES
        self.finalized_features = FinalizedFeatures()  # from the tree
        self.answers = KeptAnswers()  # to Metadata
        # Racks by broker id, also of brokers that are down: their replicas are where they were.
        self.racks: dict[int, str] = {}
        # Hears of topics that have come or gone, or have another id, other partitions or replicas,
        # and of all topics if a broker has another rack.
        # As long as nobody wants to know, None, nothing is looked for.
        self.on_topics_changed: Callable[[Collection[str]], None] | None = None
        self._changed: set[str] = set()

    # What the controller says

    def update(self, request: UpdateMetadataRequest) -> list[TopicPartition]:
        """Take over live brokers and the partitions named; returns those that are deleted.

        A partition that a full update does not name is forgotten, but not returned: its nodes may
        merely be unreadable, and the offsets of deleted partitions are dropped. The request has the
        newest shape, see `controller_requests/request_shapes.py`.
        """
        self.answers.forget()
        self.controller_epoch = request.controller_epoch
        self._controller_id = request.controller_id
        self._set_brokers(request.live_brokers)
        for topic_partition in self._replaced(request):
            self._remove(topic_partition)
        if request.type == FULL_UPDATE:
            for topic_partition in self._absent(request):
                self._remove(topic_partition)
        deleted = []
        for topic in request.topic_states:
            kept = []
            for state in topic.partition_states:
                if state.leader == LEADER_DURING_DELETE:
                    deleted.append(TopicPartition(topic.topic_name, state.partition_index))
                else:
                    kept.append(state)
            self._set_partitions(topic.topic_name, topic.topic_id, kept)
        for topic_partition in deleted:
            self._remove(topic_partition)
        self._tell_changes()
        return deleted

    def _tell_changes(self) -> None:
        changed, self._changed = self._changed, set()
        if changed and self.on_topics_changed is not None:
            self.on_topics_changed(changed)

    def replicas_failed(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop naming this broker as the leader of replicas that have gone offline.

        The controller may hear of it late, or never: a broker's own tree may lie in the directory
        that failed.
        """
        self.answers.forget()
        for topic_partition in partitions:
            state = self.partition_state(topic_partition)
            if state is not None:
                topic = self._topics[topic_partition.topic]
                self._set_partitions(topic_partition.topic, topic.topic_id, [state])

    def _set_brokers(
        self, live_brokers: Iterable[UpdateMetadataRequest.UpdateMetadataBroker]
    ) -> None:
        brokers = {broker.id: _broker(broker) for broker in live_brokers}
        if brokers == self._brokers:
            return
        self._brokers = brokers
        self._set_racks(brokers.values())
        self._end_points = {
            (broker.broker_id, end_point.listener_name): end_point
            for broker in brokers.values()
            for end_point in broker.end_points
        }
        for topic in self._topics.values():
            topic.described.clear()

    def _set_racks(self, brokers: Iterable[Broker]) -> None:
        racks = {broker.broker_id: broker.rack for broker in brokers if broker.rack is not None}
        if any(self.racks.get(broker_id) != rack for broker_id, rack in racks.items()):
            self.racks.update(racks)
            if self.on_topics_changed is not None:
                self._changed.update(self._topics)

    def _set_partitions(self, name: str, topic_id: UUID, states: list[PartitionState]) -> None:
        if not states:
            return
        topic = self._topics.get(name)
        if self.on_topics_changed is not None and _differs(topic, topic_id, states):
            self._changed.add(name)
        if topic is None:
            topic = self._topics[name] = TopicMetadata(topic_id)
        if topic_id not in (topic.topic_id, ZERO_UUID):
            self._names.pop(topic.topic_id, None)
            topic.topic_id = topic_id
        if topic.topic_id != ZERO_UUID:
            self._names[topic.topic_id] = name
        for state in states:
            index, is_ours = state.partition_index, self.broker_id in state.replicas
            if is_ours and self.is_offline_here(TopicPartition(name, index)):
                state = self._without_this_broker(state)
            topic.partitions[index] = state
        topic.described.clear()

    def _without_this_broker(self, state: PartitionState) -> PartitionState:
        known = copy(state)
        if state.leader == self.broker_id:
            known.leader = NO_LEADER
        known.offline_replicas = sorted({*state.offline_replicas, self.broker_id})
        return known

    def _remove(self, topic_partition: TopicPartition) -> None:
        topic = self._topics.get(topic_partition.topic)
        if topic is None:
            return
        if self.on_topics_changed is not None:
            self._changed.add(topic_partition.topic)
        topic.partitions.pop(topic_partition.partition, None)
        topic.described.clear()
        if not topic.partitions:
            del self._topics[topic_partition.topic]
            self._names.pop(topic.topic_id, None)

    def _replaced(self, request: UpdateMetadataRequest) -> list[TopicPartition]:
        """The partitions of topics that were deleted and created again, unknown to this broker."""
        return [
            TopicPartition(topic.topic_name, index)
            for topic in request.topic_states
            if topic.partition_states
            and topic.topic_id != ZERO_UUID
            and (known := self._topics.get(topic.topic_name)) is not None
            and known.topic_id not in (topic.topic_id, ZERO_UUID)
            for index in known.partitions
        ]

    def _absent(self, request: UpdateMetadataRequest) -> list[TopicPartition]:
        named: dict[str, set[int]] = {}
        for topic in request.topic_states:
            indexes = named.setdefault(topic.topic_name, set())
            indexes.update(state.partition_index for state in topic.partition_states)
        return [
            TopicPartition(name, index)
            for name, known in self._topics.items()
            for index in known.partitions.keys() - named.get(name, ())
        ]

    # Look-ups

    @property
    def controller_id(self) -> int:
        """The controller's broker id, -1 while it is not among the live brokers."""
        return self._controller_id if self._controller_id in self._brokers else NO_LEADER

    def topics(self) -> list[str]:
        return list(self._topics)

    def topic_ids(self) -> Mapping[str, UUID]:
        return {name: topic.topic_id for name, topic in self._topics.items()}

    def contains_topic(self, topic: str) -> bool:
        return topic in self._topics

    def contains(self, topic_partition: TopicPartition) -> bool:
        """Whether the controller has named the partition; asked for each offset committed."""
        name, index = topic_partition
        topic = self._topics.get(name)
        return topic is not None and index in topic.partitions

    def partition_state(self, topic_partition: TopicPartition) -> PartitionState | None:
        """Leader, ISR and replicas of a partition, None if it does not exist."""
        topic = self._topics.get(topic_partition.topic)
        return None if topic is None else topic.partitions.get(topic_partition.partition)

    def partition_states(self, topic: str) -> Mapping[int, PartitionState]:
        """The partitions of a topic by index; empty if it does not exist."""
        found = self._topics.get(topic)
        return {} if found is None else found.partitions

    def partition_count(self, topic: str) -> int:
        """The number of partitions, 0 if the topic does not exist."""
        return len(self.partition_states(topic))

    def is_led(self, topic: str, partitions: int) -> bool:
        """Whether the topic has at least that many partitions, and all have a leader."""
        states = self.partition_states(topic)
        return len(states) >= partitions and all(s.leader >= 0 for s in states.values())

    def topic_id(self, topic: str) -> UUID:
        """The topic's id, zero if it has none or does not exist."""
        found = self._topics.get(topic)
        return ZERO_UUID if found is None else found.topic_id

    def topic_name(self, topic_id: UUID) -> str | None:
        return self._names.get(topic_id)

    def are_named(self, topics: Iterable[tuple[UUID, str]]) -> bool:
        """Whether the topics with these ids have these names."""
        return all(self.topic_name(topic_id) == name for topic_id, name in topics)

    def alive_brokers(self) -> list[Broker]:
        """The live brokers in the order of their ids."""
        return [self._brokers[broker_id] for broker_id in sorted(self._brokers)]

    def broker(self, broker_id: int) -> Broker | None:
        """A live broker, None for one that is down or unknown."""
        return self._brokers.get(broker_id)

    def end_point(self, broker_id: int, listener_name: str) -> EndPoint | None:
        return self._end_points.get((broker_id, listener_name))

    # Metadata answers

    def describe_topic(
        self,
        topic: str,
        version: int,
        listener_name: str,
        authorized_operations: int = OPERATIONS_NOT_ASKED,
    ) -> MetadataResponse.MetadataResponseTopic | None:
        """The topic in a Metadata answer of `version` on a listener, None if it does not exist."""
        found = self._topics.get(topic)
        if found is None:
            return None
        hides_dead = version == 0
        listener_errors = version >= FIRST_VERSION_WITH_LISTENER_ERRORS
        key = (listener_name, hides_dead, listener_errors, authorized_operations)
        described = found.described.get(key)
        if described is None:
            described = found.described[key] = MetadataResponse.MetadataResponseTopic(
                name=topic,
                topic_id=found.topic_id,
                is_internal=topic in INTERNAL_TOPICS,
                partitions=[
                    self._describe_partition(
                        found.partitions[index], listener_name, hides_dead, listener_errors
                    )
                    for index in sorted(found.partitions)
                ],
                topic_authorized_operations=authorized_operations,
            )
        keep_encoded(described, version)
        return described

    def _describe_partition(
        self, state: PartitionState, listener_name: str, hides_dead: bool, listener_errors: bool
    ) -> MetadataResponse.MetadataResponsePartition:
        replicas = list(state.replicas)
        isr = list(state.isr)
        if hides_dead:  # version 0 has no list of offline replicas
            replicas = [
                broker for broker in replicas if (broker, listener_name) in self._end_points
            ]
            isr = [broker for broker in isr if (broker, listener_name) in self._end_points]
        leader = state.leader
        error = ErrorCode.NONE
        if (leader, listener_name) not in self._end_points:
            lacks_listener = listener_errors and leader in self._brokers
            error = (
                ErrorCode.LISTENER_NOT_FOUND if lacks_listener else ErrorCode.LEADER_NOT_AVAILABLE
            )
            leader = NO_LEADER
        elif len(replicas) < len(state.replicas) or len(isr) < len(state.isr):
            error = ErrorCode.REPLICA_NOT_AVAILABLE
        return MetadataResponse.MetadataResponsePartition(
            error_code=error,
            partition_index=state.partition_index,
            leader_id=leader,
            leader_epoch=state.leader_epoch,
            replica_nodes=replicas,
            isr_nodes=isr,
            offline_replicas=list(state.offline_replicas),
        )


def _differs(topic: TopicMetadata | None, topic_id: UUID, states: Iterable[PartitionState]) -> bool:
    """Whether a topic is new, or gets another id, other partitions or other replicas."""
    if topic is None or topic_id not in (topic.topic_id, ZERO_UUID):
        return True
    known = topic.partitions
    return any(
        (before := known.get(state.partition_index)) is None or before.replicas != state.replicas
        for state in states
    )


def _broker(live: UpdateMetadataRequest.UpdateMetadataBroker) -> Broker:
    end_points = tuple(
        EndPoint(
            listener_name=end_point.listener or SECURITY_PROTOCOLS[end_point.security_protocol],
            host=end_point.host,
            port=end_point.port,
            security_protocol=SECURITY_PROTOCOLS[end_point.security_protocol],
        )
        for end_point in live.endpoints
    )
    return Broker(broker_id=live.id, end_points=end_points, rack=live.rack)
