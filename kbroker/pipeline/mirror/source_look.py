"""What a mirror sees of the source when a round begins.

Law: offsets are asked after the topics, and where an open transaction begins after the rest; what
does not answer is left to the next round.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from kbroker.client.client_error import ClientError
from kbroker.client.cluster_links import EARLIEST, LATEST, ClusterLinks, TopicView
from kbroker.client.topic_figures import offsets_at
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import NO_LEADER, ZERO_UUID, TopicPartition
from kbroker.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLook:
    """Topics by name, and offsets of the partitions that answered."""

    views: Mapping[str, TopicView]
    starts: Mapping[TopicPartition, int]
    stable: Mapping[TopicPartition, int]  # where the first open transaction begins, or the end
    ends: Mapping[TopicPartition, int]

    def partitions(self) -> list[TopicPartition]:
        """Those of which all is known."""
        return sorted(self.starts.keys() & self.stable.keys() & self.ends.keys())

    def silent(self) -> list[TopicPartition]:
        """Those that did not answer, such as those without a leader."""
        all_there = {
            TopicPartition(name, number)
            for name, view in self.views.items()
            for number in view.leaders
        }
        return sorted(all_there.difference(self.partitions()))

    def topic_id(self, topic: str) -> str:
        """The id of a topic, empty where the broker knows none."""
        return id_of(self.views[topic])


def id_of(view: TopicView) -> str:
    """The id of a topic as text, empty where the broker knows none."""
    return "" if view.topic_id == ZERO_UUID else str(view.topic_id)


def look_at(links: ClusterLinks, views: Mapping[str, TopicView]) -> SourceLook:
    """Ask for the offsets of these topics."""
    leaders = leaders_in(views)
    return SourceLook(
        views=views,
        starts=offsets_at(links, leaders, EARLIEST),
        ends=offsets_at(links, leaders, LATEST),
        stable=offsets_at(links, leaders, LATEST, only_committed=True),
    )


def leaders_in(views: Mapping[str, TopicView]) -> dict[TopicPartition, int]:
    """The leader of each partition that has one."""
    return {
        TopicPartition(name, number): leader
        for name, view in views.items()
        for number, leader in view.leaders.items()
        if leader != NO_LEADER
    }


def epoch_ends(
    links: ClusterLinks,
    leaders: Mapping[TopicPartition, int],
    epochs: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """Where leader epochs end in the logs of their partitions (KIP-320); who does not tell is left
    out.
    """
    by_leader: defaultdict[int, defaultdict[str, list[int]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for partition in epochs:
        if partition in leaders:
            by_leader[leaders[partition]][partition.topic].append(partition.partition)
    found: dict[TopicPartition, int] = {}
    for leader, topics in by_leader.items():
        request = OffsetForLeaderEpochRequest(
            replica_id=-1,
            topics=[
                OffsetForLeaderEpochRequest.OffsetForLeaderTopic(
                    topic=topic,
                    partitions=[
                        OffsetForLeaderEpochRequest.OffsetForLeaderPartition(
                            partition=number, leader_epoch=epochs[TopicPartition(topic, number)]
                        )
                        for number in numbers
                    ],
                )
                for topic, numbers in topics.items()
            ],
        )
        try:
            answer = links.ask(leader, request)
        except (OSError, ClientError, KafkaError):
            continue
        found |= {
            TopicPartition(topic.topic, entry.partition): entry.end_offset
            for topic in answer.topics
            for entry in topic.partitions
            if entry.error_code == ErrorCode.NONE and entry.end_offset >= 0
        }
    return found
