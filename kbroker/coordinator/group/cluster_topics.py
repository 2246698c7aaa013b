"""ClusterTopics: the topics of the cluster as consumer groups see them.

Law: a topic has the id, partitions and racks that the metadata cache has. The rack of a broker that
is down is the one it had: a restart moves no partition, and must not wake the groups that read it.
Hashes and racks are kept until their topic changes, as a group asks for those of all its topics;
what was asked of many topics together is kept until any topic changes, and can be learned before it
is asked, a few topics at a time.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator
from typing import Generic, TypeVar
from uuid import UUID

from kbroker.coordinator.consumer_group.assignors.assignor import Topics
from kbroker.coordinator.consumer_group.metadata_hash import group_hash, topic_hash
from kbroker.model import ZERO_UUID
from kbroker.replication.metadata_cache import MetadataCache
from kbroker.slices import slices
from kbroker.turns import ENTRIES

_KEPT = 8  # sets of topics
_FEW = 16  # topics, of which nothing is kept together; so many names may be of none

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class _Kept(Generic[K, V]):
    """The last few answers about many topics together."""

    def __init__(self) -> None:
        self._answers: dict[K, V] = {}
        self.get = self._answers.get
        self.forget = self._answers.clear

    def keep(self, question: K, answer: V) -> V:
        if len(self._answers) >= _KEPT:
            del self._answers[next(iter(self._answers))]
        self._answers[question] = answer
        return answer


class ClusterTopics:
    """Owned by the event loop."""

    def __init__(self, metadata: MetadataCache) -> None:
        self._metadata = metadata
        self._hashes: dict[str, int] = {}  # of topics that exist and have an id
        self._rack_sets: dict[str, list[frozenset[str]]] = {}
        self._known = set(metadata.topics())
        self._changes = 0
        self._group_hashes: _Kept[frozenset[str], int] = _Kept()
        self._ids: _Kept[frozenset[str], frozenset[UUID]] = _Kept()
        self._topics: _Kept[frozenset[UUID], Topics] = _Kept()
        self.arrivals = 0
        self.topic_name = metadata.topic_name
        self.names = metadata.topics

    @property
    def count(self) -> int:
        """The number of topics."""
        return len(self._known)

    def changed(self, names: Iterable[str]) -> None:
        """Topics have come or gone, or have another id, other partitions or racks."""
        self._changes += 1
        for kept in (self._group_hashes, self._ids, self._topics):
            kept.forget()
        for name in names:
            self._hashes.pop(name, None)
            self._rack_sets.pop(name, None)
            if not self._metadata.contains_topic(name):
                self._known.discard(name)
            elif name not in self._known:
                self._known.add(name)
                self.arrivals += 1

    def learning(self, names: frozenset[str]) -> Iterator[None]:
        """Steps of some milliseconds, after which everything is known of these topics together,
        unless any topic changes meanwhile.
        """
        changes = self._changes
        ids: set[UUID] = set()
        counts: dict[UUID, int] = {}
        racks: dict[UUID, list[frozenset[str]]] = {}
        for some in slices(names, ENTRIES):
            self._learn_hashes(some)
            found = self._ids_of(some)
            ids |= found
            self._count(found, counts, racks)
            yield
        if self._changes == changes and _are_known(names, ids):
            of_all = self._ids.keep(names, frozenset(ids))
            self._topics.keep(of_all, Topics(counts, racks))
            yield
            if self._changes == changes:
                self.metadata_hash(names)

    def topic_id(self, name: str) -> UUID | None:
        """None for a topic that does not exist, or has no id."""
        found = self._metadata.topic_id(name)
        return None if found == ZERO_UUID else found

    def topic_ids(self, names: frozenset[str]) -> frozenset[UUID]:
        """The ids of those of these topics that exist and have one."""
        if len(names) <= _FEW:
            return self._ids_of(names)
        found = self._ids.get(names)
        if found is not None:
            return found
        found = self._ids_of(names)
        return self._ids.keep(names, found) if _are_known(names, found) else found

    def _ids_of(self, names: Collection[str]) -> frozenset[UUID]:
        ids = frozenset(map(self._metadata.topic_id, names))
        return ids - {ZERO_UUID} if ZERO_UUID in ids else ids

    def metadata_hash(self, names: Iterable[str]) -> int:
        """The hash of those of these topics that exist."""
        asked = frozenset(names)
        found = self._group_hashes.get(asked)
        if found is not None:
            return found
        self._learn_hashes(asked)
        hashes = {name: self._hashes[name] for name in asked if name in self._hashes}
        found = group_hash(hashes)
        if len(asked) <= _FEW or not _are_known(asked, hashes):
            return found
        return self._group_hashes.keep(asked, found)

    def _learn_hashes(self, names: Iterable[str]) -> None:
        hashes = self._hashes
        for name in names:
            if name not in hashes and self.topic_id(name) is not None:
                hashes[name] = self._hash(name)

    def _hash(self, name: str) -> int:
        metadata = self._metadata
        count = metadata.partition_count(name)
        racks = self._racks(name) if metadata.racks else ()
        return topic_hash(name, metadata.topic_id(name), count, racks)

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

    def topics(self, topic_ids: frozenset[UUID]) -> Topics:
        """Return what an assignor may know of these topics."""
        found = self._topics.get(topic_ids)
        if found is not None:
            return found
        counts: dict[UUID, int] = {}
        racks: dict[UUID, list[frozenset[str]]] = {}
        self._count(topic_ids, counts, racks)
        found = Topics(counts, racks)
        return found if len(topic_ids) <= _FEW else self._topics.keep(topic_ids, found)

    def _count(
        self,
        topic_ids: Iterable[UUID],
        counts: dict[UUID, int],
        racks: dict[UUID, list[frozenset[str]]],
    ) -> None:
        has_racks = bool(self._metadata.racks)
        for topic_id in topic_ids:
            name = self.topic_name(topic_id)
            if name is None:
                continue
            counts[topic_id] = self._metadata.partition_count(name)
            if has_racks:
                racks[topic_id] = self._racks_of_partitions(name)


def _are_known(names: Collection[str], found: Collection[object]) -> bool:
    """Whether these are names of topics but for a few: others come from anybody, at any length."""
    return len(names) - len(found) <= _FEW
