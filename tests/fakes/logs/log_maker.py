"""Small logs in a temporary directory, and the batches to fill them with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kbroker.config.log_config import LogConfig
from kbroker.config.topic_config import TopicConfig
from kbroker.log.directories.log_directories import LogDirectories
from kbroker.log.disk.file_system import RealFileSystem
from kbroker.log.manager.log_manager import LogManager
from kbroker.log.partition.log import Log
from kbroker.log.partition.log_state import LogEnvironment
from kbroker.log.recovery.load_request import LoadRequest
from kbroker.log.recovery.log_loader import load_log
from kbroker.model import TopicPartition
from kbroker.record.legacy_record import any_records, read_any_header
from kbroker.record.record_batch import BatchOptions, Record, build

NOW_MS = 1_700_000_000_000
PARTITION = TopicPartition("t", 0)


class FixedClock:
    """A clock that stands still."""

    def now_ms(self) -> int:
        return NOW_MS

    def monotonic_ms(self) -> float:
        return 0.0


def open_log(
    directory: Path,
    *,
    was_clean: bool = True,
    recovery_point: int = 0,
    start: int = 0,
    gapless_from: int | None = None,
    **settings: Any,
) -> Log:
    """Open a log, or make one; `settings` are topic settings."""
    directory.mkdir(exist_ok=True)
    walks = bool(settings.pop("walks_records", True))
    request = LoadRequest(
        topic_partition=PARTITION,
        directory=str(directory),
        config=TopicConfig(**settings),
        now_ms=NOW_MS,
        recovery_point=recovery_point,
        log_start_offset=start,
        gapless_from=gapless_from,
        was_clean=was_clean,
    )
    environment = LogEnvironment(file_system=RealFileSystem(), walks_records=walks)
    return load_log(request, environment)


def manager(*directories: Path, required: Path | None = None, **settings: Any) -> LogManager:
    """A manager over data directories, which are locked; its logs are not loaded yet."""
    return LogManager(
        LogDirectories.lock(
            RealFileSystem(),
            [str(directory) for directory in directories],
            None if required is None else str(required),
        ),
        LogConfig,
        lambda _: TopicConfig(**settings),
        RealFileSystem(),
        FixedClock(),
    )


def delete_old_segments(log: Log, now_ms: int) -> int:
    """Let go what retention lets go; how many segments."""
    if not log.expire_segments(now_ms):
        return 0
    count = len(log.expired_segments())
    renaming = log.let_go_of_expired(count, now_ms)
    renaming.rename()
    renaming.finish()
    return count


def remove_deleted_files(log: Log, now_ms: int) -> int:
    """Remove the files whose delay is over; of how many segments."""
    paths = log.files.take_due(now_ms, log.config.file_delete_delay_ms)
    for path in paths:
        log.partition_directory.environment.file_system.unlink(path)
    return sum(path.endswith(".log.deleted") for path in paths)


def batch(
    *values: bytes | None,
    timestamp: int = NOW_MS,
    key: bytes | None = b"k",
    base_offset: int = 0,
    **options: Any,
) -> bytearray:
    """A batch with one record per value, as a producer sends it."""
    records = [
        Record(base_offset + index, timestamp, key, value) for index, value in enumerate(values)
    ]
    return bytearray(build(records, base_offset=base_offset, options=BatchOptions(**options)))


def read_values(data: bytes) -> list[bytes | None]:
    """The values of all whole batches in fetched bytes."""
    values: list[bytes | None] = []
    position = 0
    while len(data) - position >= 61:
        size = read_any_header(data, position).size_bytes
        if position + size > len(data):
            break
        values += [record.value for record in any_records(data[position : position + size])]
        position += size
    return values
