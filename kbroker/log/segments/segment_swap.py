"""A cleaned segment takes the place of the segments it was made from, safe against a crash between
any two steps.

The steps, each on the disk before the next one begins: the whole `.cleaned` files become `.swap`,
the sources become `.deleted`, the `.swap` files get their final names. A start finds `.cleaned` and
drops it, or a `.swap` data file and finishes what was begun; a data file is renamed last, so that
its `.swap` says how far it came.

Law: the log changes at once, in `take_over`, and only while it still has all sources, so that a
reader sees either the old segments or the new one. A swap that is overtaken by retention or
truncation leaves nothing behind. Owned by the event loop; between the steps the caller syncs
`directory`, on any thread.
"""

from __future__ import annotations

from typing import Protocol

from kbroker.log.disk.file_system import FileSystem
from kbroker.log.disk.format import CLEANED_SUFFIX, SWAP_SUFFIX
from kbroker.log.segments.log_segment import LogSegment
from kbroker.log.segments.log_segments import LogSegments


class SwappedStore(Protocol):
    """The store of a log, which a swap changes; it begins swaps and so cannot be imported."""

    directory: str
    segments: LogSegments
    swaps: list[SegmentSwap]

    def replace(
        self, sources: list[LogSegment], cleaned: LogSegment, remove_at_ms: int
    ) -> None: ...


class SegmentSwap:
    """One replacement under way."""

    def __init__(
        self,
        file_system: FileSystem,
        store: SwappedStore,
        sources: list[LogSegment],
        cleaned: LogSegment,
    ) -> None:
        self._file_system = file_system
        self._store = store
        self._sources = sources
        self._cleaned = cleaned

    @property
    def directory(self) -> str:
        return self._store.directory

    def stage(self) -> bool:
        """`.cleaned` to `.swap`; False if sources are gone, and `.cleaned` with them. After a
        StorageError it is to be cancelled.
        """
        if not self._has_sources():
            self._cleaned.delete()
            return False
        self._store.swaps.append(self)
        self._rename(CLEANED_SUFFIX, SWAP_SUFFIX)
        return True

    def take_over(self, remove_at_ms: int) -> bool:
        """Change the log, and rename the sources away; False if it was cancelled meanwhile."""
        if self not in self._store.swaps:
            return False
        self._store.swaps.remove(self)
        assert self._has_sources(), self._cleaned.path_stem
        self._store.replace(self._sources, self._cleaned, remove_at_ms)
        return True

    def finish(self) -> None:
        """`.swap` to the final names, unless the segment is gone meanwhile."""
        if any(segment is self._cleaned for segment in self._store.segments):
            self._rename(SWAP_SUFFIX, "")

    def cancel(self) -> None:
        """The sources are about to go: a start must not bring them back."""
        self._store.swaps.remove(self)
        self._cleaned.delete()

    def _has_sources(self) -> bool:
        segments = set(self._store.segments)
        return all(source in segments for source in self._sources)

    def _rename(self, old: str, new: str) -> None:
        cleaned = self._cleaned
        indexes = (cleaned.transaction_index, cleaned.time_index, cleaned.offset_index)
        for part in (*indexes, cleaned.records):
            target = part.path.removesuffix(old) + new
            if self._file_system.exists(part.path):
                self._file_system.rename(part.path, target)
            part.renamed(target)
