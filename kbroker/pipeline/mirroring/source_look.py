"""A mirror's look at the source when a round begins.

Law: offsets are asked for after the topics, and where an open transaction begins after the rest;
partitions that do not answer are left to the next round.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kbroker.client.cluster_links import EARLIEST, LATEST, ClusterLinks, TopicView
from kbroker.client.topic_figures import leaders_in, offsets_at
from kbroker.model import ZERO_UUID, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLook:
    """Topics by name, and offsets of the partitions that answered."""

    views: Mapping[str, TopicView]
    starts: Mapping[TopicPartition, int]
    stable: Mapping[TopicPartition, int]  # where the first open transaction begins, or the end
    ends: Mapping[TopicPartition, int]

    def partitions(self) -> list[TopicPartition]:
        """Return the partitions whose offsets are all known."""
        return sorted(self.starts.keys() & self.stable.keys() & self.ends.keys())

    def silent(self) -> list[TopicPartition]:
        """Return the partitions that did not answer, such as those without a leader."""
        all_there = {
            TopicPartition(name, number)
            for name, view in self.views.items()
            for number in view.leaders
        }
        return sorted(all_there.difference(self.partitions()))

    def topic_id(self, topic: str) -> str:
        return id_of(self.views[topic])


def id_of(view: TopicView) -> str:
    """Return the id of a topic as text, empty if the broker knows none."""
    return "" if view.topic_id == ZERO_UUID else str(view.topic_id)


def look_at_source(links: ClusterLinks, views: Mapping[str, TopicView]) -> SourceLook:
    """Ask for the offsets of these topics."""
    leaders = leaders_in(views.values())
    return SourceLook(
        views=views,
        starts=offsets_at(links, leaders, EARLIEST),
        ends=offsets_at(links, leaders, LATEST),
        stable=offsets_at(links, leaders, LATEST, only_committed=True),
    )
