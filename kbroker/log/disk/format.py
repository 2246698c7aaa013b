"""Names and layouts of everything Kafka keeps in a log directory, each said once.

    <log dir>/.lock  meta.properties  .kafka_cleanshutdown
              recovery-point-offset-checkpoint  replication-offset-checkpoint
              log-start-offset-checkpoint  cleaner-offset-checkpoint
              kbroker-gapless-offset-checkpoint                 not Kafka's: see gapless_offsets
              kbroker-boot-id                                   not Kafka's: see machine_memory
              <topic>-<partition>/                              a partition
              <topic>-<partition>.<uuid>-delete/                waiting for removal
              <topic>-<partition>.<uuid>-stray/                 not this broker's any more, kept
              <topic>-<partition>.<uuid>-future/                being moved to this disk
              <topic>-<partition>.<uuid>-replaced/              not Kafka's: the -future one of this
                                                                uuid is taking its place
    <partition>/partition.metadata  leader-epoch-checkpoint
                <base offset, 20 digits>.log .index .timeindex .txnindex .snapshot
                <segment file>.deleted  .cleaned  .swap         going; being cleaned; to replace

    offset index entry    int32 offset - base offset, int32 position of the batch in the .log file
    time index entry      int64 timestamp, int32 offset - base offset
    transaction index     int16 version (0), int64 producer id, first offset, last offset,
                          last stable offset

All numbers are big-endian.
"""

from __future__ import annotations

from struct import Struct
from typing import Final
from uuid import UUID

from kbroker.model import TopicPartition

LOG_SUFFIX: Final = ".log"
OFFSET_INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TRANSACTION_INDEX_SUFFIX: Final = ".txnindex"
INDEX_SUFFIXES: Final = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)
PRODUCER_SNAPSHOT_SUFFIX: Final = ".snapshot"
DELETED_SUFFIX: Final = ".deleted"
CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"

DELETE_DIRECTORY_SUFFIX: Final = "-delete"
FUTURE_DIRECTORY_SUFFIX: Final = "-future"
STRAY_DIRECTORY_SUFFIX: Final = "-stray"
REPLACED_DIRECTORY_SUFFIX: Final = "-replaced"
MOVED_DIRECTORY_SUFFIXES: Final = (
    DELETE_DIRECTORY_SUFFIX,
    FUTURE_DIRECTORY_SUFFIX,
    STRAY_DIRECTORY_SUFFIX,
    REPLACED_DIRECTORY_SUFFIX,
)

LEADER_EPOCH_CHECKPOINT_FILE: Final = "leader-epoch-checkpoint"
PARTITION_METADATA_FILE: Final = "partition.metadata"
META_PROPERTIES_FILE: Final = "meta.properties"
LOCK_FILE: Final = ".lock"
CLEAN_SHUTDOWN_FILE: Final = ".kafka_cleanshutdown"
RECOVERY_POINT_CHECKPOINT_FILE: Final = "recovery-point-offset-checkpoint"
REPLICATION_OFFSET_CHECKPOINT_FILE: Final = "replication-offset-checkpoint"
LOG_START_OFFSET_CHECKPOINT_FILE: Final = "log-start-offset-checkpoint"
CLEANER_OFFSET_CHECKPOINT_FILE: Final = "cleaner-offset-checkpoint"
GAPLESS_OFFSET_CHECKPOINT_FILE: Final = "kbroker-gapless-offset-checkpoint"
BOOT_ID_FILE: Final = "kbroker-boot-id"

OFFSET_INDEX_ENTRY: Final = Struct(">ii")
TIME_INDEX_ENTRY: Final = Struct(">qi")
TRANSACTION_INDEX_ENTRY: Final = Struct(">hqqqq")
TRANSACTION_INDEX_VERSION: Final = 0
MAX_OFFSET: Final = 2**63 - 1
MAX_RELATIVE_OFFSET: Final = 2**31 - 1  # a segment ends where offset - base offset leaves int32

_OFFSET_DIGITS: Final = 20
_MAX_DIRECTORY_NAME: Final = 255


def file_name(offset: int, suffix: str) -> str:
    """`00000000000000000042.log` for offset 42 and suffix `.log`."""
    return f"{offset:020d}{suffix}"


def log_file(directory: str, base_offset: int) -> str:
    return f"{directory}/{file_name(base_offset, LOG_SUFFIX)}"


def offset_of(name: str) -> int | None:
    """The offset a segment file or snapshot is named after; None for any other file."""
    digits, dot, _ = name.partition(".")
    if len(digits) != _OFFSET_DIGITS or not dot or not (digits.isascii() and digits.isdigit()):
        return None
    return int(digits)


def log_directory_name(topic_partition: TopicPartition) -> str:
    """The directory of a partition: `orders-0`."""
    return str(topic_partition)


def delete_directory_name(topic_partition: TopicPartition, unique: UUID) -> str:
    """Name for a partition that is to be removed: `orders-0.0af3...-delete`. The topic is shortened
    so that the name stays within what file systems allow.
    """
    suffix = f"-{topic_partition.partition}.{unique.hex}{DELETE_DIRECTORY_SUFFIX}"
    return topic_partition.topic[: _MAX_DIRECTORY_NAME - len(suffix)] + suffix


def future_directory_name(topic_partition: TopicPartition, unique: UUID) -> str:
    """Name for a copy of a partition that is growing on another disk: `orders-0.0af3...-future`."""
    return f"{topic_partition}.{unique.hex}{FUTURE_DIRECTORY_SUFFIX}"


def replaced_directory_name(topic_partition: TopicPartition, future_name: str) -> str:
    """Name for a partition whose copy, in a directory of `future_name`, is about to take its name:
    `orders-0.0af3...-replaced`.
    """
    return f"{topic_partition}.{unique_part(future_name)}{REPLACED_DIRECTORY_SUFFIX}"


def unique_part(name: str) -> str:
    """The 32 hex digits in the name of a directory that is moved."""
    return name.rpartition(".")[2].partition("-")[0]


def stray_directory_name(topic_partition: TopicPartition, unique: UUID) -> str:
    """Name for a partition that is not this broker's: `orders-0.0af3...-stray`."""
    suffix = f"-{topic_partition.partition}.{unique.hex}{STRAY_DIRECTORY_SUFFIX}"
    return topic_partition.topic[: _MAX_DIRECTORY_NAME - len(suffix)] + suffix


def is_moved_directory(name: str) -> bool:
    """True for directories on their way out or in: -delete, -future, -stray, -replaced."""
    return name.endswith(MOVED_DIRECTORY_SUFFIXES)


def parse_directory_name(name: str) -> TopicPartition | None:
    """The partition a directory holds, also for those on their way out or in; None for any other
    directory.

    Topics may hold dots and dashes: the partition is what follows the last dash of the part
    in front of `.<32 hex digits>-<suffix>`.
    """
    if is_moved_directory(name):
        name, dot, unique = name.rpartition(".")
        if not dot or not _is_hex(unique.partition("-")[0]):
            return None
    topic, dash, partition = name.rpartition("-")
    if not topic or not dash or not (partition.isascii() and partition.isdigit()):
        return None
    return TopicPartition(topic, int(partition))


def _is_hex(text: str) -> bool:
    return len(text) == 32 and all(character in "0123456789abcdef" for character in text)
