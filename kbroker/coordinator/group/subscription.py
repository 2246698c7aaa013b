"""Reads the topics out of the metadata that consumers send with JoinGroup.

Pure. Every version of the consumer protocol's subscription begins with int16 version and an array
of topic names; only that much is read. Other protocol types (Connect, Schema Registry) keep their
metadata to themselves.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct

CONSUMER_PROTOCOL_TYPE = "consumer"

_START = Struct(">hi")  # version, number of topics
_INT16 = Struct(">h")


def subscribed_topics(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """All topics of all members; None when one of them cannot be read."""
    topics: set[str] = set()
    for each in set(metadata):  # most members send the same
        read = _topics(each)
        if read is None:
            return None
        topics.update(read)
    return frozenset(topics)


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
