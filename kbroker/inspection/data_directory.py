"""A data directory (an entry of log.dirs) as its names and its checkpoint files show it, for those
who only look: inspection, the pipeline's source, and adoption.

Law: a file that cannot be read is an error that is kept, not raised: the other files still have
something to say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kbroker.log.disk.checkpoint import (
    CheckpointError,
    MetaProperties,
    read_meta_properties,
    read_offset_checkpoint,
)
from kbroker.log.disk.file_system import FileSystem, StorageError
from kbroker.log.disk.format import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_OFFSET_CHECKPOINT_FILE,
    GAPLESS_OFFSET_CHECKPOINT_FILE,
    LOCK_FILE,
    LOG_START_OFFSET_CHECKPOINT_FILE,
    META_PROPERTIES_FILE,
    RECOVERY_POINT_CHECKPOINT_FILE,
    REPLICATION_OFFSET_CHECKPOINT_FILE,
    is_moved_directory,
    parse_directory_name,
)
from kbroker.model import TopicPartition

CHECKPOINT_FILES = (
    RECOVERY_POINT_CHECKPOINT_FILE,
    REPLICATION_OFFSET_CHECKPOINT_FILE,
    LOG_START_OFFSET_CHECKPOINT_FILE,
    CLEANER_OFFSET_CHECKPOINT_FILE,
    GAPLESS_OFFSET_CHECKPOINT_FILE,
)
TEMPORARY_SUFFIX = ".tmp"  # of a file that is being written, or whose writing was cut off
_BROKER_FILES = frozenset({LOCK_FILE, META_PROPERTIES_FILE, CLEAN_SHUTDOWN_FILE, *CHECKPOINT_FILES})
_OWN_PREFIX = "kbroker-"  # the tree of a broker without ZooKeeper, and notes of recovery


@dataclass(frozen=True, slots=True)
class PartitionView:
    """The checkpoints' word on one partition; None if they have none."""

    was_clean: bool = False
    recovery_point: int | None = None
    high_watermark: int | None = None
    log_start_offset: int | None = None
    cleaner_offset: int | None = None
    gapless_from: int | None = None

    @property
    def gaps_up_to(self) -> int | None:
        """Gaps prove no loss up to this offset (`LogDirectory.gapless_from`); None: anywhere."""
        if self.was_clean or self.gapless_from is None:
            return None
        return max(self.gapless_from, self.cleaner_offset or 0)

    def is_cut_before(self, base_offset: int) -> bool:
        """True if the next start takes a gap before the segment at `base_offset` for records
        that a power loss took.
        """
        gaps_up_to = self.gaps_up_to
        return gaps_up_to is not None and base_offset > max(gaps_up_to, self.recovery_point or 0)

    def is_recovered(self, next_base_offset: int | None) -> bool:
        """True if the next start reads the whole of a segment, and mends it: the one with the
        recovery point and all after it. None: no segment follows.
        """
        if self.was_clean:
            return False
        return next_base_offset is None or next_base_offset > (self.recovery_point or 0)


@dataclass(frozen=True, slots=True)
class PartitionDirectory:
    """A directory with the segments of one partition, and the checkpoints' word on it."""

    path: str
    topic_partition: TopicPartition
    view: PartitionView = PartitionView()

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def data_directory(self) -> str:
        return self.path.rpartition("/")[0] or "/"


@dataclass(slots=True)
class DataDirectory:
    """The contents of a data directory; names are sorted."""

    path: str
    was_clean: bool = False
    meta: MetaProperties | None = None
    offsets: dict[str, Mapping[TopicPartition, int]] = field(default_factory=dict)  # by file
    partitions: dict[str, TopicPartition] = field(default_factory=dict)  # by directory name
    moved: list[str] = field(default_factory=list)  # directories: -delete, -future, ...
    others: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)  # checkpoint files of no bytes
    errors: dict[str, CheckpointError | StorageError] = field(default_factory=dict)  # by file

    @property
    def is_used(self) -> bool:
        return bool(self.partitions or self.moved or self.meta or self.offsets)

    def directories(self) -> list[PartitionDirectory]:
        """Return the partitions in the order of their names, but for moved ones."""
        return [self.directory(name) for name in self.partitions]

    def directory(self, name: str) -> PartitionDirectory:
        """Return the partition in the directory of that name, which may be a moved one."""
        topic_partition = parse_directory_name(name)
        assert topic_partition is not None, name
        path = f"{self.path.rstrip('/')}/{name}"
        return PartitionDirectory(path, topic_partition, self.of(topic_partition))

    def of(self, topic_partition: TopicPartition) -> PartitionView:
        """Return the word of all checkpoints on a partition."""
        found = [self.offsets.get(file, {}).get(topic_partition) for file in CHECKPOINT_FILES]
        return PartitionView(self.was_clean, *found)  # in the order of its fields


def read_data_directory(file_system: FileSystem, path: str) -> DataDirectory:
    """List a data directory and read its checkpoint files. Raises StorageError if it cannot be
    listed.
    """
    found = DataDirectory(path)
    names = file_system.list(path)
    for name in names:
        is_directory = file_system.is_directory(f"{path}/{name}")
        if is_directory and is_moved_directory(name):
            found.moved.append(name)
        elif is_directory and (topic_partition := parse_directory_name(name)) is not None:
            found.partitions[name] = topic_partition
        else:
            found.others.append(name)
    found.was_clean = CLEAN_SHUTDOWN_FILE in names
    try:
        found.meta = read_meta_properties(file_system, path)
    except (CheckpointError, StorageError) as error:
        found.errors[META_PROPERTIES_FILE] = error
    for file in CHECKPOINT_FILES:
        if file in names:
            _read_offsets(file_system, found, file)
    return found


def _read_offsets(file_system: FileSystem, found: DataDirectory, file: str) -> None:
    path = f"{found.path}/{file}"
    try:
        found.offsets[file] = read_offset_checkpoint(file_system, path)
        if not file_system.size(path):
            found.empty.append(file)
    except (CheckpointError, StorageError) as error:
        found.offsets.setdefault(file, {})
        found.errors[file] = error


def directory_around(file_system: FileSystem, path: str) -> DataDirectory:
    """The data directory that a partition directory at `path` lies in. Raises StorageError."""
    home, slash, _ = path.rpartition("/")
    return read_data_directory(file_system, home or slash or ".")


def partition_directory(file_system: FileSystem, path: str) -> PartitionDirectory:
    """The partition at a path, with the word of its data directory. Raises StorageError."""
    return directory_around(file_system, path).directory(path.rpartition("/")[2])


def is_broker_file(name: str) -> bool:
    """True for a file that a broker keeps in a data directory, also for one half written."""
    return name in _BROKER_FILES or name.startswith(_OWN_PREFIX) or name.endswith(TEMPORARY_SUFFIX)
