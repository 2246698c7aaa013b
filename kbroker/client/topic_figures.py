"""Figures of topics: the offsets at which partitions and leader epochs begin and end, and sizes.

Law: each broker gets one request, however many partitions it leads, so that a large cluster costs
few. A figure that nobody gives (a broker is gone, a partition has no leader, a user may not see
sizes) is left out, and the others stay; the links know which brokers were silent. Only `ends_of`
waits, for commands that can do nothing without an end.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kbroker.client.client_error import ClientError
from kbroker.client.cluster_links import (
    EARLIEST,
    LATEST,
    ClusterLinks,
    TopicView,
    offsets_request,
    unknown_end,
)
from kbroker.client.topic_rows import numbers_by_topic, rows_of
from kbroker.errors import ErrorCode, KafkaError, Trouble
from kbroker.model import NO_LEADER, TopicPartition
from kbroker.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from kbroker.protocol.messages.list_offsets import ListOffsetsResponse
from kbroker.protocol.messages.metadata import MetadataResponse
from kbroker.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest

Described = MetadataResponse.MetadataResponseTopic
FoundOffset = ListOffsetsResponse.ListOffsetsPartitionResponse

_PATIENCE_S = 5.0
_PAUSE_S = 0.1
# A new leader does not know the end before its followers have fetched; clients too old for the
# first code get the second.
_NOT_YET = (ErrorCode.OFFSET_NOT_AVAILABLE, ErrorCode.LEADER_NOT_AVAILABLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """The ends of partitions, and the `codes` of those whose leaders refuse."""

    offsets: Mapping[TopicPartition, int]
    codes: Mapping[TopicPartition, ErrorCode]

    @property
    def trouble(self) -> Trouble | None:
        is_unknown = ErrorCode.OFFSET_NOT_AVAILABLE in self.codes.values()
        return Trouble.NOT_ENOUGH_REPLICAS if is_unknown else None

    def refusal(self, place: TopicPartition) -> str:
        """Return the sentence about a partition whose offsets are not known."""
        code = self.codes.get(place)
        if code is None:
            return f"{place}: no leader answers"
        if code == ErrorCode.OFFSET_NOT_AVAILABLE:
            return unknown_end(str(place), code)
        return f"{place}: its leader does not say where it ends ({code.name})"


@dataclass(frozen=True, slots=True)
class Figures:
    """Offsets, and sizes in bytes, by partition; those that nobody gives are left out."""

    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    sizes: Mapping[TopicPartition, int]

    def records(self, place: TopicPartition) -> int | None:
        """Return the number of offsets between start and end; None if not known."""
        if place not in self.starts or place not in self.ends:
            return None
        return self.ends[place] - self.starts[place]


def ask_figures(links: ClusterLinks, leaders: Mapping[TopicPartition, int]) -> Figures:
    """Ask the leaders for the figures of their partitions."""
    return Figures(
        starts=offsets_at(links, leaders, EARLIEST),
        ends=offsets_at(links, leaders, LATEST),
        sizes=sizes_of(links, leaders),
    )


def leaders_of(topics: Iterable[Described]) -> dict[TopicPartition, int]:
    """Return the leader of each partition that has one."""
    return {place: row.leader_id for place, row in rows_of(topics) if row.leader_id != NO_LEADER}


def leaders_in(views: Iterable[TopicView]) -> dict[TopicPartition, int]:
    """Return the leader of each partition of these views that has one."""
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
    """Return the offsets at EARLIEST, LATEST, or Unix ms (-1: no record is as late);
    `only_committed`: up to the first open transaction.
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
    """Return the rows that `offsets_at` reads: also at MAX_TIMESTAMP, with timestamps (Unix ms) and
    leader epochs.
    """
    return _asked(links, leaders, moment, only_committed=only_committed).found


def all_offsets(
    links: ClusterLinks, views: Iterable[TopicView], moment: int, *, only_committed: bool
) -> dict[TopicPartition, int]:
    """Return the offsets of all partitions, waiting for leaders that do not answer.

    Raises what `ClusterLinks.offsets` raises.
    """
    views = list(views)
    found = dict(offsets_at(links, leaders_in(views), moment, only_committed=only_committed))
    for view in views:
        missing = [each for each in view.leaders if TopicPartition(view.name, each) not in found]
        if missing:
            late = links.offsets(view, missing, moment, only_committed=only_committed)
            found |= {TopicPartition(view.name, number): late[number] for number in late}
    return found


def ends_of(links: ClusterLinks, leaders: Mapping[TopicPartition, int]) -> Ends:
    """Return the end of each partition; a leader that does not know it yet is asked again."""
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
        links.sleep(_PAUSE_S)


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
    found: dict[TopicPartition, FoundOffset] = {}
    codes: dict[TopicPartition, ErrorCode] = {}
    for leader, partitions in _by_leader(leaders).items():
        request = offsets_request(partitions, moment, only_committed=only_committed)
        try:
            answer = links.ask(leader, request)
        except (OSError, ClientError, KafkaError):  # gone, or older than this moment
            continue
        for place, row in rows_of(answer.topics):
            if row.error_code == ErrorCode.NONE:
                found[place] = row
            else:
                codes[place] = ErrorCode(row.error_code)
    return _Answer(found, codes)


def epoch_ends(
    links: ClusterLinks,
    leaders: Mapping[TopicPartition, int],
    epochs: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """Return the offsets at which leader epochs end (KIP-320)."""
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
    """Return the size of the leader's replica of each partition, in bytes."""
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
            place: row.partition_size
            for directory in answer.results
            for place, row in rows_of(directory.topics)
            if leaders.get(place) == leader and not row.is_future_key
        }
    return found


def _by_leader(leaders: Mapping[TopicPartition, int]) -> dict[int, dict[str, list[int]]]:
    found: defaultdict[int, list[TopicPartition]] = defaultdict(list)
    for place, leader in leaders.items():
        if leader != NO_LEADER:
            found[leader].append(place)
    return {leader: numbers_by_topic(places) for leader, places in found.items()}
