"""Finds the partitions that another Kafka broker left in a data directory, and touches none.

Law: nothing is written, renamed, locked or created here, so that a look leaves no trace. A
directory counts as a partition if its name is one and it holds a file of a log; everything else is
foreign.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from uuid import UUID

from kbroker.admin.topic_validation import validate_topic_name
from kbroker.errors import KafkaError
from kbroker.inspection.data_directory import DataDirectory, is_broker_file, read_data_directory
from kbroker.inspection.partition_files import PartitionFiles, sort_files
from kbroker.inspection.segment_scan import SegmentScan
from kbroker.log.disk.checkpoint import (
    CheckpointError,
    MetaProperties,
    read_leader_epochs,
    read_partition_metadata,
)
from kbroker.log.disk.file_system import FileSystem
from kbroker.log.disk.format import (
    LEADER_EPOCH_CHECKPOINT_FILE,
    META_PROPERTIES_FILE,
    log_file,
    parse_directory_name,
)
from kbroker.model import NO_PARTITION_LEADER_EPOCH, TopicPartition
from kbroker.server.adoption.kraft_metadata import METADATA_DIRECTORY


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


def look_at_directory(file_system: FileSystem, path: str) -> FoundDirectory:
    """Describe the contents of a data directory; nothing for one that does not exist.

    Raises StorageError and CheckpointError (meta.properties).
    """
    if not file_system.is_directory(path):
        return FoundDirectory(path=path)
    home = read_data_directory(file_system, path)
    if META_PROPERTIES_FILE in home.errors:
        raise home.errors[META_PROPERTIES_FILE]
    names = home.partitions.keys() - {METADATA_DIRECTORY}
    found = {name: _look_at_partition(file_system, home, name) for name in sorted(names)}
    moved = tuple(name for name in home.moved if parse_directory_name(name) is not None)
    foreign = [
        *(name for name in found if found[name] is None),
        *(name for name in home.moved if name not in moved),
        *(name for name in home.others if not is_broker_file(name)),
    ]
    return FoundDirectory(
        path=path,
        meta=home.meta,
        is_clean=home.was_clean,
        partitions=tuple(partition for partition in found.values() if partition is not None),
        moved=moved,
        has_kraft_metadata=METADATA_DIRECTORY in home.partitions,
        foreign=tuple(sorted(foreign)),
    )


def _look_at_partition(
    file_system: FileSystem, home: DataDirectory, name: str
) -> FoundPartition | None:
    topic_partition = home.partitions[name]
    if not _is_topic(topic_partition):
        return None
    directory = f"{home.path}/{name}"
    files = sort_files(file_system.list(directory))
    if not files.names.difference(files.foreign, files.temporary):
        return None
    topic_id, problem = None, None
    try:
        topic_id = read_partition_metadata(file_system, directory)
    except CheckpointError as error:
        # A power loss spoils a file that was new; the topic's other partitions may know the id.
        problem = str(error) if home.was_clean else None
    return FoundPartition(
        topic_partition=topic_partition,
        path=directory,
        topic_id=topic_id,
        leader_epoch=_leader_epoch(file_system, directory, files, is_clean=home.was_clean),
        problem=problem,
    )


def _is_topic(topic_partition: TopicPartition) -> bool:
    try:
        validate_topic_name(topic_partition.topic)
    except KafkaError:
        return False
    return topic_partition.partition < 2**31


def _leader_epoch(
    file_system: FileSystem, directory: str, files: PartitionFiles, *, is_clean: bool
) -> int:
    """Return the highest leader epoch, from the checkpoint, and from the last batches if that file
    is missing, broken or, after an unclean stop, perhaps behind.
    """
    known = NO_PARTITION_LEADER_EPOCH
    is_certain = is_clean and LEADER_EPOCH_CHECKPOINT_FILE in files.names
    try:
        known = max((e.epoch for e in read_leader_epochs(file_system, directory)), default=known)
    except CheckpointError:
        is_certain = False
    if not is_certain:
        # The newest segment may have been rolled or preallocated and hold nothing yet.
        for base_offset in files.base_offsets[-2:]:
            scan = SegmentScan(file_system, log_file(directory, base_offset), checks_crc=True)
            intact = takewhile(lambda batch: batch.is_intact, scan.batches())
            known = max([known, *(batch.header.partition_leader_epoch for batch in intact)])
    return known
