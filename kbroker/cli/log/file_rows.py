"""Rows for `kbroker log dump` out of the small files of a log: indexes, snapshots, checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from kbroker.inspection.data_directory import CHECKPOINT_FILES
from kbroker.inspection.index_check import used_entries
from kbroker.log.disk.checkpoint import (
    CheckpointError,
    read_leader_epochs,
    read_meta_properties,
    read_offset_checkpoint,
    read_partition_metadata,
)
from kbroker.log.disk.file_system import FileSystem
from kbroker.log.disk.format import (
    LEADER_EPOCH_CHECKPOINT_FILE,
    META_PROPERTIES_FILE,
    OFFSET_INDEX_ENTRY,
    OFFSET_INDEX_SUFFIX,
    PARTITION_METADATA_FILE,
    PRODUCER_SNAPSHOT_SUFFIX,
    TIME_INDEX_ENTRY,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    offset_of,
)
from kbroker.log.producers.producer_snapshot import SnapshotError, decode_snapshot
from kbroker.log.segments.index_file import CorruptIndexError
from kbroker.log.segments.transaction_index import TransactionIndex
from kbroker.wording import uuid_text

Rows = Iterator[dict[str, Any]]


class FileKind(NamedTuple):
    """A kind of file: the columns of its rows, and the function that reads them."""

    columns: Sequence[str]
    read: Callable[[FileSystem, str], Rows]


def kind_of(name: str) -> FileKind | None:
    """Return the kind of the file of this name; None if it is not known here."""
    if name in CHECKPOINT_FILES:
        return FileKind(("topic", "partition", "offset"), _offset_checkpoint)
    if name in _NAMED:
        return _NAMED[name]
    if offset_of(name) is None:
        return None
    return _SUFFIXED.get(f".{name.rpartition('.')[2]}")


class UnreadableFileError(Exception):
    """A file whose contents do not fit its name; the message says why."""


def _offset_index(file_system: FileSystem, path: str) -> Rows:
    base_offset = _base_offset(path)
    data = file_system.read_written(path)
    used = used_entries(data, OFFSET_INDEX_ENTRY) * OFFSET_INDEX_ENTRY.size
    for relative_offset, position in OFFSET_INDEX_ENTRY.iter_unpack(data[:used]):
        yield {"offset": base_offset + relative_offset, "position": position}


def _time_index(file_system: FileSystem, path: str) -> Rows:
    base_offset = _base_offset(path)
    data = file_system.read_written(path)
    used = used_entries(data, TIME_INDEX_ENTRY) * TIME_INDEX_ENTRY.size
    for timestamp, relative_offset in TIME_INDEX_ENTRY.iter_unpack(data[:used]):
        yield {"timestamp_ms": timestamp, "offset": base_offset + relative_offset}


def _transaction_index(file_system: FileSystem, path: str) -> Rows:
    try:
        for entry in TransactionIndex(file_system, path, _base_offset(path)).entries:
            yield entry._asdict()
    except CorruptIndexError as error:
        raise UnreadableFileError(str(error)) from error


def _snapshot(file_system: FileSystem, path: str) -> Rows:
    try:
        entries = decode_snapshot(file_system.read_bytes(path))
    except SnapshotError as error:
        raise UnreadableFileError(f"{path}: {error}") from error
    for entry in entries:
        last = entry.batches[-1] if entry.batches else None
        yield {
            "producer_id": entry.producer_id,
            "producer_epoch": entry.producer_epoch,
            "first_sequence": last.first_sequence if last else None,
            "last_sequence": last.last_sequence if last else None,
            "first_offset": last.first_offset if last else None,
            "last_offset": last.last_offset if last else None,
            "timestamp_ms": entry.last_timestamp,
            "coordinator_epoch": entry.coordinator_epoch,
            "current_txn_first_offset": entry.current_txn_first_offset,
        }


def _offset_checkpoint(file_system: FileSystem, path: str) -> Rows:
    with_errors = _checked(lambda: read_offset_checkpoint(file_system, path))
    for (topic, partition), offset in with_errors.items():
        yield {"topic": topic, "partition": partition, "offset": offset}


def _leader_epochs(file_system: FileSystem, path: str) -> Rows:
    for entry in _checked(lambda: read_leader_epochs(file_system, _directory(path))):
        yield {"epoch": entry.epoch, "start_offset": entry.start_offset}


def _partition_metadata(file_system: FileSystem, path: str) -> Rows:
    topic_id = _checked(lambda: read_partition_metadata(file_system, _directory(path)))
    if topic_id is not None:
        yield {"topic_id": uuid_text(topic_id), "uuid": str(topic_id)}


def _meta_properties(file_system: FileSystem, path: str) -> Rows:
    meta = _checked(lambda: read_meta_properties(file_system, _directory(path)))
    if meta is not None:
        yield meta._asdict()


def _checked(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except CheckpointError as error:
        raise UnreadableFileError(str(error)) from error


def _directory(path: str) -> str:
    return path.rpartition("/")[0] or "."


def _base_offset(path: str) -> int:
    offset = offset_of(path.rpartition("/")[2])
    assert offset is not None, path
    return offset


_NAMED = {
    LEADER_EPOCH_CHECKPOINT_FILE: FileKind(("epoch", "start_offset"), _leader_epochs),
    PARTITION_METADATA_FILE: FileKind(("topic_id", "uuid"), _partition_metadata),
    META_PROPERTIES_FILE: FileKind(
        ("version", "cluster_id", "broker_id", "directory_id"), _meta_properties
    ),
}
_SUFFIXED = {
    OFFSET_INDEX_SUFFIX: FileKind(("offset", "position"), _offset_index),
    TIME_INDEX_SUFFIX: FileKind(("timestamp_ms", "offset"), _time_index),
    TRANSACTION_INDEX_SUFFIX: FileKind(
        ("producer_id", "first_offset", "last_offset", "last_stable_offset"), _transaction_index
    ),
    PRODUCER_SNAPSHOT_SUFFIX: FileKind(
        (
            "producer_id",
            "producer_epoch",
            "first_sequence",
            "last_sequence",
            "first_offset",
            "last_offset",
            "timestamp_ms",
            "coordinator_epoch",
            "current_txn_first_offset",
        ),
        _snapshot,
    ),
}
