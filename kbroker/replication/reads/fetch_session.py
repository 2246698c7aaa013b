"""An incremental fetch session (KIP-227): a client names its partitions once, and later only those
that changed. `fetch_session_cache` has all sessions, `fetch_context` one request and its answer.

Law: owned by the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import repeat
from typing import NamedTuple
from uuid import UUID

from kbroker.model import ZERO_UUID, TopicPartition, new_tuple
from kbroker.protocol.messages.fetch import FetchRequest, FetchResponse
from kbroker.protocol.request import ConnectionInfo
from kbroker.replication.reads.fetch_params import NO_EPOCH, FetchPartition
from kbroker.replication.reads.quiet_partitions import QuietPartitions

PartitionData = FetchResponse.PartitionData
TopicName = Callable[[UUID], str | None]

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
EPOCH_MAX = 2**31 - 1

# The longest possible name of a topic is smaller; anything larger belongs to no topic.
_BYTES_OF_NAME = 512


class FetchOrigin(NamedTuple):
    """The kind of a session, which must not change: topics by id or by name, and who asks."""

    uses_topic_ids: bool
    is_follower: bool


@dataclass(slots=True, eq=False, repr=False)
class FetchSession:
    """One client's partitions in the order they are read, and the epoch of its next request."""

    session_id: int
    origin: FetchOrigin
    created_ms: float
    quiet: QuietPartitions | None = None  # a follower's
    epoch: int = 1  # of the next request
    last_used_ms: float = field(init=False)
    partitions: dict[Hashable, FetchPartition] = field(default_factory=dict)
    weight: int = 0  # the memory that its partitions take, see `topic_weight`
    counted: int = 0  # the part of that which the cache knows of
    connection: ConnectionInfo | None = None  # of the last request
    end_wait: Callable[[], None] | None = None  # while a request for many waits

    def __post_init__(self) -> None:
        self.last_used_ms = self.created_ms

    @property
    def is_left(self) -> bool:
        """Whether the client's connection is closed; a client that returns starts over."""
        return self.connection is not None and self.connection.is_closed

    def name(self, key: Hashable, asked: FetchPartition) -> None:
        """Take over a partition as a request names it."""
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
        """Take a partition out of the session."""
        known = self.partitions.pop(key, None)
        if known is None:
            return
        self.weight -= topic_weight(known.topic_partition.topic)
        if self.quiet is not None:
            self.quiet.forgotten(key, known)

    def answered(self, key: Hashable, asked: FetchPartition, data: PartitionData) -> None:
        """Note that the client is sent `data`, and put a busy partition last, to be fair. Only a
        follower's session has to hear of data without records.
        """
        if self.quiet is not None:
            self.quiet.answered(key, asked, data)
        elif self.partitions.get(key) is asked:
            del self.partitions[key]
            self.partitions[key] = asked

    def close(self) -> None:
        """End the wait and the quiet of a session that is over."""
        if self.end_wait is not None:
            self.end_wait()
        if self.quiet is not None:
            self.quiet.end_all()


def topic_weight(topic: str) -> int:
    """The weight of one partition against the room for sessions: 1, which is some 400 bytes, or
    more for a name that no topic can have.
    """
    return 1 + topic.__sizeof__() // _BYTES_OF_NAME


def next_epoch(epoch: int) -> int:
    """The epoch after `epoch`; 0 is for new sessions, so the count wraps to 1."""
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == EPOCH_MAX else epoch + 1


def session_key(asked: FetchPartition, origin: FetchOrigin) -> Hashable:
    """The key of a partition in a session. An id goes by its number, whose hash costs less."""
    if origin.uses_topic_ids:
        return asked.topic_id.int, asked.topic_partition.partition
    return asked.topic_partition


def name_partitions(
    topics: Iterable[FetchRequest.FetchTopic],
    origin: FetchOrigin,
    topic_name: TopicName,
    named: dict[Hashable, FetchPartition],
) -> None:
    """Add the partitions of a request to `named`; for a repeated one, the last entry counts."""
    by_id = origin.uses_topic_ids
    for topic in topics:
        topic_id = ZERO_UUID
        name = topic.topic
        if by_id:
            topic_id = topic.topic_id if topic.topic_id is not ZERO_UUID else UUID(int=0)
            name = topic_name(topic_id) or ""
        for partition in topic.partitions:
            place: TopicPartition = new_tuple(TopicPartition, (name, partition.partition))
            named[(topic_id.int, partition.partition) if by_id else place] = FetchPartition(
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
    """Yield the keys of the partitions that a request takes out of its session."""
    for topic in topics:
        yield from zip(
            repeat(topic.topic_id.int if origin.uses_topic_ids else topic.topic), topic.partitions
        )


def find_names(partitions: Iterable[FetchPartition], topic_name: TopicName) -> None:
    """Look up the names of topics that are asked for by id and were unknown so far."""
    for asked in partitions:
        topic, index = asked.topic_partition
        if not topic:
            asked.topic_partition = TopicPartition(topic_name(asked.topic_id) or "", index)


def note_news(asked: FetchPartition, data: PartitionData, *, has_records: bool) -> bool:
    """Whether `data` is news to the client, to which it is sent now."""
    is_news = has_records
    if data.high_watermark != asked.sent_high_watermark:
        asked.sent_high_watermark = data.high_watermark
        is_news = True
    if data.log_start_offset != asked.sent_log_start_offset:
        asked.sent_log_start_offset = data.log_start_offset
        is_news = True
    if data.error_code:
        # The first answer after an error is always news: its offsets differ from -1.
        asked.sent_high_watermark = -1
        return True
    if asked.last_fetched_epoch >= 0 and data.diverging_epoch.epoch >= 0:
        # A follower takes no offsets from an answer that makes it cut its log.
        asked.sent_high_watermark = -1
        return True
    return is_news or data.preferred_read_replica >= 0
