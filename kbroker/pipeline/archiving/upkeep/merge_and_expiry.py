"""Merges and expires the files of a whole archive. Without Spark."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from kbroker.client.wall_clock import unix_now_ms
from kbroker.pipeline.archiving.manifests.archive_reading import read_archive
from kbroker.pipeline.archiving.manifests.archive_writer import (
    ArchiveStep,
    ArchiveWriter,
)
from kbroker.pipeline.archiving.manifests.manifest import FileEntry
from kbroker.pipeline.archiving.tasks.hours import hour_name
from kbroker.pipeline.archiving.upkeep.file_merge import merge_files
from kbroker.pipeline.archiving.upkeep.upkeep_plan import expired_files, expiry_holes, merge_groups

GRACE_MS: Final = 3_600_000  # how long readers may still use files that left the archive
_JOB: Final = "upkeep"  # one at a time
_HOUR_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True)
class MergeReport:
    """The outcome of a merge."""

    files_before: int
    files_after: int
    deleted: int  # files of earlier runs


def merge_small_files(
    path: str,
    topics: Collection[str],
    older_than_ms: int,
    target_bytes: int,
    now_ms: Callable[[], int] = unix_now_ms,
) -> MergeReport:
    """Merge hours that ended `older_than_ms` ago; raises PipelineError."""
    read_archive(path)  # else a directory that is not an archive would become one
    with ArchiveWriter(path, _JOB, now_ms=now_ms) as writer:
        deleted = writer.delete_removed(GRACE_MS)
        before = hour_name((now_ms() - older_than_ms) // _HOUR_MS)
        groups = merge_groups(writer.state.files.values(), target_bytes, before, topics)
        for group in groups:
            merge_files(writer, group)
    return MergeReport(sum(len(group) for group in groups), len(groups), deleted)


def expire_files(
    path: str,
    keep_ms: int,
    topics: Collection[str],
    *,
    is_dry_run: bool = False,
    now_ms: Callable[[], int] = unix_now_ms,
) -> list[FileEntry]:
    """Remove files whose records are all older than `keep_ms` from the archive; a later run deletes
    them. Return them; raises PipelineError.
    """
    gone = expired_files(read_archive(path).files.values(), now_ms() - keep_ms, topics)
    if is_dry_run:
        return gone
    with ArchiveWriter(path, _JOB, now_ms=now_ms) as writer:
        writer.delete_removed(GRACE_MS)
        if gone:
            writer.publish(
                ArchiveStep(
                    kind="expire",
                    batch=writer.next_batch(),
                    holes=expiry_holes(gone),
                    removed=tuple(entry.path for entry in gone),
                )
            )
    return gone
