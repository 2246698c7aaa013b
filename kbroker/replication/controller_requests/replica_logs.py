"""The logs of this broker's replicas: made and deleted as the controller orders, and their high
watermarks on the disk.

Law: owned by the event loop. A log that could not be made or deleted for lack of room or of a file
handle is remembered, because that passes: the controller's next order tries again. A failed
directory stays so until a restart.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterator
from uuid import UUID

from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.manager.log_manager import LogManager
from kbroker.log.partition.log import Log
from kbroker.model import ZERO_UUID, TopicPartition
from kbroker.replication.partitions.hosted_partitions import HostedPartitions
from kbroker.replication.waiting.purgatories import running_loop_future

_KEPT_OUT_TOGETHER = 250  # partitions: about 12,000 objects

_log = logging.getLogger(__name__)


class ReplicaLogs:
    """Makes and deletes logs; `on_unmade` is called if one could not be, and may be later."""

    def __init__(self, hosted: HostedPartitions, log_manager: LogManager) -> None:
        self._hosted = hosted
        self._log_manager = log_manager
        # High watermarks of the last run; read from disk when first needed.
        self._checkpointed: dict[TopicPartition, int] | None = None
        # Logs that could not be made or deleted, for lack of nothing but room or a file handle.
        self._unmade: set[TopicPartition] = set()
        self._undeleted: set[TopicPartition] = set()
        self.on_unmade: Callable[[], None] = lambda: None
        self._made = 0  # since the last `gc.freeze`

    def make(self, topic_partition: TopicPartition, topic_id: UUID, *, is_new: bool) -> Log:
        """The log of a replica, made if there is none, with the high watermark it had.

        Raises KafkaError KAFKA_STORAGE_ERROR, INCONSISTENT_TOPIC_ID.
        """
        was_unmade = topic_partition in self._unmade  # so no directory has its log
        known_id = None if topic_id == ZERO_UUID else topic_id
        try:
            log = self._log_manager.get_or_create_log(
                topic_partition, known_id, is_new=is_new or was_unmade
            )
            self._keep_out()
            checkpointed = self._high_watermarks().pop(topic_partition, 0)
            log.update_high_watermark(
                min(max(checkpointed, log.log_start_offset), log.log_end_offset)
            )
        except KafkaError as error:
            # A log that is not new may lie in a directory that has failed.
            may_pass = is_new or self._all_directories_work()
            if error.code is ErrorCode.KAFKA_STORAGE_ERROR and may_pass:
                self._unmade.add(topic_partition)
                self.on_unmade()
            raise
        self._unmade.discard(topic_partition)
        return log

    def _keep_out(self) -> None:
        """Keep the objects of partitions out of Python's garbage collections: one that visited
        10,000 partitions would hold the event loop for 100 ms. They are freed as usual when a
        partition is deleted, because they hold no reference cycles.
        """
        self._made = (self._made + 1) % _KEPT_OUT_TOGETHER
        if not self._made:
            gc.freeze()

    def delete(self, topic_partition: TopicPartition) -> ErrorCode:
        """Delete the log of a stopped replica: see `finish_deletions`."""
        self._unmade.discard(topic_partition)
        self._high_watermarks().pop(topic_partition, None)
        try:
            self._log_manager.delete_log(topic_partition)
        except KafkaError as error:
            _log.warning("Log of %s not deleted: %s", topic_partition, error)
            self._not_deleted(topic_partition)
            return error.code
        self._undeleted.discard(topic_partition)
        return ErrorCode.NONE

    def set_aside(self, topic_partition: TopicPartition) -> None:
        """Let another log have the place of a replica's, whose records are kept. One that cannot be
        renamed stays, with its directory offline.
        """
        self._unmade.discard(topic_partition)
        self._high_watermarks().pop(topic_partition, None)
        try:
            self._log_manager.set_aside(topic_partition)
        except KafkaError as error:
            _log.warning("Log of %s not set aside: %s", topic_partition, error)

    async def finish_deletions(self) -> frozenset[TopicPartition]:
        """Return once the deletions are on the disk, with the partitions for which that failed."""
        future = running_loop_future()

        def finished(failed: frozenset[TopicPartition]) -> None:
            for topic_partition in failed:
                self._not_deleted(topic_partition)
            if not future.done():
                future.set_result(failed)

        self._log_manager.finish_deletions(finished)
        failed: frozenset[TopicPartition] = await future
        return failed

    def retry_unmade(self) -> bool:
        """Let the next order try unmade and undeleted logs again; True if there are any."""
        for topic_partition in self._unmade:
            if self._hosted.is_offline(topic_partition):
                self._hosted.remove(topic_partition)
        return bool(self._unmade or self._undeleted)

    def unmade(self) -> frozenset[TopicPartition]:
        """The replicas whose logs could not be made, but may be later."""
        return frozenset(self._unmade)

    def forget_unmade(self, topic_partition: TopicPartition) -> None:
        """Stop trying to make the log of a replica that was moved away: it is not offline now."""
        self._unmade.discard(topic_partition)
        if self._hosted.is_offline(topic_partition):
            self._hosted.remove(topic_partition)

    def _not_deleted(self, topic_partition: TopicPartition) -> None:
        """Have a deletion ordered again, unless a disk failed: then that waits for a restart."""
        if self._all_directories_work():
            self._undeleted.add(topic_partition)
            self.on_unmade()

    def _all_directories_work(self) -> bool:
        return all(d.failure is None for d in self._log_manager.directories())

    # High watermark checkpoint

    def checkpoint_high_watermarks(self) -> None:
        """Do all of `high_watermark_checkpoint` at once."""
        for _ in self.high_watermark_checkpoint():
            pass

    def high_watermark_checkpoint(self) -> Iterator[None]:
        """Write `replication-offset-checkpoint` in small steps: the high watermarks of hosted
        partitions and of logs without leadership yet; due every
        `replica.high.watermark.checkpoint.interval.ms`.
        """
        return self._log_manager.checkpoints.high_watermarks(self._high_watermark_of)

    def _high_watermark_of(self, topic_partition: TopicPartition) -> int | None:
        partition = self._hosted.find(topic_partition)
        if partition is not None:
            return partition.high_watermark
        return self._high_watermarks().get(topic_partition)

    def _high_watermarks(self) -> dict[TopicPartition, int]:
        if self._checkpointed is None:
            self._checkpointed = dict(self._log_manager.read_high_watermarks())
        return self._checkpointed
