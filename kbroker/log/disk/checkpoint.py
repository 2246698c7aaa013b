"""The small text files of a log directory: offset checkpoints, leader epochs, partition and broker
identity.

Law: a file is replaced whole, by writing beside it and renaming, so a reader finds the old or the
new content. Text and file differ only in `write_atomically` and the `read_*` functions; everything
else here is text in, values out.

    checkpoint     version "0", entry count, then one entry per line; fields separated by one space
    offsets        topic partition offset   (recovery-point-, replication-, log-start-, cleaner-)
    leader epochs  epoch start-offset
"""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeVar
from uuid import UUID

from kbroker.log.disk.file_system import FileSystem, StorageError
from kbroker.log.disk.format import (
    BOOT_ID_FILE,
    CLEAN_SHUTDOWN_FILE,
    LEADER_EPOCH_CHECKPOINT_FILE,
    META_PROPERTIES_FILE,
    PARTITION_METADATA_FILE,
)
from kbroker.model import UNKNOWN_BROKER_EPOCH, TopicPartition
from kbroker.wording import uuid_text

CHECKPOINT_VERSION = 0
_COUNT_DIGITS_MAX = 10
PARTITION_METADATA_VERSION = 0

_T = TypeVar("_T")


class LogCut(NamedTuple):
    """The offsets of a log once it is cut."""

    end_offset: int
    start_offset: int  # beyond its end: stands until all of it is gone
    safe_offset: int  # up to here it is on the disk as it will be


class EpochEntry(NamedTuple):
    """`epoch` wrote the log from `start_offset` on."""

    epoch: int
    start_offset: int


class CheckpointError(Exception):
    """A file here does not hold what it should; the message names file and line."""


class MetaProperties(NamedTuple):
    """The owner of a log directory: version 0 of ZooKeeper (broker.id), 1 of KRaft (node.id)."""

    version: int
    cluster_id: str | None
    broker_id: int | None
    directory_id: str | None = None


def write_atomically(
    file_system: FileSystem, path: str, content: str, *, sync: bool = True
) -> None:
    """Replace `path`. With `sync` the new content survives a power loss once this returns."""
    temporary = path + ".tmp"
    try:
        file_system.write_bytes(temporary, content.encode(), sync=sync)
    except StorageError as error:
        if error.is_out_of_space:
            file_system.unlink(temporary)  # the old file stays, and half a new one takes no room
        raise
    file_system.rename(temporary, path)
    if sync:
        file_system.sync_directory(path.rpartition("/")[0] or ".")


def read_offset_checkpoint(file_system: FileSystem, path: str) -> dict[TopicPartition, int]:
    """The offsets in a checkpoint file; empty when there is none. Raises CheckpointError."""
    return dict(_read_entries(file_system, path, _parse_offset))


