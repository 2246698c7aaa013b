"""What topics hold: where their partitions begin and end, and how many bytes they take.

Law: one question per broker, however many partitions there are, so that a large cluster costs a few
requests. Where there is no answer (from a broker that is gone, of a partition without a leader, of
sizes that this user may not see), the figure is left out and the others stay; the links know which
brokers were silent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from kbroker.client.client_error import ClientError
from kbroker.client.cluster_links import ClusterLinks
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import NO_LEADER, TopicPartition
from kbroker.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from kbroker.protocol.messages.list_offsets import ListOffsetsRequest
from kbroker.protocol.messages.metadata import MetadataResponse

Described = MetadataResponse.MetadataResponseTopic


def leaders_of(topics: Iterable[Described]) -> dict[TopicPartition, int]:
    """The leader of each partition that has one."""
    return {
        TopicPartition(topic.name or "", partition.partition_index): partition.leader_id
        for topic in topics
        for partition in topic.partitions
        if partition.leader_id != NO_LEADER
    }


def offsets_at(
    links: ClusterLinks, leaders: Mapping[TopicPartition, int], moment: int
) -> dict[TopicPartition, int]:
    """Offsets at EARLIEST, LATEST, or Unix ms (-1: no record is as late)."""
    found: dict[TopicPartition, int] = {}
    for leader, partitions in _by_leader(leaders).items():
        topics = [
            ListOffsetsRequest.ListOffsetsTopic(
                name=name,
                partitions=[
                    ListOffsetsRequest.ListOffsetsPartition(partition_index=n, timestamp=moment)
                    for n in numbers
                ],
            )
            for name, numbers in partitions.items()
        ]
        try:
            answer = links.ask(leader, ListOffsetsRequest(replica_id=-1, topics=topics))
        except (OSError, ClientError):
            continue
        found |= {
            TopicPartition(topic.name, entry.partition_index): entry.offset
            for topic in answer.topics
            for entry in topic.partitions
            if entry.error_code == ErrorCode.NONE
        }
    return found


def sizes_of(
    links: ClusterLinks, leaders: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Bytes of the leader's replica of each partition."""
    found: dict[TopicPartition, int] = {}
    for leader, partitions in _by_leader(leaders).items():
        topics = [
            DescribeLogDirsRequest.DescribableLogDirTopic(topic=name, partitions=numbers)
            for name, numbers in partitions.items()
        ]
        try:
            answer = links.ask(leader, DescribeLogDirsRequest(topics=topics))
        except (OSError, ClientError, KafkaError):  # gone, or older than this request
            continue
        found |= {
            place: entry.partition_size
            for directory in answer.results
            for topic in directory.topics
            for entry in topic.partitions
            for place in [TopicPartition(topic.name, entry.partition_index)]
            if leaders.get(place) == leader and not entry.is_future_key
        }
    return found


def _by_leader(leaders: Mapping[TopicPartition, int]) -> dict[int, dict[str, list[int]]]:
    """Partitions by leader and topic."""
    found: defaultdict[int, defaultdict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for (topic, number), leader in leaders.items():
        if leader != NO_LEADER:
            found[leader][topic].append(number)
    return {leader: dict(topics) for leader, topics in found.items()}
