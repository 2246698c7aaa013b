"""The consumer protocol of Kafka: bytes that members of consumer groups send with JoinGroup and get
from SyncGroup, and that only they need to understand.

    subscription, assignment = int16 version, fields

Pure. Other protocol types (Connect, Schema Registry) keep their metadata to themselves. Law: bytes
of a later version are read as the last one that is known, as in Kafka, because each only adds to
the one before; all versions of a subscription begin with the names of topics.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from struct import Struct as Layout
from typing import TypeVar

from kbroker.coordinator.runtime.versioned_record import VERSION_BYTES, version_of, versioned
from kbroker.errors import ProtocolError
from kbroker.protocol.codec import decode
from kbroker.protocol.declaration import Struct
from kbroker.protocol.schema import Message, message, wire

CONSUMER_PROTOCOL_TYPE = "consumer"

_START = Layout(">hi")  # version, number of topics
_INT16 = Layout(">h")


@message(key=None, versions="0-3")
class ConsumerProtocolSubscription(Message):
    """The wish of a member. v1: partitions that it has. v2: their generation. v3: its rack."""

    class TopicPartition(Struct):
        """Partitions of a topic."""

        topic: str = wire("string", default="")
        partitions: list[int] = wire("[]int32", default=[])

    topics: list[str] = wire("[]string", default=[])
    user_data: bytes | None = wire("bytes", nullable="0+", default=None)
    owned_partitions: list[TopicPartition] = wire("[]TopicPartition", "1+", default=[])
    generation_id: int = wire("int32", "2+", default=-1)
    rack_id: str | None = wire("string", "3+", nullable="3+", default=None)


@message(key=None, versions="0-3")
class ConsumerProtocolAssignment(Message):
    """The share of a member; all versions are the same."""

    class TopicPartition(Struct):
        """Partitions of a topic."""

        topic: str = wire("string", default="")
        partitions: list[int] = wire("[]int32", default=[])

    assigned_partitions: list[TopicPartition] = wire("[]TopicPartition", default=[])
    user_data: bytes | None = wire("bytes", nullable="0+", default=None)


ListedTopic = (
    ConsumerProtocolSubscription.TopicPartition | ConsumerProtocolAssignment.TopicPartition
)

MessageT = TypeVar("MessageT", bound=Message)


def read_subscription(metadata: bytes) -> ConsumerProtocolSubscription:
    """A subscription, whole. ProtocolError for bytes that are none."""
    return _read(ConsumerProtocolSubscription, metadata)


def read_assignment(assignment: bytes) -> ConsumerProtocolAssignment:
    """An assignment, whole. ProtocolError for bytes that are none."""
    return _read(ConsumerProtocolAssignment, assignment)


def assignment_bytes(partitions: Mapping[str, Iterable[int]], version: int) -> bytes:
    """The assignment of these partitions, by topic, in the version of a member's subscription."""
    assigned = [
        ConsumerProtocolAssignment.TopicPartition(topic=topic, partitions=list(numbers))
        for topic, numbers in partitions.items()
    ]
    message = ConsumerProtocolAssignment(assigned_partitions=assigned)
    return versioned(message, min(version, message.spec.versions.highest))


def version_or_zero(data: bytes) -> int:
    """The version of a subscription or assignment; 0 if it has none."""
    return max(0, version_of(data)) if len(data) >= VERSION_BYTES else 0


def subscribed_topics(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """All topics of all members; None when one of them cannot be read."""
    topics: set[str] = set()
    for each in set(metadata):  # most members send the same
        read = _topics(each)
        if read is None:
            return None
        topics.update(read)
    return frozenset(topics)


def _read(kind: type[MessageT], data: bytes) -> MessageT:
    version = version_of(data)
    if version < 0:
        raise ProtocolError(f"version {version} of a {kind.__name__}")
    return decode(kind, min(version, kind.spec.versions.highest), data, VERSION_BYTES)[0]


def _topics(metadata: bytes) -> list[str] | None:
    if len(metadata) < _START.size:
        return None
    version, count = _START.unpack_from(metadata)
    if version < 0 or count > len(metadata):
        return None
    position = _START.size
    topics = []
    for _ in range(count):
        if position + _INT16.size > len(metadata):
            return None
        (length,) = _INT16.unpack_from(metadata, position)
        position += _INT16.size
        if length < 0 or position + length > len(metadata):
            return None
        try:
            topics.append(metadata[position : position + length].decode())
        except UnicodeDecodeError:
            return None
        position += length
    return topics
