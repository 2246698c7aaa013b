"""Looks up a topic by name, and refuses names and partitions that are not there."""

from __future__ import annotations

from collections.abc import Collection

from kbroker.client.client_error import ClientError
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.topic_figures import Described
from kbroker.client.unknown_names import no_such, no_such_partition
from kbroker.errors import ErrorCode, KafkaError, Trouble
from kbroker.model import TopicPartition
from kbroker.protocol.primitives import MAX_STRING_BYTES

_MISSING = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION)


class NotFoundError(ClientError):
    """A topic, group or record that is not there."""


def topic_named(links: ClusterLinks, name: str) -> Described:
    """Return a topic as it is now.

    Raises NotFoundError if there is none of this name, KafkaError if it cannot be described.
    """
    if len(name.encode("utf-8", "replace")) > MAX_STRING_BYTES:  # a broker would hang up
        raise NotFoundError("no topic has so long a name", trouble=Trouble.UNKNOWN_TOPIC)
    (found,) = links.describe([name]).topics
    if found.error_code in _MISSING:
        known = [str(each.name) for each in links.describe(None).topics]
        raise NotFoundError(no_such("topic", name, known), trouble=Trouble.UNKNOWN_TOPIC)
    if found.error_code and not found.partitions:
        raise KafkaError(ErrorCode(found.error_code), name)
    return found


def check_partitions(topic: Described, numbers: Collection[int]) -> None:
    """Raise NotFoundError if the topic lacks one of these partitions."""
    known = {each.partition_index for each in topic.partitions}
    unknown = sorted(set(numbers) - known)
    if unknown:
        place = TopicPartition(str(topic.name), unknown[0])
        raise NotFoundError(no_such_partition(place, len(known)))
