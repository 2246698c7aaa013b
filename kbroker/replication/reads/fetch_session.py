"""An incremental fetch session (KIP-227): a client names its partitions once, later only what
changed of them. Which sessions there are is in `fetch_session_cache`, one request and its answer in
`fetch_context`.

Law: owned by the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import repeat
from typing import NamedTuple
from uuid import UUID

from kbroker.model import ZERO_UUID, TopicPartition
from kbroker.protocol.messages.fetch import FetchRequest, FetchResponse
from kbroker.protocol.request import ConnectionInfo
from kbroker.replication.reads.fetch_params import NO_EPOCH, FetchPartition
from kbroker.replication.reads.quiet_partitions import QuietPartitions

PartitionData = FetchResponse.PartitionData
TopicName = Callable[[UUID], str | None]

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
EPOCH_MAX = 2**31 - 1

# A name of the longest topic that there can be is smaller; others belong to no topic.
_BYTES_OF_NAME = 512


class FetchOrigin(NamedTuple):
    """What a session must not mix: topics by id or by name, and who asks."""

    uses_topic_ids: bool
    is_follower: bool


class FetchSession:
    """The partitions of one client, in the order in which they are read, and the epoch of its next
    request.
    """

    __slots__ = (
        "connection",
        "counted",
        "created_ms",
        "end_wait",
        "epoch",
        "last_used_ms",
        "origin",
        "partitions",
        "quiet",
        "session_id",
        "weight",
    )

    def __init__(
        self,
        session_id: int,
        origin: FetchOrigin,
        now_ms: float,
        quiet: QuietPartitions | None = None,
    ) -> None:
        self.session_id = session_id
        self.origin = origin
        self.epoch = next_epoch(INITIAL_EPOCH)
        self.created_ms = now_ms
        self.last_used_ms = now_ms
        self.partitions: dict[Hashable, FetchPartition] = {}
        self.weight = 0  # what its partitions take of the memory, see `topic_weight`
        self.counted = 0  # what of that the cache knows of
        self.quiet = quiet  # a follower's
        self.connection: ConnectionInfo | None = None  # by which the last request came
        self.end_wait: Callable[[], None] | None = None  # while a request for many waits

    @property
    def is_left(self) -> bool:
        """Whether the client's connection is closed; a client that comes back starts over."""
        return self.connection is not None and self.connection.is_closed

    @property
    def to_read(self) -> Iterable[FetchPartition]:
        """The partitions of which there may be something new."""
        return (self.partitions if self.quiet is None else self.quiet.noisy).values()

    def name(self, key: Hashable, asked: FetchPartition) -> None:
        """Take over what a request says of a partition."""
        known = self.partitions.get(key)
        if known is None:
            known = self.partitions[key] = asked
            self.weight += topic_weight(asked.topic_partition.topic)
        else:
            known.fetch_offset = asked.fetch_offset
            known.max_bytes = asked.max_bytes
            known.current_leader_epoch = asked.current_leader_epoch
            known.last_fetched_epoch = asked.last_fetched_epoch
            known.log_start_offset = asked.log_start_offset
        if self.quiet is not None:
            self.quiet.named(key, known)

    def forget(self, key: Hashable) -> None:
        """Fetch a partition no more."""
        known = self.partitions.pop(key, None)
        if known is None:
            return
        self.weight -= topic_weight(known.topic_partition.topic)
        if self.quiet is not None:
            self.quiet.forgotten(key, known)

    def answered(self, key: Hashable, asked: FetchPartition, data: PartitionData) -> None:
        """The client is told `data`. A busy partition goes to the end of the line, so that it does
        not starve the others.
        """
        if self.quiet is not None:
            self.quiet.answered(key, asked, data)
        elif data.records is not None and len(data.records) and self.partitions.get(key) is asked:
            del self.partitions[key]
            self.partitions[key] = asked

    def end_waits(self) -> None:
        """Nobody waits any more for the answer to what was asked last."""
        if self.end_wait is not None:
            self.end_wait()

    def close(self) -> None:
        """It is used no more."""
        self.end_waits()
        if self.quiet is not None:
            self.quiet.end_all()


def topic_weight(topic: str) -> int:
    """How much one partition of a topic counts against the room for sessions: 1, that is some 400
    bytes, and more for what can be no topic's name.
    """
    return 1 + topic.__sizeof__() // _BYTES_OF_NAME


def next_epoch(epoch: int) -> int:
    """The epoch after `epoch`; 0 is for new sessions, so counting goes round from 1."""
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == EPOCH_MAX else epoch + 1


def session_key(asked: FetchPartition, origin: FetchOrigin) -> Hashable:
    """Under what a session keeps a partition."""
    if origin.uses_topic_ids:
        return asked.topic_id, asked.topic_partition.partition
    return asked.topic_partition


def name_partitions(
    topics: Iterable[FetchRequest.FetchTopic],
    origin: FetchOrigin,
    topic_name: TopicName,
    named: dict[Hashable, FetchPartition],
) -> None:
    """Add what a request asks for to `named`; of one that comes twice, what is said last."""
    by_id = origin.uses_topic_ids
    for topic in topics:
        topic_id = ZERO_UUID
        name = topic.topic
        if by_id:
            topic_id = topic.topic_id if topic.topic_id is not ZERO_UUID else UUID(int=0)
            name = topic_name(topic_id) or ""
        for partition in topic.partitions:
            place = TopicPartition(name, partition.partition)
            named[(topic_id, partition.partition) if by_id else place] = FetchPartition(
                place,
                topic_id,
                partition.fetch_offset,
                partition.partition_max_bytes,
                partition.current_leader_epoch if partition.current_leader_epoch >= 0 else NO_EPOCH,
                partition.last_fetched_epoch if partition.last_fetched_epoch >= 0 else NO_EPOCH,
                partition.log_start_offset,
            )


def forgotten_keys(
    topics: Iterable[FetchRequest.ForgottenTopic], origin: FetchOrigin
) -> Iterator[Hashable]:
    """The keys of those partitions that a request takes out of its session."""
    for topic in topics:
        yield from zip(
            repeat(topic.topic_id if origin.uses_topic_ids else topic.topic), topic.partitions
        )


def find_names(partitions: Iterable[FetchPartition], topic_name: TopicName) -> None:
    """Topics are named by id: one that was unknown may have been created since, and a known one
    deleted.
    """
    for asked in partitions:
        topic, index = asked.topic_partition
        if not topic:
            asked.topic_partition = TopicPartition(topic_name(asked.topic_id) or "", index)


def note_news(asked: FetchPartition, data: PartitionData) -> bool:
    """Whether this is news to the client; from then on it is not."""
    is_news = data.records is not None and len(data.records) > 0
    if data.high_watermark != asked.told_high_watermark:
        asked.told_high_watermark = data.high_watermark
        is_news = True
    if data.log_start_offset != asked.told_log_start_offset:
        asked.told_log_start_offset = data.log_start_offset
        is_news = True
    if data.error_code:
        # The first answer after an error is always news: its offsets differ from this.
        asked.told_high_watermark = -1
        return True
    if asked.last_fetched_epoch >= 0 and data.diverging_epoch.epoch >= 0:
        # Nor does a follower take offsets from an answer that has it cut its log.
        asked.told_high_watermark = -1
        return True
    return is_news or data.preferred_read_replica >= 0