def write_offset_checkpoint(
    file_system: FileSystem, path: str, offsets: Mapping[TopicPartition, int]
) -> None:
    """Replace a checkpoint file, durably."""
    lines = [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
    write_atomically(file_system, path, format_checkpoint(lines))


def read_leader_epochs(file_system: FileSystem, directory: str) -> list[EpochEntry]:
    """The leader epochs of a partition; empty when there is no file. Raises CheckpointError."""
    path = f"{directory}/{LEADER_EPOCH_CHECKPOINT_FILE}"
    return _read_entries(file_system, path, _parse_epoch)


def write_leader_epochs(
    file_system: FileSystem, directory: str, entries: Iterable[EpochEntry]
) -> None:
    """Replace a partition's leader epochs, not waiting for the disk: recovery finds them again."""
    lines = [f"{epoch} {start_offset}" for epoch, start_offset in entries]
    path = f"{directory}/{LEADER_EPOCH_CHECKPOINT_FILE}"
    write_atomically(file_system, path, format_checkpoint(lines), sync=False)


class EpochFile:
    """Where a log keeps its leader epochs."""

    __slots__ = ("_directory", "_file_system")

    def __init__(self, file_system: FileSystem, directory: str) -> None:
        self._file_system = file_system
        self._directory = directory

    def __call__(self, entries: list[EpochEntry]) -> None:
        write_leader_epochs(self._file_system, self._directory, entries)


def read_partition_metadata(file_system: FileSystem, directory: str) -> UUID | None:
    """The topic id of a partition; None when there is no file. Raises CheckpointError."""
    path = f"{directory}/{PARTITION_METADATA_FILE}"
    if not file_system.exists(path):
        return None
    lines = _read_text(file_system, path).splitlines()
    try:
        version = int(lines[0].removeprefix("version: "))
        topic_id = parse_uuid(lines[1].removeprefix("topic_id: "))
    except (IndexError, ValueError) as error:
        raise CheckpointError(f"Malformed partition metadata file {path}: {lines}") from error
    if version != PARTITION_METADATA_VERSION:
        raise CheckpointError(f"Unknown version {version} of partition metadata file {path}")
    return topic_id


def write_partition_metadata(file_system: FileSystem, directory: str, topic_id: UUID) -> None:
    """Write a partition's topic id once; no fsync, as the directory is new as well."""
    text = f"version: {PARTITION_METADATA_VERSION}\ntopic_id: {uuid_text(topic_id)}"
    path = f"{directory}/{PARTITION_METADATA_FILE}"
    write_atomically(file_system, path, text, sync=False)


def read_meta_properties(file_system: FileSystem, log_dir: str) -> MetaProperties | None:
    """The owner of a log directory; None if nobody has used it. Raises CheckpointError."""
    path = f"{log_dir}/{META_PROPERTIES_FILE}"
    if not file_system.exists(path):
        return None
    pairs = dict(
        _split_property(line)
        for line in _read_text(file_system, path).splitlines()
        if line.strip() and not line.lstrip().startswith(("#", "!"))
    )
    version = _number(pairs, "version", path)
    if version is None:
        raise CheckpointError(f"Malformed {path}: it has no line 'version=0'")
    if version not in (0, 1):
        raise CheckpointError(
            f"Unknown version {version} in {path}, where 0 and 1 are known: did a newer Kafka "
            "write it?"
        )
    broker_id = _number(pairs, "node.id" if version == 1 else "broker.id", path)
    return MetaProperties(version, pairs.get("cluster.id"), broker_id, pairs.get("directory.id"))


def _number(pairs: Mapping[str, str], name: str, path: str) -> int | None:
    """A property, None if it is not there. Raises CheckpointError."""
    value = pairs.get(name)
    try:
        return int(value) if value is not None else None
    except ValueError as error:
        raise CheckpointError(f"Malformed {path}: {name} is '{value}', not a number") from error


def write_meta_properties(
    file_system: FileSystem, log_dir: str, meta: MetaProperties, now_ms: int
) -> None:
    """Write whose log directory this is, durably, in the form Java's properties files have."""
    pairs = {
        "node.id" if meta.version == 1 else "broker.id": meta.broker_id,
        "directory.id": meta.directory_id,
        "version": meta.version,
        "cluster.id": meta.cluster_id,
    }
    lines = [f"{name}={value}\n" for name, value in pairs.items() if value is not None]
    written = time.strftime("%a %b %d %H:%M:%S UTC %Y", time.gmtime(now_ms / 1000))
    text = f"#\n#{written}\n{''.join(lines)}"
    write_atomically(file_system, f"{log_dir}/{META_PROPERTIES_FILE}", text)


def read_clean_shutdown(file_system: FileSystem, log_dir: str) -> bool:
    """True when the last broker here stopped cleanly. Older brokers leave an empty file."""
    return file_system.exists(f"{log_dir}/{CLEAN_SHUTDOWN_FILE}")


def write_clean_shutdown(
    file_system: FileSystem, log_dir: str, broker_epoch: int = UNKNOWN_BROKER_EPOCH
) -> None:
    """Say that every log of this directory is whole on disk."""
    text = f'{{"version":0,"brokerEpoch":{broker_epoch}}}'
    write_atomically(file_system, f"{log_dir}/{CLEAN_SHUTDOWN_FILE}", text)


def remove_clean_shutdown(file_system: FileSystem, log_dir: str) -> None:
    """Take the word back, durably: called before the first write."""
    if file_system.unlink(f"{log_dir}/{CLEAN_SHUTDOWN_FILE}"):
        file_system.sync_directory(log_dir)


def read_boot_id(file_system: FileSystem, log_dir: str) -> str | None:
    """The run of the machine in which a broker wrote here last; None if that is not noted."""
    path = f"{log_dir}/{BOOT_ID_FILE}"
    if not file_system.exists(path):
        return None
    try:
        return _read_text(file_system, path).strip()
    except CheckpointError:
        return None


def write_boot_id(file_system: FileSystem, log_dir: str, boot_id: str) -> None:
    """Note the run of the machine; another one cannot see it by half, so it needs no sync."""
    write_atomically(file_system, f"{log_dir}/{BOOT_ID_FILE}", f"{boot_id}\n", sync=False)


def format_checkpoint(lines: list[str]) -> str:
    """The text of a checkpoint file with these entries."""
    return "\n".join((str(CHECKPOINT_VERSION), str(len(lines)), *lines)) + "\n"


def parse_checkpoint(text: str, path: str) -> list[list[str]]:
    """The fields of each entry. A file of no bytes has no entries. Raises CheckpointError."""
    if not text:
        return []
    if not text.endswith("\n"):
        raise CheckpointError(f"The checkpoint file {path} ends inside a line: it was cut short")
    lines = text.splitlines()
    if lines[0].strip() != str(CHECKPOINT_VERSION):
        raise CheckpointError(
            f"Unrecognized version of the checkpoint file {path}: {lines[0]!r}, "
            f"expected {CHECKPOINT_VERSION}"
        )
    count = "".join(lines[1:2]).strip()
    if not (count.isascii() and count.isdecimal()) or len(count) > _COUNT_DIGITS_MAX:
        raise CheckpointError(f"Malformed entry count in checkpoint file {path}: {lines[1:2]}")
    expected = int(count)
    entries = [line.split() for line in lines[2:]]
    if len(entries) != expected:
        raise CheckpointError(
            f"Expected {expected} entries in checkpoint file {path}, found {len(entries)}"
        )
    return entries


def parse_uuid(text: str) -> UUID:
    """The reverse of `uuid_text`. Raises ValueError."""
    try:
        return UUID(bytes=base64.b64decode(text + "==", altchars=b"-_", validate=True))
    except binascii.Error as error:
        raise ValueError(f"not a topic id: {text!r}") from error


def _read_entries(file_system: FileSystem, path: str, parse: Callable[[list[str]], _T]) -> list[_T]:
    if not file_system.exists(path):
        return []
    entries = []
    for fields in parse_checkpoint(_read_text(file_system, path), path):
        try:
            entries.append(parse(fields))
        except ValueError as error:
            raise CheckpointError(
                f"Malformed line in checkpoint file {path}: {' '.join(fields)!r}"
            ) from error
    return entries


def _parse_offset(fields: list[str]) -> tuple[TopicPartition, int]:
    topic, partition, offset = fields
    return TopicPartition(topic, int(partition)), int(offset)


def _parse_epoch(fields: list[str]) -> EpochEntry:
    epoch, start_offset = fields
    return EpochEntry(int(epoch), int(start_offset))


def _read_text(file_system: FileSystem, path: str) -> str:
    try:
        return file_system.read_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path} is not text") from error


def _split_property(line: str) -> tuple[str, str]:
    name, _, value = line.partition("=")
    return name.strip(), value.strip()
