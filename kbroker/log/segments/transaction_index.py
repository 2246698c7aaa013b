"""The aborted transactions of a segment, in the order they ended; readers of committed data skip
them (KIP-98).

Entry: int16 version, int64 producer id, first offset, last offset, last stable offset at that time.
The file exists only if a transaction was aborted.
"""

from __future__ import annotations

from contextlib import closing
from typing import NamedTuple

from kbroker.log.disk.file_system import FileSystem, StorageError
from kbroker.log.disk.format import TRANSACTION_INDEX_ENTRY, TRANSACTION_INDEX_VERSION
from kbroker.log.segments.index_file import CorruptIndexError
from kbroker.log.segments.segment_part import SegmentPart


class AbortedTxn(NamedTuple):
    """An aborted transaction; its last offset is that of the marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex(SegmentPart):
    """The `.txnindex` file of a segment. Loaded whole at first use; owned by the event loop, except
    `sync`.
    """

    __slots__ = ("_entries", "_found", "_written", "base_offset")

    def __init__(self, file_system: FileSystem, path: str, base_offset: int) -> None:
        super().__init__(file_system, path)
        self.base_offset = base_offset
        self._entries: list[AbortedTxn] | None = None
        self._written = 0  # so many of them are in the file
        self._found = b""  # what the file held at `reset`, until `trim`

    @property
    def entries(self) -> list[AbortedTxn]:
        """All entries. StorageError; CorruptIndexError for a version or size that cannot be."""
        if self._entries is None:
            self._entries = self._load()
            self._written = len(self._entries)
        return self._entries

    def append(self, aborted: AbortedTxn) -> None:
        """Add a transaction that ends after all noted ones; written at once, or with the next
        one if the disk is full.
        """
        entries = self.entries
        assert not entries or aborted.last_offset > entries[-1].last_offset, (aborted, entries[-1])
        entries.append(aborted)
        try:
            self.write_out()
        except StorageError as error:
            if not error.is_passing:
                raise

    def write_out(self) -> None:
        """Bring the entries that are only in memory into the file; no fsync."""
        entries = self._entries
        if entries is None or len(entries) == self._written:
            return
        pack = TRANSACTION_INDEX_ENTRY.pack
        data = [pack(TRANSACTION_INDEX_VERSION, *entry) for entry in entries[self._written :]]
        position = self._written * TRANSACTION_INDEX_ENTRY.size
        if not self._found or not self._found.startswith(b"".join(data), position):
            with closing(self._file_system.open(self.path, create=True)) as file:
                file.pwrite(b"".join(data), position)
        self._written = len(entries)

    def collect(self, fetch_offset: int, upper_bound_offset: int) -> tuple[list[AbortedTxn], bool]:
        """Transactions in [fetch offset, upper bound); True when no later segment has any. Two
        entries in a row have to say so: the file has no checksum.
        """
        found = []
        was_beyond = False
        for aborted in self.entries:
            if aborted.last_offset >= fetch_offset and aborted.first_offset < upper_bound_offset:
                found.append(aborted)
            is_beyond = aborted.last_stable_offset >= upper_bound_offset
            if is_beyond and was_beyond:
                return found, True
            was_beyond = is_beyond
        return found, False

    def truncate_to(self, offset: int) -> None:
        """Drop transactions that ended at `offset` or after it."""
        kept = [aborted for aborted in self.entries if aborted.last_offset < offset]
        if len(kept) < len(self.entries):
            self._written = min(self._written, len(kept))
            self._file_system.truncate(self.path, self._written * TRANSACTION_INDEX_ENTRY.size)
            self._entries = kept

    def reset(self) -> None:
        """Drop all entries, whatever the file holds, to append them again and `trim`. What comes
        out as it was is not written: a power loss cannot take it.
        """
        if self._file_system.exists(self.path):
            self._found = self._file_system.read_bytes(self.path)
        self._entries = []
        self._written = 0

    def trim(self) -> None:
        """Cut off what the file held beyond the entries that were appended since `reset`."""
        size = self._written * TRANSACTION_INDEX_ENTRY.size
        if len(self._found) > size:
            self._file_system.truncate(self.path, size)
        self._found = b""

    def sanity_check(self) -> None:
        """CorruptIndexError if an entry cannot be, or the file is cut."""
        last_offset = self.base_offset - 1
        for aborted in self.entries:
            if not (
                0 <= aborted.first_offset <= aborted.last_offset
                and last_offset < aborted.last_offset
                and 0 <= aborted.last_stable_offset <= aborted.last_offset + 1
                and aborted.producer_id >= 0
            ):
                raise CorruptIndexError(
                    f"{self.path}: {aborted} cannot follow a transaction that ended at "
                    f"{last_offset}"
                )
            last_offset = aborted.last_offset

    def _load(self) -> list[AbortedTxn]:
        if not self._file_system.exists(self.path):
            return []
        data = self._file_system.read_bytes(self.path)
        if len(data) % TRANSACTION_INDEX_ENTRY.size:
            raise CorruptIndexError(f"{self.path}: {len(data)} bytes end inside an entry")
        entries = []
        for version, *fields in TRANSACTION_INDEX_ENTRY.iter_unpack(data):
            if version != TRANSACTION_INDEX_VERSION:
                raise CorruptIndexError(f"{self.path}: entry of unknown version {version}")
            entries.append(AbortedTxn(*fields))
        return entries
