"""The state of an archive: what its manifests say, one after the other. Values only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

import msgspec

from kbroker.errors import Trouble
from kbroker.model import TopicPartition
from kbroker.pipeline.archiving.manifests.covered_ranges import (
    Stretch,
    bounded_holes,
    joined_ranges,
)
from kbroker.pipeline.archiving.manifests.manifest import (
    LAYOUT_VERSION,
    EpochNote,
    FileEntry,
    GroupOffsets,
    HoleEntry,
    Manifest,
    RangeEntry,
)
from kbroker.pipeline.errors import PipelineError

_HOLES_PER_PARTITION = 1_000  # kept with their places; see `bounded_holes`


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The state after a manifest."""

    layout_version: int = LAYOUT_VERSION
    archive_id: str
    number: int
    files: tuple[FileEntry, ...]
    ranges: tuple[RangeEntry, ...]
    holes: tuple[HoleEntry, ...]
    jobs: dict[str, int]
    waiting: dict[str, int]
    json_schemas: dict[str, str]
    topic_ids: dict[str, str] = {}
    cluster_ids: dict[str, str] = {}
    leader_epochs: tuple[EpochNote, ...] = ()
    topic_settings: dict[str, dict[str, str]] = {}
    partition_counts: dict[str, int] = {}
    group_offsets: GroupOffsets = {}


