"""Rebuilds the indexes of a segment that the next start would not look into: one below the recovery
point, or of a log that was stopped cleanly.

Law: such indexes are trusted at the next start, so a power loss during the rebuild must not leave
ones that look right and are not. They are made beside their places and renamed when they are on
the disk; the offset index comes last, and without it the rebuild starts over.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeVar

from kbroker.log.disk.file_system import FileSystem, StorageError
from kbroker.log.disk.format import (
    CLEANED_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    file_name,
)
from kbroker.log.segments.index_file import CorruptIndexError
from kbroker.log.segments.log_segment import LogSegment, OnBatch

_T = TypeVar("_T")


def index_fault(segment: LogSegment, names: Collection[str]) -> str | None:
    """Return what is wrong with a segment's indexes; `names` are those in its directory."""
    for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX):
        if file_name(segment.base_offset, suffix) not in names:
            return f"{segment.path_stem}{suffix} is missing"
    try:
        segment.sanity_check()
    except (CorruptIndexError, StorageError) as error:
        return str(error)
    return None


def rebuild_beside(
    segment: LogSegment, file_system: FileSystem, rebuild: Callable[[LogSegment], _T]
) -> _T:
    """Call `rebuild`, which writes the indexes again, and put them in place. Returns what `rebuild`
    does.
    """
    directory = segment.path_stem.rpartition("/")[0]
    places = []
    for index in segment.parts[1:]:
        file_system.unlink(index.path)
        places.append((index, index.path))
        index.renamed(index.path + CLEANED_SUFFIX)  # what a start that finds it removes
    file_system.sync_directory(directory)
    outcome = rebuild(segment)
    for index, _ in places:
        if file_system.exists(index.path):
            file_system.sync(index.path)
    offset_index = segment.offset_index
    for index, place in sorted(places, key=lambda entry: entry[0] is offset_index):
        if index is offset_index:
            file_system.sync_directory(directory)
        if file_system.exists(index.path):
            file_system.rename(index.path, place)
        index.renamed(place)
        index.share_stem(segment.path_stem)
    file_system.sync_directory(directory)
    return outcome


def index_sound_batches(segment: LogSegment, end_offset: int, on_batch: OnBatch) -> None:
    """Rebuild as `LogSegment.recover` for a segment that was on the disk for good, with offsets
    below `end_offset`: nothing is cut. `on_batch` sees its intact batches.
    """
    for index in segment.parts[1:]:
        index.reset()
    segment.distrust(end_offset)
    segment.salvage()
    for position, header in segment.sound_headers():
        on_batch(header, memoryview(segment.records.read(position, header.size_bytes)))
    for index in segment.parts[1:]:
        index.trim()
