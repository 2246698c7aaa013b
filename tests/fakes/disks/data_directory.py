"""A data directory as a broker has it: held and written to, stopped, or left by a kill."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

from kbroker.log.manager.log_manager import LogManager
from kbroker.log.partition.log import Log
from kbroker.log.producers.log_append_info import AppendOrigin
from kbroker.model import TopicPartition
from kbroker.record.record_batch import (
    TRANSACTIONAL_BIT,
    BatchOptions,
    ControlRecord,
    build_marker,
)
from tests.fakes.logs.log_maker import (
    NOW_MS,
    batch,
    delete_old_segments,
    manager,
    remove_deleted_files,
)
from tests.fakes.logs.verified_batches import verified


class DataDirectory:
    """What a broker does to its data directory, without the broker. `settings` are a topic's."""

    def __init__(self, path: Path, **settings: Any) -> None:
        self.path = path
        self._settings = settings
        self._logs = self._opened()

    def _opened(self) -> LogManager:
        logs = manager(self.path, **self._settings)
        logs.load("cluster", 1)
        for log in logs.all_logs():
            log.update_high_watermark(log.log_end_offset)
        return logs

    def log(self, topic: str = "t", partition: int = 0) -> Log:
        return self._logs.get_or_create_log(TopicPartition(topic, partition))

    def append(
        self, *values: bytes | None, topic: str = "t", partition: int = 0, **options: Any
    ) -> None:
        """One batch; its options are those of `log_maker.batch`."""
        self._append(self.log(topic, partition), batch(*values, **options))

    def fill(self, count: int, topic: str = "t", partition: int = 0, **options: Any) -> None:
        """Batches of one record: v0, v1, ... by the offset that they get."""
        log = self.log(topic, partition)
        for _ in range(count):
            value = f"v{log.log_end_offset}".encode()
            self._append(log, batch(value, **options))

    def begin(self, producer_id: int, *values: bytes, topic: str = "t", partition: int = 0) -> None:
        """Records of a transaction."""
        log = self.log(topic, partition)
        options = {"flags": TRANSACTIONAL_BIT, "producer_id": producer_id, "producer_epoch": 0}
        entry = log.producer_state.producers.get(producer_id)
        sequence = entry.last_sequence + 1 if entry is not None else 0
        self._append(log, batch(*values, base_sequence=sequence, **options))

    def end(self, producer_id: int, *, commits: bool, topic: str = "t", partition: int = 0) -> None:
        """The marker of a transaction."""
        options = BatchOptions(producer_id=producer_id, producer_epoch=0)
        marker = build_marker(ControlRecord(commits, 0), NOW_MS, options=options)
        log = self.log(topic, partition)
        log.append_as_leader(bytearray(marker), 0, NOW_MS, origin=AppendOrigin.COORDINATOR)
        log.update_high_watermark(log.log_end_offset)

    def _append(self, log: Log, data: bytearray) -> None:
        log.append_as_leader(verified(log, data), 0, NOW_MS)
        log.update_high_watermark(log.log_end_offset)

    def checkpoint(self, **high_watermarks: int) -> None:
        """Write the checkpoint files, with the high watermarks of partitions `t_0=7`, else ends."""
        found = {log.topic_partition: log.log_end_offset for log in self._logs.all_logs()}
        for name, offset in high_watermarks.items():
            topic, _, partition = name.rpartition("_")
            found[TopicPartition(topic, int(partition))] = offset
        self._logs.write_high_watermarks(found)
        self._logs.checkpoint_recovery_points()
        self._logs.checkpoint_log_start_offsets()

    def stop(self) -> None:
        """A clean stop."""
        self.checkpoint()
        self._logs.shutdown()

    def kill(self) -> None:
        """Leave everything as it is, and let go of the lock as the system does."""
        for directory in self._logs.directories():
            directory.release()

    def start(self) -> None:
        """Start again after a stop."""
        self._logs = self._opened()

    def truncate(self, offset: int, topic: str = "t", partition: int = 0) -> None:
        """Cut the log, as a follower does whose leader has less."""
        self.log(topic, partition).truncate_to(offset)

    def make_anew(self, topic_id: UUID, topic: str = "t", partition: int = 0) -> None:
        """Delete the partition, and make it again empty, as one of a topic with this id."""
        name = TopicPartition(topic, partition)
        if self._logs.get_log(name) is not None:
            self._logs.delete_log(name)
        self._logs.get_or_create_log(name, topic_id)

    def retain(self, log_start_offset: int, topic: str = "t", partition: int = 0) -> None:
        """Delete what lies before, whole segments at once, as retention does."""
        log = self.log(topic, partition)
        log.maybe_increment_log_start_offset(log_start_offset)
        delete_old_segments(log, NOW_MS)
        remove_deleted_files(log, NOW_MS + 3_600_000)


@contextmanager
def written(path: Path, **settings: Any) -> Iterator[DataDirectory]:
    """A directory that is written to in the `with`, and cleanly stopped after it."""
    directory = DataDirectory(path, **settings)
    yield directory
    directory.stop()
