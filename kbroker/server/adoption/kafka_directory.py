"""Finds what another Kafka broker left in a data directory: looked at, never touched.

Law: nothing is written, renamed, locked or created here, so that a look leaves no trace. A
directory counts as a partition when its name is one and it holds a file of a log; everything else
is foreign.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from kbroker.admin.topic_validation import validate_topic_name
from kbroker.errors import KafkaError
from kbroker.log.disk.checkpoint import (
    CheckpointError,
    MetaProperties,
    read_clean_shutdown,
    read_leader_epochs,
    read_meta_properties,
    read_partition_metadata,
)
from kbroker.log.disk.file_system import FileSystem
from kbroker.log.disk.format import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_OFFSET_CHECKPOINT_FILE,
    LEADER_EPOCH_CHECKPOINT_FILE,
    LOCK_FILE,
    LOG_START_OFFSET_CHECKPOINT_FILE,
    LOG_SUFFIX,
    META_PROPERTIES_FILE,
    PARTITION_METADATA_FILE,
    RECOVERY_POINT_CHECKPOINT_FILE,
    REPLICATION_OFFSET_CHECKPOINT_FILE,
    is_moved_directory,
    offset_of,
    parse_directory_name,
)
from kbroker.model import NO_PARTITION_LEADER_EPOCH, TopicPartition
from kbroker.record.legacy_record import is_intact, read_any_header
from kbroker.server.adoption.kraft_metadata import METADATA_DIRECTORY
from kbroker.server.metadata_tree.tree_files import TREE_FILES

_OWN_FILES = frozenset(
    {
        CLEANER_OFFSET_CHECKPOINT_FILE,
        CLEAN_SHUTDOWN_FILE,
        LOCK_FILE,
        LOG_START_OFFSET_CHECKPOINT_FILE,
        META_PROPERTIES_FILE,
        RECOVERY_POINT_CHECKPOINT_FILE,
        REPLICATION_OFFSET_CHECKPOINT_FILE,
        *TREE_FILES,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPartition:
    """A partition directory; `topic_id` is None if no file has it."""

    topic_partition: TopicPartition
    path: str
    topic_id: UUID | None = None
    leader_epoch: int = NO_PARTITION_LEADER_EPOCH  # highest one known to its files
    problem: str | None = None  # why it cannot be taken over


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundDirectory:
    """A data directory; names are without their path."""

    path: str
    meta: MetaProperties | None = None
    is_clean: bool = True
    partitions: tuple[FoundPartition, ...] = ()
    moved: tuple[str, ...] = ()  # directories named -delete, -future or -stray
    has_kraft_metadata: bool = False
    foreign: tuple[str, ...] = ()


def look_at(file_system: FileSystem, path: str) -> FoundDirectory:
    """Describe the contents of a data directory; nothing for one that does not exist.

    Raises StorageError and CheckpointError (meta.properties).
    """
    if not file_system.is_directory(path):
        return FoundDirectory(path=path)
    is_clean = read_clean_shutdown(file_system, path)
    partitions: list[FoundPartition] = []
    moved: list[str] = []
    foreign: list[str] = []
    names = file_system.list(path)
    for name in names:
        if name in _OWN_FILES or name.endswith(".tmp"):
            continue
        if not file_system.is_directory(f"{path}/{name}"):
            foreign.append(name)
        elif is_moved_directory(name) and parse_directory_name(name) is not None:
            moved.append(name)
        elif (found := _look_at_partition(file_system, path, name, is_clean)) is not None:
            partitions.append(found)
        elif name != METADATA_DIRECTORY:
            foreign.append(name)
    return FoundDirectory(
        path=path,
        meta=read_meta_properties(file_system, path),
        is_clean=is_clean,
        partitions=tuple(partitions),
        moved=tuple(moved),
        has_kraft_metadata=METADATA_DIRECTORY in names,
        foreign=tuple(foreign),
    )


def _look_at_partition(
    file_system: FileSystem, path: str, name: str, is_clean: bool
) -> FoundPartition | None:
    topic_partition = parse_directory_name(name)
    if name == METADATA_DIRECTORY or topic_partition is None or not _is_topic(topic_partition):
        return None
    directory = f"{path}/{name}"
    files = file_system.list(directory)
    if not any(_is_log_file(file) for file in files):
        return None
    topic_id, problem = None, None
    try:
        topic_id = read_partition_metadata(file_system, directory)
    except CheckpointError as error:
        # A power loss spoils a file that was new; the topic's other partitions may know the id.
        problem = str(error) if is_clean else None
    return FoundPartition(
        topic_partition=topic_partition,
        path=directory,
        topic_id=topic_id,
        leader_epoch=_leader_epoch(file_system, directory, files, is_clean),
        problem=problem,
    )


def _is_topic(topic_partition: TopicPartition) -> bool:
    try:
        validate_topic_name(topic_partition.topic)
    except KafkaError:
        return False
    return topic_partition.partition < 2**31


def _is_log_file(name: str) -> bool:
    return (
        name in (PARTITION_METADATA_FILE, LEADER_EPOCH_CHECKPOINT_FILE)
        or offset_of(name) is not None
    )


def _leader_epoch(
    file_system: FileSystem, directory: str, files: Iterable[str], is_clean: bool
) -> int:
    """Return the highest leader epoch, from the checkpoint, and from the last batches if that file
    is missing, broken or, after an unclean stop, perhaps behind.
    """
    known = NO_PARTITION_LEADER_EPOCH
    is_certain = is_clean and LEADER_EPOCH_CHECKPOINT_FILE in files
    try:
        known = max((e.epoch for e in read_leader_epochs(file_system, directory)), default=known)
    except CheckpointError:
        is_certain = False
    if is_certain:
        return known
    segments = sorted(
        (name for name in files if name.endswith(LOG_SUFFIX) and offset_of(name) is not None),
        reverse=True,
    )
    # The newest segment may have been rolled or preallocated and hold nothing yet.
    newest = [_last_batch_epoch(file_system, f"{directory}/{name}") for name in segments[:2]]
    return max(known, *newest, NO_PARTITION_LEADER_EPOCH)


def _last_batch_epoch(file_system: FileSystem, path: str) -> int:
    """The highest leader epoch in a segment, up to its first batch that is not intact."""
    highest = NO_PARTITION_LEADER_EPOCH
    with file_system.map(path) as data:
        position = 0
        while position < len(data):
            try:
                header = read_any_header(data, position)
                if not is_intact(header, data, position):
                    break
            except KafkaError:
                break
            highest = max(highest, header.partition_leader_epoch)
            position += header.size_bytes
    return highest
