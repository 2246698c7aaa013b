"""A cluster as commands see it that move partitions: its moves end when the test says so."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kbroker.errors import ErrorCode
from kbroker.model import ReplicaAssignment, TopicPartition
from kbroker.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from kbroker.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsResponse,
)
from kbroker.protocol.messages.metadata import MetadataResponse

Changed = AlterPartitionReassignmentsResponse
Listed = ListPartitionReassignmentsResponse


class MovingCluster:
    """`online` maps brokers to racks. Partitions lead where `leaders` says, else at their first
    replica that is online; `refusals` are the answers to moves of single partitions.

    Every question for moves counts in `looks`; `looks_until_over` of them later all moves are over.
    """

    def __init__(
        self,
        replicas: Mapping[str, Sequence[Sequence[int]]],
        online: Mapping[int, str | None],
        moving: Mapping[TopicPartition, ReplicaAssignment] | None = None,
    ) -> None:
        self.replicas = {
            TopicPartition(topic, number): tuple(each)
            for topic, rows in replicas.items()
            for number, each in enumerate(rows)
        }
        self.online = online
        self.moving = dict(moving or {})
        self.leaders: dict[TopicPartition, int] = {}
        self.sleep: Callable[[float], None] = lambda _seconds: None
        self.refusals: dict[TopicPartition, ErrorCode] = {}
        self.wishes: dict[TopicPartition, tuple[int, ...] | None] = {}
        self.looks = 0
        self.looks_until_over = 0
        self.troubles: list[Exception] = []  # of the next questions for moves

    def describe(self, names: Sequence[str] | None) -> MetadataResponse:
        """Brokers, and these topics or all."""
        topics: dict[str, list[MetadataResponse.MetadataResponsePartition]] = {}
        for place, replicas in self.replicas.items():
            if names is not None and place.topic not in names:
                continue
            there = [broker for broker in replicas if broker in self.online]
            partition = MetadataResponse.MetadataResponsePartition(
                partition_index=place.partition,
                leader_id=self.leaders.get(place, there[0] if there else -1),
                replica_nodes=list(replicas),
                isr_nodes=there,
            )
            topics.setdefault(place.topic, []).append(partition)
        return MetadataResponse(
            controller_id=min(self.online),
            brokers=[
                MetadataResponse.MetadataResponseBroker(node_id=node, rack=rack)
                for node, rack in self.online.items()
            ],
            topics=[
                MetadataResponse.MetadataResponseTopic(name=name, partitions=partitions)
                for name, partitions in topics.items()
            ],
        )

    def link(self, node_id: int) -> MovingCluster:
        """The controller."""
        assert node_id == min(self.online)
        return self

    def lose(self, link: MovingCluster) -> None:
        """The next question goes over another connection."""
        assert link is self

    def ask(self, request: Any) -> Any:
        """Begin moves, or list them."""
        if isinstance(request, AlterPartitionReassignmentsRequest):
            return self._begin(request)
        self.looks += 1
        if self.troubles:
            raise self.troubles.pop(0)
        if self.looks > self.looks_until_over:
            self._end_moves()
        return _listed(self.moving)

    def _begin(self, request: AlterPartitionReassignmentsRequest) -> Changed:
        topics = []
        for topic in request.topics:
            rows = []
            for row in topic.partitions:
                place = TopicPartition(topic.name, row.partition_index)
                code = self.refusals.get(place, ErrorCode.NONE)
                if code == ErrorCode.NONE:
                    self.wishes[place] = None if row.replicas is None else tuple(row.replicas)
                rows.append(
                    Changed.ReassignablePartitionResponse(
                        partition_index=place.partition, error_code=code, error_message=None
                    )
                )
            topics.append(Changed.ReassignableTopicResponse(name=topic.name, partitions=rows))
        return Changed(error_message=None, responses=topics)

    def _end_moves(self) -> None:
        for place, target in self.wishes.items():
            self.moving.pop(place, None)
            if target is not None and place in self.replicas:
                self.replicas[place] = target


def _listed(moving: Mapping[TopicPartition, ReplicaAssignment]) -> Listed:
    topics: dict[str, list[Listed.OngoingPartitionReassignment]] = {}
    for place, move in moving.items():
        row = Listed.OngoingPartitionReassignment(
            partition_index=place.partition,
            replicas=list(move.replicas),
            adding_replicas=list(move.adding_replicas),
            removing_replicas=list(move.removing_replicas),
        )
        topics.setdefault(place.topic, []).append(row)
    return Listed(
        error_message=None,
        topics=[
            Listed.OngoingTopicReassignment(name=name, partitions=rows)
            for name, rows in topics.items()
        ],
    )
