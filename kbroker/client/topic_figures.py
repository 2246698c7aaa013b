"""What topics hold: where their partitions and leader epochs begin and end, and how many bytes they
take.

Law: one question per broker, however many partitions there are, so that a large cluster costs a few
requests. Where there is no answer (from a broker that is gone, of a partition without a leader, of
sizes that this user may not see), the figure is left out and the others stay; the links know which
brokers were silent. Only `ends_of` waits, for commands that can do nothing without an end.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kbroker.client.client_error import ClientError
from kbroker.client.cluster_links import LATEST, ClusterLinks, TopicView, unknown_end
from kbroker.errors import ErrorCode, KafkaError, Trouble
from kbroker.model import NO_LEADER, TopicPartition
from kbroker.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from kbroker.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kbroker.protocol.messages.metadata import MetadataResponse
from kbroker.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest

Described = MetadataResponse.MetadataResponseTopic
FoundOffset = ListOffsetsResponse.ListOffsetsPartitionResponse

_PATIENCE_S = 5.0
_PAUSE_S = 0.1
# A new leader does not know the end before its followers have fetched; the second is what clients
# without the first are told.
_NOT_YET = (ErrorCode.OFFSET_NOT_AVAILABLE, ErrorCode.LEADER_NOT_AVAILABLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """Where partitions end, and the `codes` of those whose leaders do not tell it."""

    offsets: Mapping[TopicPartition, int]
    codes: Mapping[TopicPartition, ErrorCode]

    @property
    def trouble(self) -> Trouble | None:
        """Where more is said of the codes."""
        is_unknown = ErrorCode.OFFSET_NOT_AVAILABLE in self.codes.values()
        return Trouble.NOT_ENOUGH_REPLICAS if is_unknown else None

    def refusal(self, place: TopicPartition) -> str:
        """The sentence about a partition whose offsets were not told."""
        code = self.codes.get(place)
        if code is None:
            return f"{place}: no leader answers"
        if code == ErrorCode.OFFSET_NOT_AVAILABLE:
            return unknown_end(str(place), code)
        return f"{place}: its leader does not tell where it ends ({code.name})"


def leaders_of(topics: Iterable[Described]) -> dict[TopicPartition, int]:
    """The leader of each partition that has one."""
    return {
        TopicPartition(topic.name or "", partition.partition_index): partition.leader_id
        for topic in topics
        for partition in topic.partitions
        if partition.leader_id != NO_LEADER
    }


def leaders_in(views: Iterable[TopicView]) -> dict[TopicPartition, int]:
    """As `leaders_of`, of views."""
    return {
        TopicPartition(view.name, number): leader
        for view in views
        for number, leader in view.leaders.items()
        if leader != NO_LEADER
    }


def offsets_at(
    links: ClusterLinks,
    leaders: Mapping[TopicPartition, int],
    moment: int,
    *,
    only_committed: bool = False,
) -> Mapping[TopicPartition, int]:
    """Offsets at EARLIEST, LATEST, or Unix ms (-1: no record is as late); `only_committed`: up to
    the first open transaction.
    """
    found = found_at(links, leaders, moment, only_committed=only_committed)
    return {place: entry.offset for place, entry in found.items()}


def found_at(
    links: ClusterLinks,
    leaders: Mapping[TopicPartition, int],
    moment: int,
    *,
    only_committed: bool = False,
) -> Mapping[TopicPartition, FoundOffset]:
    """As `offsets_at`, also at MAX_TIMESTAMP, with timestamps (Unix ms) and leader epochs."""
    return _asked(links, leaders, moment, only_committed=only_committed).found


def all_offsets(
    links: ClusterLinks, views: Iterable[TopicView], moment: int, *, only_committed: bool
) -> dict[TopicPartition, int]:
    """As `offsets_at`, of all partitions: those that do not answer are waited for.

    Raises as `ClusterLinks.offsets`.
    """
    views = list(views)
    found = dict(offsets_at(links, leaders_in(views), moment, only_committed=only_committed))
    for view in views:
        missing = [each for each in view.leaders if TopicPartition(view.name, each) not in found]
        if missing:
            late = links.offsets(view, missing, moment, only_committed=only_committed)
            found |= {TopicPartition(view.name, number): late[number] for number in late}
    return found


def ends_of(
    links: ClusterLinks,
    leaders: Mapping[TopicPartition, int],
    sleep: Callable[[float], None] = time.sleep,
) -> Ends:
    """The end of each partition; a leader that does not know it yet is asked again for a while."""
    give_up_s = time.monotonic() + _PATIENCE_S
    offsets: dict[TopicPartition, int] = {}
    codes: dict[TopicPartition, ErrorCode] = {}
    waiting = leaders
    while True:
        answer = _asked(links, waiting, LATEST)
        offsets |= {place: entry.offset for place, entry in answer.found.items()}
        codes = {place: code for place, code in codes.items() if place not in waiting}
        codes |= answer.codes
        waiting = {place: leaders[place] for place, code in codes.items() if code in _NOT_YET}
        if not waiting or time.monotonic() > give_up_s:
            return Ends(offsets=offsets, codes=codes)
        sleep(_PAUSE_S)


class _Answer(NamedTuple):
    found: dict[TopicPartition, FoundOffset]
    codes: dict[TopicPartition, ErrorCode]


def _asked(
    links: ClusterLinks,
    leaders: Mapping[TopicPartition, int],
    moment: int,
    *,
    only_committed: bool = False,
) -> _Answer:
    """Ask the leaders, once."""
    found: dict[TopicPartition, FoundOffset] = {}
    codes: dict[TopicPartition, ErrorCode] = {}
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
        request = ListOffsetsRequest(
            replica_id=-1, isolation_level=int(only_committed), topics=topics
        )
        try:
            answer = links.ask(leader, request)
        except (OSError, ClientError, KafkaError):  # gone, or older than this moment
            continue
        for topic in answer.topics:
            for entry in topic.partitions:
                place = TopicPartition(topic.name, entry.partition_index)
                if entry.error_code == ErrorCode.NONE:
                    found[place] = entry
                else:
                    codes[place] = ErrorCode(entry.error_code)
    return _Answer(found, codes)


def epoch_ends(
    links: ClusterLinks,
    leaders: Mapping[TopicPartition, int],
    epochs: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """Where leader epochs end in the logs of their partitions (KIP-320)."""
    found: dict[TopicPartition, int] = {}
    led = {place: leaders[place] for place in epochs if place in leaders}
    for leader, topics in _by_leader(led).items():
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
        except (OSError, ClientError, KafkaError):  # gone, or older than this request
            continue
        found |= {
            TopicPartition(topic.topic, entry.partition): entry.end_offset
            for topic in answer.topics
            for entry in topic.partitions
            if entry.error_code == ErrorCode.NONE and entry.end_offset >= 0
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