@dataclass(slots=True, kw_only=True)
class ArchiveState:
    """An archive as of manifest `number` (-1: none yet). Owned by its reader."""

    path: str  # of the archive's directory
    archive_id: str
    number: int = -1
    files: dict[str, FileEntry] = field(default_factory=dict)  # by path below the directory
    ranges: dict[TopicPartition, tuple[Stretch, ...]] = field(default_factory=dict)  # joined
    holes: dict[TopicPartition, tuple[HoleEntry, ...]] = field(default_factory=dict)
    jobs: dict[str, int] = field(default_factory=dict)  # job id -> its last batch
    waiting: dict[str, int] = field(default_factory=dict)  # removed file -> when, until deleted
    json_schemas: dict[str, str] = field(default_factory=dict)  # topic -> Spark's JSON
    topic_ids: dict[str, str] = field(default_factory=dict)  # topic -> id, if it has one
    cluster_ids: dict[str, str] = field(default_factory=dict)  # topic -> that of its cluster
    leader_epochs: dict[TopicPartition, EpochNote] = field(default_factory=dict)  # the newest
    # Topic -> its own settings, as last reported. Missing: unknown; empty: it has only defaults.
    topic_settings: dict[str, dict[str, str]] = field(default_factory=dict)
    partition_counts: dict[str, int] = field(default_factory=dict)  # topic -> as last reported
    group_offsets: GroupOffsets = field(default_factory=dict)  # as last reported; none is empty

    @classmethod
    def restored(cls, path: str, snapshot: Snapshot) -> Self:
        """Return the state that a snapshot was made of."""
        state = cls(
            path=path,
            archive_id=snapshot.archive_id,
            number=snapshot.number,
            files={entry.path: entry for entry in snapshot.files},
            jobs=snapshot.jobs,
            waiting=snapshot.waiting,
            json_schemas=snapshot.json_schemas,
            topic_ids=snapshot.topic_ids,
            cluster_ids=snapshot.cluster_ids,
            leader_epochs={each.topic_partition: each for each in snapshot.leader_epochs},
            topic_settings=snapshot.topic_settings,
            partition_counts=snapshot.partition_counts,
            group_offsets=snapshot.group_offsets,
        )
        state._cover(snapshot.ranges)
        state._leave_out(snapshot.holes)
        return state

    def topics(self) -> list[str]:
        """List the topics of which something was archived, in order."""
        return sorted({partition.topic for partition in self.ranges})

    def partitions(self, topic: str | None = None) -> list[TopicPartition]:
        """List the partitions that were archived, or those of a topic, in order."""
        return sorted(tp for tp in self.ranges if topic in (None, tp.topic))

    def end_offset(self, partition: TopicPartition) -> int | None:
        """Return where a run would go on; None for a partition of which nothing was archived."""
        stretches = self.ranges.get(partition)
        return stretches[-1].end_offset if stretches else None

    def entries(
        self, partition: TopicPartition | None = None, kind: str = "data"
    ) -> list[FileEntry]:
        """List files of a partition, or all, by partition and first offset."""
        found = [
            entry
            for entry in self.files.values()
            if entry.kind == kind and partition in (None, entry.topic_partition)
        ]
        return sorted(found, key=lambda entry: (*entry.topic_partition, entry.first_offset))

    def apply(self, manifest: Manifest) -> None:
        """Take the next manifest in."""
        self.number = manifest.number
        if manifest.kind == "batch":
            self.jobs[manifest.job] = max(manifest.batch, self.jobs.get(manifest.job, -1))
        self._cover(manifest.ranges)
        self._leave_out(manifest.holes)
        for path in manifest.removed:
            self.files.pop(path, None)
            self.waiting[path] = manifest.written_ms
        for path in manifest.deleted:
            self.waiting.pop(path, None)
        for entry in manifest.added:
            self.files[entry.path] = entry
        self.json_schemas.update(manifest.json_schemas)
        self.topic_ids.update(manifest.topic_ids)
        self.cluster_ids.update(manifest.cluster_ids)
        self.leader_epochs.update((each.topic_partition, each) for each in manifest.leader_epochs)
        self.topic_settings.update(manifest.topic_settings)
        self.partition_counts.update(manifest.partition_counts)
        self._take_groups(manifest.group_offsets)

    def news_of_groups(self, told: GroupOffsets) -> GroupOffsets:
        """Return the reported offsets of the archive's topics that are not known yet. Groups that
        are not reported stay as they are known.
        """
        news: GroupOffsets = {}
        for group, by_topic in told.items():
            known = self.group_offsets.get(group, {})
            changed = {
                topic: by_topic.get(topic, {})
                for topic in sorted(by_topic.keys() | known.keys())
                if by_topic.get(topic, {}) != known.get(topic, {})
            }
            if changed:
                news[group] = changed
        return news

    def snapshot(self) -> Snapshot:
        return Snapshot(
            archive_id=self.archive_id,
            number=self.number,
            files=tuple(self.files.values()),
            ranges=tuple(
                RangeEntry(topic=tp.topic, partition=tp.partition, start_offset=at, end_offset=end)
                for tp, stretches in self.ranges.items()
                for at, end in stretches
            ),
            holes=tuple(hole for holes in self.holes.values() for hole in holes),
            jobs=self.jobs,
            waiting=self.waiting,
            json_schemas=self.json_schemas,
            topic_ids=self.topic_ids,
            cluster_ids=self.cluster_ids,
            leader_epochs=tuple(self.leader_epochs.values()),
            topic_settings=self.topic_settings,
            partition_counts=self.partition_counts,
            group_offsets=self.group_offsets,
        )

    def refuse_other_topics(self, topic_ids: Mapping[str, str]) -> None:
        """Raise PipelineError if one of these topics only has the name of one that was archived:
        its offsets are those of other records.
        """
        for topic, topic_id in sorted(topic_ids.items()):
            known = self.topic_ids.get(topic, topic_id)
            if known != topic_id:
                raise PipelineError(
                    f"topic {topic} has the id {topic_id}, and the archive {self.path} holds the "
                    f"one with the id {known}: it was deleted and created again, or it is another "
                    f"cluster's; give it another archive",
                    trouble=Trouble.ARCHIVE,
                )

    def refuse_other_cluster(
        self, topics: Iterable[str], topic_ids: Mapping[str, str], cluster_id: str | None
    ) -> None:
        """Raise PipelineError if one of these topics was archived from another cluster. The id of a
        topic says more, if both sides know it: a cluster may be moved with its topics.
        """
        for topic in sorted(topics):
            known = self.cluster_ids.get(topic)
            if topic in topic_ids and topic in self.topic_ids:
                continue
            if known is not None and cluster_id is not None and known != cluster_id:
                raise PipelineError(
                    f"topic {topic} belongs to cluster {cluster_id}, and the archive {self.path} "
                    f"holds that of cluster {known}: give it another archive"
                )

    def _take_groups(self, told: GroupOffsets) -> None:
        for group, by_topic in told.items():
            known = {**self.group_offsets.get(group, {}), **by_topic}
            self.group_offsets[group] = {topic: each for topic, each in known.items() if each}
            if not self.group_offsets[group]:
                del self.group_offsets[group]

    def _cover(self, ranges: Iterable[RangeEntry]) -> None:
        for entry in ranges:
            partition = entry.topic_partition
            known = self.ranges.get(partition, ())
            self.ranges[partition] = joined_ranges([*known, (entry.start_offset, entry.end_offset)])

    def _leave_out(self, holes: Iterable[HoleEntry]) -> None:
        found: dict[TopicPartition, list[HoleEntry]] = {}
        for hole in holes:
            found.setdefault(hole.topic_partition, []).append(hole)
        for partition, new in found.items():
            both = [*self.holes.get(partition, ()), *new]
            self.holes[partition] = bounded_holes(both, _HOLES_PER_PARTITION)


def missing_by_reason(holes: Iterable[HoleEntry]) -> Counter[str]:
    """Return how many offsets are missing for which reason."""
    found: Counter[str] = Counter()
    for hole in holes:
        found[hole.reason] += hole.missing
    return found
