"""Needs that a cluster has to meet, beside brokers that support it, before it settles on a level of
a feature; and the levels that a new one begins with.

Pure. Consumer groups of KIP-848 (`group.version` 1) name topics by their ids. Whether such groups
have members does not matter to an update, as in Kafka 4.3: once their level is lowered, their
members are refused, and what they committed stays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from kbroker.features import GROUP_VERSION
from kbroker.model import SupportedFeature


class TopicIds(NamedTuple):
    """The topics of a cluster, as far as their ids go."""

    lacking: Collection[str] = ()  # the topics without
    are_given: bool = True  # to topics that are created from now on


ALL_HAVE_IDS = TopicIds()
_CONSUMER = "consumer"  # a protocol of groups


def unmet_need(feature: str, level: int, topic_ids: TopicIds) -> str | None:
    """Return why the cluster cannot settle on a level now; None if it can."""
    if feature != GROUP_VERSION or level < 1:
        return None
    refused = "Could not apply finalized feature update because consumer groups need topic ids, "
    if not topic_ids.are_given:
        return f"{refused}which topics get from inter.broker.protocol.version 2.8 on."
    if topic_ids.lacking:
        count = len(topic_ids.lacking)
        lack = "topic lacks one" if count == 1 else "topics lack one"
        return f"{refused}and {count} {lack}: {min(topic_ids.lacking)}{' ...' * (count > 1)}"
    return None


def first_levels(
    supported: Iterable[SupportedFeature], *, is_alone: bool, group_protocols: Collection[str]
) -> dict[str, int]:
    """The levels that a new cluster begins with. If no ZooKeeper is shared with brokers of another
    kind, its clients may use consumer groups at once, unless its broker is to serve none: Kafka 3.9
    reads what is stored then.
    """
    return {
        feature.name: feature.highest
        for feature in supported
        if is_alone and _CONSUMER in group_protocols and feature.name == GROUP_VERSION
    }
