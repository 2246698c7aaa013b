"""What an archive holds now: its manifests, read one after the other.

Every hundredth manifest has a snapshot beside it, the state after it; the last two are kept.
Snapshots save time only: one that is missing or damaged is passed over. Manifests are never
deleted, and are read from the newest sound snapshot on.

Reading takes no lock: manifests appear whole, in order, and do not change.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from kbroker.log.file_system import FileSystem, RealFileSystem, StorageError
from kbroker.model import TopicPartition
from kbroker.pipeline.archive.manifests.covered_ranges import Stretch, bounded_holes, joined
from kbroker.pipeline.archive.manifests.manifest import (
    LAYOUT_VERSION,
    EpochEntry,
    FileEntry,
    HoleEntry,
    Manifest,
    ManifestError,
    RangeEntry,
    check_paths,
    decode_manifest,
    unseal,
)
from kbroker.pipeline.errors import ExitCode, PipelineError

MARK_NAME: Final = "kbroker-archive.json"  # what makes a directory an archive
LOCK_NAME: Final = "kbroker-archive.lock"
MANIFESTS: Final = "manifests"
STAGING: Final = "staging"
SNAPSHOT_EVERY: Final = 100

_HOLES_PER_PARTITION = 1_000  # that are kept with their places; see `bounded_holes`
_NAME = re.compile(r"(\d{20})(\.snapshot)?\.json")


class ArchiveMark(msgspec.Struct, frozen=True, kw_only=True):
    """Content of the file that makes a directory an archive."""

    layout_version: int = LAYOUT_VERSION
    archive_id: str
    kbroker_version: str
    created_ms: int


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
    leader_epochs: tuple[EpochEntry, ...] = ()


@dataclass(slots=True, kw_only=True)
class ArchiveState:
    """An archive as of manifest `number` (-1: none yet). Owned by whoever read it."""

    path: str  # of the archive's directory
    archive_id: str
    number: int = -1
    files: dict[str, FileEntry] = field(default_factory=dict)  # by path below the directory
    ranges: dict[TopicPartition, tuple[Stretch, ...]] = field(default_factory=dict)  # joined
    holes: dict[TopicPartition, tuple[HoleEntry, ...]] = field(default_factory=dict)
    jobs: dict[str, int] = field(default_factory=dict)  # job id -> its last batch
    waiting: dict[str, int] = field(default_factory=dict)  # removed file -> when, until deleted
    json_schemas: dict[str, str] = field(default_factory=dict)  # topic -> Spark's JSON
    topic_ids: dict[str, str] = field(default_factory=dict)  # topic -> id, where it has one
    cluster_ids: dict[str, str] = field(default_factory=dict)  # topic -> that of its cluster
    leader_epochs: dict[TopicPartition, EpochEntry] = field(default_factory=dict)  # the newest

    def topics(self) -> list[str]:
        """Every topic of which something was archived, in order."""
        return sorted({partition.topic for partition in self.ranges})

    def partitions(self, topic: str | None = None) -> list[TopicPartition]:
        """Every partition that was archived, or those of a topic, in order."""
        return sorted(tp for tp in self.ranges if topic in (None, tp.topic))

    def end_offset(self, partition: TopicPartition) -> int | None:
        """Where a run would go on; None for a partition of which nothing was archived."""
        stretches = self.ranges.get(partition)
        return stretches[-1].end_offset if stretches else None

    def entries(
        self, partition: TopicPartition | None = None, kind: str = "data"
    ) -> list[FileEntry]:
        """Files of a partition, or all, by partition and first offset."""
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

    def snapshot(self) -> Snapshot:
        """The state as a value, for a file."""
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
        )

    def refuse_other_topics(self, topic_ids: Mapping[str, str]) -> None:
        """PipelineError where one of these topics only has the name of one that was archived: its
        offsets are those of other records.
        """
        for topic, topic_id in sorted(topic_ids.items()):
            known = self.topic_ids.get(topic, topic_id)
            if known != topic_id:
                raise PipelineError(
                    f"topic {topic} has the id {topic_id}, and the archive {self.path} holds the "
                    f"one with the id {known}: it was deleted and made anew, or it is another "
                    "cluster's; give it another archive"
                )

    def refuse_other_cluster(
        self, topics: Iterable[str], topic_ids: Mapping[str, str], cluster_id: str | None
    ) -> None:
        """PipelineError where one of these topics was archived from another cluster. The id of a
        topic says more, where it is known on both sides: a cluster may be moved with its topics.
        """
        for topic in sorted(topics):
            known = self.cluster_ids.get(topic)
            if topic in topic_ids and topic in self.topic_ids:
                continue
            if known is not None and cluster_id is not None and known != cluster_id:
                raise PipelineError(
                    f"topic {topic} is of the cluster {cluster_id}, and the archive {self.path} "
                    f"holds that of the cluster {known}: give it another archive"
                )

    def _cover(self, ranges: Iterable[RangeEntry]) -> None:
        for entry in ranges:
            partition = entry.topic_partition
            known = self.ranges.get(partition, ())
            self.ranges[partition] = joined([*known, (entry.start_offset, entry.end_offset)])

    def _leave_out(self, holes: Iterable[HoleEntry]) -> None:
        found: dict[TopicPartition, list[HoleEntry]] = {}
        for hole in holes:
            found.setdefault(hole.topic_partition, []).append(hole)
        for partition, new in found.items():
            both = [*self.holes.get(partition, ()), *new]
            self.holes[partition] = bounded_holes(both, _HOLES_PER_PARTITION)


def read_archive(path: str, file_system: FileSystem | None = None) -> ArchiveState:
    """The archive in a directory; PipelineError with one sentence where there is none that can be
    read. Nothing is written.
    """
    disk = file_system or RealFileSystem()
    mark = read_mark(path, disk)
    if mark is None:
        raise PipelineError(
            f"{path} is no archive: it has no {MARK_NAME} "
            "(`kbroker pipeline archive --to DIR` makes one)",
            ExitCode.USAGE,
        )
    last_number = max(_numbers(path, disk, is_snapshot=False), default=-1)
    state = _newest_snapshot(path, mark.archive_id, disk)
    refresh(state, disk)
    if state.number < last_number:
        raise PipelineError(
            f"{manifest_path(path, state.number + 1)} is missing, and there are later manifests: "
            "put it back from a copy of the archive"
        )
    return state


def read_mark(path: str, disk: FileSystem) -> ArchiveMark | None:
    """Whose archive a directory is; None where it is no archive."""
    name = f"{path}/{MARK_NAME}"
    if not disk.exists(name):
        return None
    try:
        return msgspec.json.decode(unseal(disk.read_bytes(name)), type=ArchiveMark)
    except (ManifestError, msgspec.DecodeError) as error:
        raise PipelineError(f"{name} {error}") from error
    except StorageError as error:
        raise PipelineError(f"the archive cannot be read: {error}") from error


def refresh(state: ArchiveState, disk: FileSystem) -> None:
    """Take in what was published since the state was read. Asks for the next manifest by its name:
    a folder of a million takes seconds to list.
    """
    while disk.exists(manifest_path(state.path, state.number + 1)):
        manifest = read_manifest(state.path, state.number + 1, disk)
        if manifest.archive_id != state.archive_id:
            raise PipelineError(
                f"{manifest_path(state.path, manifest.number)} is of archive "
                f"{manifest.archive_id}, and {state.path} is archive {state.archive_id}: two "
                "archives cannot be mixed"
            )
        state.apply(manifest)


def read_manifest(path: str, number: int, disk: FileSystem) -> Manifest:
    """One manifest; PipelineError with one sentence where it cannot be read."""
    name = manifest_path(path, number)
    try:
        manifest = decode_manifest(disk.read_bytes(name))
    except ManifestError as error:
        raise PipelineError(f"{name} {error}") from error
    except StorageError as error:
        raise PipelineError(f"a manifest cannot be read: {error}") from error
    if manifest.number != number:
        raise PipelineError(f"{name} is manifest {manifest.number} under another name")
    return manifest


def manifest_path(path: str, number: int) -> str:
    """The file of a manifest."""
    return f"{path}/{MANIFESTS}/{number:020d}.json"


def snapshot_path(path: str, number: int) -> str:
    """The file of the state after a manifest."""
    return f"{path}/{MANIFESTS}/{number:020d}.snapshot.json"


def missing_by_reason(holes: Iterable[HoleEntry]) -> Counter[str]:
    """How many offsets are missing for which reason."""
    found: Counter[str] = Counter()
    for hole in holes:
        found[hole.reason] += hole.missing
    return found


def _newest_snapshot(path: str, archive_id: str, disk: FileSystem) -> ArchiveState:
    for number in reversed(_numbers(path, disk, is_snapshot=True)):
        snapshot = _read_snapshot(path, number, disk)
        if snapshot is not None and (snapshot.archive_id, snapshot.number) == (archive_id, number):
            return _restored(path, snapshot)
    return ArchiveState(path=path, archive_id=archive_id)


def _read_snapshot(path: str, number: int, disk: FileSystem) -> Snapshot | None:
    try:
        content = unseal(disk.read_bytes(snapshot_path(path, number)))
        snapshot = msgspec.json.decode(content, type=Snapshot)
        check_paths([*(entry.path for entry in snapshot.files), *snapshot.waiting])
    except (ManifestError, msgspec.DecodeError, StorageError):
        return None  # the manifests say the same, only slower
    return snapshot


def _restored(path: str, snapshot: Snapshot) -> ArchiveState:
    state = ArchiveState(
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
    )
    state._cover(snapshot.ranges)
    state._leave_out(snapshot.holes)
    return state


def _numbers(path: str, disk: FileSystem, *, is_snapshot: bool) -> list[int]:
    """Numbers of the manifests, or of the snapshots, in order."""
    directory = f"{path}/{MANIFESTS}"
    try:
        names = disk.list(directory) if disk.exists(directory) else []
    except StorageError as error:
        raise PipelineError(f"the archive cannot be read: {error}") from error
    found = []
    for name in names:
        matched = _NAME.fullmatch(name)
        if matched is None:
            if name.startswith("."):
                continue  # what a network file system keeps of a file that is still open
            raise PipelineError(
                f"{directory}/{name} is no manifest of an archive: nothing else may be there"
            )
        if (matched[2] is not None) == is_snapshot:
            found.append(int(matched[1]))
    return sorted(found)
