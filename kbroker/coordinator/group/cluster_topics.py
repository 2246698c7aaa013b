"""ClusterTopics: the topics of the cluster as consumer groups see them.

Law: a topic has the id, partitions and racks that the metadata cache has. The rack of a broker that
is down is the one it had: a restart moves no partition, and must not wake the groups that read it.
Hashes and racks are kept until their topic changes, as a group asks for those of all its topics.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from uuid import UUID

from kbroker.coordinator.consumer_group.assignors.assignor import Topics
from kbroker.coordinator.consumer_group.metadata_hash import group_hash, topic_hash
from kbroker.model import ZERO_UUID
from kbroker.replication.metadata_cache import MetadataCache


class ClusterTopics:
    """Owned by the event loop."""

    def __init__(self, metadata: MetadataCache) -> None:
        self._metadata = metadata
        self._hashes: dict[str, int] = {}
        self._rack_sets: dict[str, list[frozenset[str]]] = {}
        self._known = set(metadata.topics())
        self.arrivals = 0
        self.topic_name = metadata.topic_name
        self.names = metadata.topics

    def changed(self, names: Iterable[str]) -> None:
        """Topics have come or gone, or have another id, other partitions or racks."""
        for name in names:
            self._hashes.pop(name, None)
            self._rack_sets.pop(name, None)
            if not self._metadata.contains_topic(name):
                self._known.discard(name)
            elif name not in self._known:
                self._known.add(name)
                self.arrivals += 1

    def topic_id(self, name: str) -> UUID | None:
        """None for a topic that does not exist, or has no id."""
        found = self._metadata.topic_id(name)
        return None if found == ZERO_UUID else found

    def metadata_hash(self, names: Iterable[str]) -> int:
        """The hash of those of these topics that exist."""
        return group_hash(
            {name: self._hash(name) for name in names if self.topic_id(name) is not None}
        )

    def _hash(self, name: str) -> int:
        found = self._hashes.get(name)
        if found is None:
            metadata = self._metadata
            count = metadata.partition_count(name)
            racks = self._racks(name) if metadata.racks else ()
            found = topic_hash(name, metadata.topic_id(name), count, racks)
            self._hashes[name] = found
        return found

    def _racks(self, name: str) -> list[list[str]]:
        """The racks of each partition's replicas, in their order."""
        states, racks = self._metadata.partition_states(name), self._metadata.racks
        return [
            [rack for each in states[index].replicas if (rack := racks.get(each)) is not None]
            for index in sorted(states)
        ]

    def _racks_of_partitions(self, name: str) -> list[frozenset[str]]:
        found = self._rack_sets.get(name)
        if found is None:
            found = self._rack_sets[name] = [frozenset(each) for each in self._racks(name)]
        return found

    def topics(self, topic_ids: Collection[UUID]) -> Topics:
        """Return what an assignor may know of these topics."""
        counts, racks = {}, {}
        for topic_id in topic_ids:
            name = self.topic_name(topic_id)
            if name is None:
                continue
            counts[topic_id] = self._metadata.partition_count(name)
            if self._metadata.racks:
                racks[topic_id] = self._racks_of_partitions(name)
        return Topics(counts, racks)
