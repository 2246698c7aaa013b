"""Reads an archive from its directory: its mark, then its manifests, one after the other.

Every hundredth manifest has a snapshot beside it, the state after it; the last two are kept.
Snapshots save time only: one that is missing or damaged is skipped. Manifests are never
deleted, and are read from the newest intact snapshot on.

Reading takes no lock: manifests appear whole, in order, and do not change.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from kbroker.log.disk.file_system import FileSystem, RealFileSystem, StorageError
from kbroker.pipeline.archiving.manifests.archive_state import ArchiveState, Snapshot
from kbroker.pipeline.archiving.manifests.manifest import (
    LAYOUT_VERSION,
    Manifest,
    ManifestError,
    check_offsets,
    check_partitions,
    check_paths,
    check_topics,
    decode_manifest,
    unseal,
)
from kbroker.pipeline.errors import ExitCode, PipelineError

MARK_NAME: Final = "kbroker-archive.json"  # what makes a directory an archive
LOCK_NAME: Final = "kbroker-archive.lock"
MANIFESTS: Final = "manifests"
STAGING: Final = "staging"
SNAPSHOT_EVERY: Final = 100

NAME_PATTERN: Final = re.compile(r"(\d{20})(\.snapshot)?\.json")  # of a manifest or snapshot


class ArchiveMark(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the file that makes a directory an archive."""

    layout_version: int = LAYOUT_VERSION
    archive_id: str
    kbroker_version: str
    created_ms: int


def read_archive(path: str, file_system: FileSystem | None = None) -> ArchiveState:
    """Read the archive in a directory; PipelineError if there is none. Nothing is written."""
    disk = file_system or RealFileSystem()
    mark = read_mark(path, disk)
    if mark is None:
        raise PipelineError(
            f"{path} is not an archive: it has no {MARK_NAME} "
            "(`kbroker pipeline archive --to DIR` creates one)",
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
    """Return the mark of an archive; None if the directory is not an archive."""
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
    """Read one manifest; PipelineError with one sentence if it cannot be read."""
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
    return f"{path}/{MANIFESTS}/{number:020d}.json"


def snapshot_path(path: str, number: int) -> str:
    return f"{path}/{MANIFESTS}/{number:020d}.snapshot.json"


def _newest_snapshot(path: str, archive_id: str, disk: FileSystem) -> ArchiveState:
    for number in reversed(_numbers(path, disk, is_snapshot=True)):
        snapshot = _read_snapshot(path, number, disk)
        if snapshot is not None and (snapshot.archive_id, snapshot.number) == (archive_id, number):
            return ArchiveState.restored(path, snapshot)
    return ArchiveState(path=path, archive_id=archive_id)


def _read_snapshot(path: str, number: int, disk: FileSystem) -> Snapshot | None:
    try:
        content = unseal(disk.read_bytes(snapshot_path(path, number)))
        snapshot = msgspec.json.decode(content, type=Snapshot)
        check_paths([*(entry.path for entry in snapshot.files), *snapshot.waiting])
        check_topics(snapshot.files, snapshot.ranges)
        check_partitions(snapshot.files, snapshot.ranges, snapshot.partition_counts)
        check_offsets(snapshot.ranges, snapshot.leader_epochs)
    except (ManifestError, msgspec.DecodeError, StorageError):
        return None  # the manifests say the same, only slower
    return snapshot


def _numbers(path: str, disk: FileSystem, *, is_snapshot: bool) -> list[int]:
    """Return the numbers of the manifests, or of the snapshots, in order."""
    directory = f"{path}/{MANIFESTS}"
    try:
        names = disk.list(directory) if disk.exists(directory) else []
    except StorageError as error:
        raise PipelineError(f"the archive cannot be read: {error}") from error
    found = []
    for name in names:
        matched = NAME_PATTERN.fullmatch(name)
        if matched is None:
            if name.startswith("."):
                continue  # what a network file system keeps of an open file
            raise PipelineError(
                f"{directory}/{name} is not a manifest of an archive: nothing else may be there"
            )
        if (matched[2] is not None) == is_snapshot:
            found.append(int(matched[1]))
    return sorted(found)
