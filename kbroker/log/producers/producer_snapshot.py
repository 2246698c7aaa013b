"""Snapshot files of the producer state: `<offset>.snapshot` holds all producers of the log up to
that offset.

Law: a snapshot is written whole and synced; a broken one is deleted and the one before it is used,
because the log itself can replay the rest.

    int16 version (1), uint32 CRC-32C of all that follows, int32 count, then per producer:
    int64 producer id, int16 epoch, int32 last sequence, int64 last offset,
    int32 offset delta of the last batch, int64 timestamp, int32 coordinator epoch,
    int64 first offset of the open transaction (-1: none)
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from struct import Struct

from fastcrc.crc32 import iscsi as crc32c

from kbroker.log.disk.file_system import FileSystem, StorageError
from kbroker.log.disk.format import PRODUCER_SNAPSHOT_SUFFIX, file_name, offset_of
from kbroker.log.producers.producer_state import MAX_SEQUENCE, BatchMetadata, ProducerStateEntry
from kbroker.model import NO_SEQUENCE

SNAPSHOT_VERSION = 1

_HEADER = Struct(">hI")
_COUNT = Struct(">i")
_ENTRY = Struct(">qhiqiqiq")

_log = logging.getLogger(__name__)


class SnapshotError(Exception):
    """A snapshot file that cannot be trusted."""


def encode_rows(entries: Iterable[ProducerStateEntry]) -> bytes:
    """The part of a snapshot file that is about these producers."""
    return b"".join([_encode_entry(entry) for entry in entries])


def encode_snapshot(count: int, rows: Iterable[bytes]) -> bytes:
    """The bytes of a snapshot file of this many producers."""
    body = b"".join((_COUNT.pack(count), *rows))
    return _HEADER.pack(SNAPSHOT_VERSION, crc32c(body)) + body


def decode_snapshot(data: bytes) -> list[ProducerStateEntry]:
    """The producers in a snapshot file. Raises SnapshotError."""
    if len(data) < _HEADER.size + _COUNT.size:
        raise SnapshotError(f"only {len(data)} bytes")
    version, crc = _HEADER.unpack_from(data)
    if version != SNAPSHOT_VERSION:
        raise SnapshotError(f"unknown version {version}")
    if crc != crc32c(data[_HEADER.size :]):
        raise SnapshotError("wrong CRC")
    (count,) = _COUNT.unpack_from(data, _HEADER.size)
    rows = data[_HEADER.size + _COUNT.size :]
    if count < 0 or len(rows) != count * _ENTRY.size:
        raise SnapshotError(f"{count} entries announced in {len(rows)} bytes")
    return [_decode_entry(*fields) for fields in _ENTRY.iter_unpack(rows)]


class ProducerSnapshots:
    """The snapshot files of one partition directory. Owned by its log; keeps no list in memory."""

    __slots__ = ("_file_system", "directory")

    def __init__(self, file_system: FileSystem, directory: str) -> None:
        self._file_system = file_system
        self.directory = directory

    def move_to(self, directory: str) -> None:
        """Follow a rename of the directory."""
        self.directory = directory

    def offsets(self) -> list[int]:
        return snapshot_offsets(self._file_system.list(self.directory))

    def write(self, offset: int, entries: Collection[ProducerStateEntry]) -> str:
        """Write the snapshot for `offset`, replacing one that is there; its path. A power loss may
        spoil it; recovery then replays the log from the one before.
        """
        return self.write_rows(offset, len(entries), [encode_rows(entries)])

    def write_rows(self, offset: int, count: int, rows: Iterable[bytes]) -> str:
        """The same, of so many producers that are encoded."""
        path = self._path(offset)
        try:
            self._file_system.write_bytes(path, encode_snapshot(count, rows), sync=False)
        except StorageError as error:
            if error.is_out_of_space:
                self.delete(offset)  # half of one helps nobody
            raise
        return path

    def read_latest(
        self, offsets: Collection[int], lowest: int, highest: int
    ) -> tuple[int, list[ProducerStateEntry]] | None:
        """The newest intact snapshot out of `offsets` within `lowest` to `highest` (inclusive).
        Broken ones on the way are deleted.
        """
        for offset in sorted(offsets, reverse=True):
            if not lowest <= offset <= highest:
                continue
            try:
                return offset, decode_snapshot(self._file_system.read_bytes(self._path(offset)))
            except SnapshotError as error:
                _log.warning("Deleting broken producer snapshot %s: %s", self._path(offset), error)
                self.delete(offset)
        return None

    def delete(self, offset: int) -> None:
        self._file_system.unlink(self._path(offset))

    def delete_outside(self, lowest: int, highest: int) -> None:
        """Remove snapshots below `lowest` or above `highest`."""
        for offset in self.offsets():
            if not lowest <= offset <= highest:
                self.delete(offset)

    def _path(self, offset: int) -> str:
        return f"{self.directory}/{file_name(offset, PRODUCER_SNAPSHOT_SUFFIX)}"


def snapshot_offsets(names: Iterable[str]) -> list[int]:
    """Offsets of the snapshots among the file names of a directory, ascending."""
    found = (offset_of(name) for name in names if name.endswith(PRODUCER_SNAPSHOT_SUFFIX))
    return sorted(offset for offset in found if offset is not None)


def _encode_entry(entry: ProducerStateEntry) -> bytes:
    last = entry.batches[-1] if entry.batches else None
    first_offset = entry.current_txn_first_offset
    return _ENTRY.pack(
        entry.producer_id,
        entry.producer_epoch,
        last.last_sequence if last else NO_SEQUENCE,
        last.last_offset if last else -1,
        last.last_offset - last.first_offset if last else 0,
        entry.last_timestamp,
        entry.coordinator_epoch,
        -1 if first_offset is None else first_offset,
    )


def _decode_entry(  # noqa: PLR0913, PLR0917 - the fields of one entry, in file order
    producer_id: int,
    producer_epoch: int,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp: int,
    coordinator_epoch: int,
    txn_first_offset: int,
) -> ProducerStateEntry:
    entry = ProducerStateEntry(producer_id, producer_epoch)
    entry.coordinator_epoch = coordinator_epoch
    entry.last_timestamp = timestamp
    entry.current_txn_first_offset = txn_first_offset if txn_first_offset >= 0 else None
    if last_offset >= 0:
        first_sequence = (last_sequence - offset_delta) & MAX_SEQUENCE
        entry.batches.append(
            BatchMetadata(
                first_sequence, last_sequence, last_offset - offset_delta, last_offset, timestamp
            )
        )
    return entry
