"""Clears what an interrupted change of a partition directory has left: `.deleted`, `.cleaned` and
`.swap`.

Law: a change that got far enough is finished, any other is undone, so that a log has either its old
segments or its new ones. `.deleted` and `.cleaned` files are removed, a `.swap` file replaces what
it was made from.
"""

from __future__ import annotations

from collections.abc import Callable

from kbroker.log.disk.file_system import FileSystem
from kbroker.log.disk.format import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    SWAP_SUFFIX,
    offset_of,
)
from kbroker.log.segments.log_segment import LogSegment

# The segment of a base offset and a suffix.
SegmentOf = Callable[[int, str], LogSegment]


def clear(file_system: FileSystem, directory: str, segment: SegmentOf) -> list[str]:
    """Finish or undo what was going on; the names in the directory afterwards."""
    names = file_system.list(directory)
    leftovers = [
        name for name in names if name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX))
    ]
    if not leftovers:
        return names
    cleaned = [offset_of(name) or 0 for name in leftovers if name.endswith(CLEANED_SUFFIX)]
    # A split writes several .cleaned files and renames them from the last to the first: a .swap at
    # or above a .cleaned one belongs to a split that did not get far enough, and its source is
    # still there.
    unfinished = min(cleaned, default=None)
    for name in leftovers:
        is_swap = name.endswith(SWAP_SUFFIX)
        if not is_swap or (unfinished is not None and (offset_of(name) or 0) >= unfinished):
            file_system.unlink(f"{directory}/{name}")
    _finish_swaps(file_system, directory, segment)
    return file_system.list(directory)


def _finish_swaps(file_system: FileSystem, directory: str, segment: SegmentOf) -> None:
    names = file_system.list(directory)
    swaps = [name for name in names if name.endswith(SWAP_SUFFIX)]
    data_files = [name for name in swaps if name.endswith(LOG_SUFFIX + SWAP_SUFFIX)]
    for name in data_files:
        for source in sources_of(name, names, segment):
            file_system.unlink(f"{directory}/{source}")
    if data_files:
        # No source may come back once the segment in its place has its final name.
        file_system.sync_directory(directory)
    taken = {offset_of(name) for name in data_files}
    for name in swaps:
        path = f"{directory}/{name}"
        if offset_of(name) in taken:
            file_system.rename(path, path.removesuffix(SWAP_SUFFIX))
        else:  # the index of a segment that has its final name, or was never there
            file_system.unlink(path)


def sources_of(swap_name: str, names: list[str], segment: SegmentOf) -> list[str]:
    """Files of the segments whose records the segment in `swap_name` holds."""
    base_offset = offset_of(swap_name)
    assert base_offset is not None, swap_name
    end_offset = segment(base_offset, SWAP_SUFFIX).next_offset
    return [
        name
        for name in names
        if (offset := offset_of(name)) is not None
        and name.endswith((LOG_SUFFIX, *INDEX_SUFFIXES))
        and (base_offset <= offset < end_offset or offset == base_offset)
    ]
