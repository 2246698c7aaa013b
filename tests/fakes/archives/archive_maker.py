"""Archives in memory, step by step: files of a few bytes that stand for Parquet."""

from __future__ import annotations

from typing import Any

import msgspec

from kbroker.pipeline.archiving.manifests.archive_disk import ArchiveDisk
from kbroker.pipeline.archiving.manifests.archive_reading import read_archive
from kbroker.pipeline.archiving.manifests.archive_state import ArchiveState
from kbroker.pipeline.archiving.manifests.archive_writer import (
    ArchiveStep,
    ArchiveWriter,
    StagedFile,
)
from kbroker.pipeline.archiving.manifests.manifest import (
    FileEntry,
    HoleEntry,
    RangeEntry,
    checksum_of,
    file_name,
    file_path,
)
from tests.fakes.disks.archive_disk import RecordingArchiveDisk

PATH = "/archive"
JOB = "job-a"
HOUR = "2026-11-21T13"
HOUR_START_MS = 1_795_266_000_000
NOW_MS = 1_795_300_000_000


def file_entry(first: int, last: int, **fields: Any) -> FileEntry:
    """A file of every offset from first to last, unless told otherwise."""
    values: dict[str, Any] = {
        "topic": "t",
        "partition": 0,
        "hour": HOUR,
        "first_offset": first,
        "last_offset": last,
        "rows": last - first + 1,
        "size_bytes": 0,
        "min_timestamp_ms": HOUR_START_MS,
        "max_timestamp_ms": HOUR_START_MS + 59_000,
        "checksum": "crc32c:00000000",
    } | fields
    name = file_name(values["topic"], values["partition"], first, last)
    path = file_path(values.get("kind", "data"), values["topic"], values["hour"], name)
    return FileEntry(path=path, **values)


def offsets(start: int, end: int, *, topic: str = "t", partition: int = 0) -> RangeEntry:
    return RangeEntry(topic=topic, partition=partition, start_offset=start, end_offset=end)


def hole(first: int, last: int, reason: str = "compaction", **fields: Any) -> HoleEntry:
    values: dict[str, Any] = {"topic": "t", "partition": 0, "missing": last - first + 1} | fields
    return HoleEntry(first_offset=first, last_offset=last, reason=reason, **values)


def writer(disk: ArchiveDisk, job: str = JOB, now_ms: int = NOW_MS) -> ArchiveWriter:
    return ArchiveWriter(PATH, job, disk, lambda: now_ms)


def stage(disk: ArchiveDisk, directory: str, entry: FileEntry) -> StagedFile:
    """A synced file in the staging directory, as a task leaves it."""
    content = f"{entry.path} {entry.rows}".encode()
    path = f"{directory}/{entry.first_offset}-{entry.partition}.parquet"
    disk.write_bytes(path, content, sync=True)
    sized = msgspec.structs.replace(entry, size_bytes=len(content), checksum=checksum_of(content))
    return StagedFile(path, sized)


def publish_batch(
    hand: ArchiveWriter,
    disk: ArchiveDisk,
    batch: int,
    *,
    ranges: tuple[RangeEntry, ...],
    entries: tuple[FileEntry, ...] | None = None,
) -> None:
    """A batch of one file for each range, unless told otherwise; nothing when it is done."""
    if hand.is_done(batch, ranges):
        return
    directory = hand.staging_directory(batch)
    chosen = (
        entries
        if entries is not None
        else tuple(
            file_entry(
                each.start_offset, each.end_offset - 1, topic=each.topic, partition=each.partition
            )
            for each in ranges
        )
    )
    staged = tuple(stage(disk, directory, entry) for entry in chosen)
    hand.publish(ArchiveStep(kind="batch", batch=batch, ranges=ranges, files=staged))


def two_batches(disk: ArchiveDisk) -> ArchiveState:
    """A run of a job: whatever of its two batches is not there yet."""
    with writer(disk) as hand:
        publish_batch(hand, disk, 0, ranges=(offsets(0, 10), offsets(0, 4, partition=1)))
        publish_batch(hand, disk, 1, ranges=(offsets(10, 25),))
    return read_archive(PATH, disk)


def files_below(disk: RecordingArchiveDisk, folder: str) -> list[str]:
    """Names of all files of the archive below a folder."""
    return [path.removeprefix(f"{PATH}/") for path, _ in disk.files(f"{PATH}/{folder}")]
