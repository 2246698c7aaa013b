"""The files of one segment: batches, the indexes beside them, and what is done with all alike.

Law: the files share a name, that of the first offset, and differ in their suffixes, as Kafka names
them. While a segment takes appends its files have room after their content; closing gives them
their final size. `sync` may run on a worker thread, everything else belongs to the event loop.
"""

from __future__ import annotations

from dataclasses import dataclass

from kbroker.log.disk.file_system import FileSystem, StorageError
from kbroker.log.disk.format import (
    DELETED_SUFFIX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    file_name,
)
from kbroker.log.segments.file_records import FileRecords
from kbroker.log.segments.index_file import CorruptIndexError
from kbroker.log.segments.offset_index import OffsetIndex
from kbroker.log.segments.time_index import TimeIndex
from kbroker.log.segments.transaction_index import TransactionIndex


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class SegmentConfig:
    """The topic settings a segment needs when it is made."""

    index_interval_bytes: int = 4096
    segment_index_bytes: int = 10 * 1024 * 1024
    segment_bytes: int = 1024 * 1024 * 1024
    preallocate: bool = False


class SegmentFiles:
    """Data file, offset index, time index and transaction index. `config` may be replaced; index
    sizes stay what they were.
    """

    __slots__ = (
        "_file_system",
        "_indexed_before",
        "base_offset",
        "config",
        "offset_index",
        "path_stem",
        "records",
        "time_index",
        "transaction_index",
    )

    def __init__(
        self,
        file_system: FileSystem,
        directory: str,
        base_offset: int,
        config: SegmentConfig,
        *,
        suffix: str = "",
    ) -> None:
        """Open the files, or the place where they will be; `suffix` is .cleaned or .swap, usually
        none.
        """
        self.base_offset = base_offset
        self.config = config
        self._file_system = file_system
        stem = f"{directory}/{file_name(base_offset, '')}"
        self.path_stem = stem
        self.records = FileRecords(file_system, stem + LOG_SUFFIX + suffix)
        index_bytes = config.segment_index_bytes
        self.offset_index = OffsetIndex(
            file_system, stem + OFFSET_INDEX_SUFFIX + suffix, base_offset, index_bytes
        )
        self.time_index = TimeIndex(
            file_system, stem + TIME_INDEX_SUFFIX + suffix, base_offset, index_bytes
        )
        self.transaction_index = TransactionIndex(
            file_system, stem + TRANSACTION_INDEX_SUFFIX + suffix, base_offset
        )
        for part in self.parts:
            part.share_stem(stem)
        self._indexed_before = -1  # the newest offset in indexes that were replaced since

    @property
    def parts(self) -> tuple[FileRecords, OffsetIndex, TimeIndex, TransactionIndex]:
        return self.records, self.offset_index, self.time_index, self.transaction_index

    @property
    def size_bytes(self) -> int:
        return self.records.size_bytes

    @property
    def last_indexed_offset(self) -> int:
        """The newest offset that the indexes name, or named when they were found; -1 if they
        name none, or cannot be read.
        """
        try:
            timestamp, in_time = self.time_index.last_entry
            entries, in_offsets = self.offset_index.entry_count, self.offset_index.last_offset
        except (CorruptIndexError, StorageError):
            return self._indexed_before
        return max(
            self._indexed_before, in_time if timestamp >= 0 else -1, in_offsets if entries else -1
        )

    def remember_indexed_offset(self) -> None:
        """Call this before the indexes are made again: they may know of records that are lost."""
        self._indexed_before = self.last_indexed_offset

    def use(self, config: SegmentConfig) -> None:
        """Go by these settings from the next append on."""
        self.config = config

    def activate(self) -> None:
        """Make the files, in the sizes they have while the segment is appended to."""
        if self.config.preallocate and not self.size_bytes:
            self.records.preallocate(self.config.segment_bytes)
        else:
            self.records.create()
        self.offset_index.preallocate()
        self.time_index.preallocate()

    def trim(self) -> None:
        """Give all files that were used their final size."""
        self.offset_index.close()
        self.time_index.close()
        self.transaction_index.write_out()
        self.records.trim()

    def sanity_check(self) -> None:
        """CorruptIndexError or StorageError if an index is missing or cannot be right."""
        self.offset_index.sanity_check()
        self.time_index.sanity_check()
        self.transaction_index.sanity_check()

    def write_out_indexes(self) -> None:
        """Bring new index entries into their files; before `sync`, on the event loop."""
        self.offset_index.write_out()
        self.time_index.write_out()

    def sync(self) -> None:
        """Bring all files to the disk as they are; may run on a worker thread."""
        self.records.sync()
        self.offset_index.sync()
        self.time_index.sync()
        self.transaction_index.sync()

    def flush(self) -> None:
        """Everything appended is on the disk when this returns."""
        self.write_out_indexes()
        self.sync()

    def move(self, old_directory: str, new_directory: str) -> None:
        """Follow a rename of the directory; descriptors must have been given back."""
        self.path_stem = new_directory + self.path_stem.removeprefix(old_directory)
        for part in self.parts:
            part.renamed(new_directory + part.path.removeprefix(old_directory))

    def mark_deleted(self) -> None:
        """Rename the files to `.deleted`: gone for the log, still there for slices."""
        for part in self.parts:  # an earlier attempt may have renamed some of them
            target = part.path.removesuffix(DELETED_SUFFIX) + DELETED_SUFFIX
            if target != part.path and self._file_system.exists(part.path):
                self._file_system.rename(part.path, target)
            part.renamed(target)

    def delete(self) -> None:
        """Remove all files of the segment."""
        for part in self.parts:
            part.delete()
