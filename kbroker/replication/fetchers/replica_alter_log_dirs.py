"""ReplicaAlterLogDirsManager: moves replicas to other data directories of this broker while it runs
(Kafka's name, KIP-113).

Law: a partition is with at most one mover, and moves to one directory; another order to move it
replaces the first. All moves of a broker together keep to its rate for moves: above it they wait
before the next slice.

Owned by the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING
from zlib import crc32

from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.disk.format import future_directory_name
from kbroker.log.manager.future_logs import FutureLogs
from kbroker.model import ZERO_UUID, TopicPartition
from kbroker.rare_lines import RareLines, note_of
from kbroker.replication.fetchers.fetcher_parts import CopyParts
from kbroker.replication.partitions.partition import Partition
from kbroker.replication.replication_quota import ReplicationQuota

if TYPE_CHECKING:
    from kbroker.replication.fetchers.replica_mover import ReplicaMover

_MAX_DIRECTORY_NAME = 255

_log = logging.getLogger(__name__)


class ReplicaAlterLogDirsManager:
    """The moves of one broker, shared among `num.replica.alter.log.dirs.threads` tasks."""

    def __init__(
        self,
        parts: CopyParts,
        futures: Callable[[], FutureLogs],
        count: Callable[[], int],
        quota: ReplicationQuota,
    ) -> None:
        """`count` returns the highest number of tasks; together they keep to `quota`."""
        self._parts = parts
        self._of_logs = futures
        self._count = count
        self._quota = quota
        self._movers: dict[int, ReplicaMover] = {}
        self._lines = RareLines()
        self._is_open = True

    @property
    def _futures(self) -> FutureLogs:
        return self._of_logs()

    async def alter(self, topic_partition: TopicPartition, path: str) -> ErrorCode:
        """Begin to move a replica to the data directory at an absolute path; returns Kafka's
        answer. If there is no replica yet, it will be made there.
        """
        directory, forgotten = self._futures.directory(path), asyncio.Event()
        if directory is not None and self._futures.forget_earlier(
            topic_partition, directory, forgotten.set
        ):
            await forgotten.wait()
        try:
            self._alter(topic_partition, path)
        except KafkaError as error:
            self._log_refusal(topic_partition, path, error)
            if error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
                return ErrorCode.REPLICA_NOT_AVAILABLE  # as before Kafka 2.6
            return error.code
        return ErrorCode.NONE

    def _log_refusal(self, topic_partition: TopicPartition, path: str, error: KafkaError) -> None:
        now_ms = self._parts.clock.monotonic_ms()
        left_out = self._lines.left_out(error.code, topic_partition.topic, now_ms)
        if left_out is not None:
            _log.warning(
                "%s is not moved to %s: %s%s", topic_partition, path, error, note_of(left_out)
            )

    def _alter(self, topic_partition: TopicPartition, path: str) -> None:
        if len(future_directory_name(topic_partition, ZERO_UUID)) > _MAX_DIRECTORY_NAME:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic name is too long.")
        futures = self._futures
        directory = futures.directory(path)
        if directory is None:
            raise KafkaError(
                ErrorCode.LOG_DIR_NOT_FOUND,
                f"Log dir {path} is not found in the config.",
            )
        if directory.failure is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"Log directory {path} is offline")
        is_here = futures.holds_log(topic_partition, directory)
        is_under_way = futures.holds(topic_partition, directory)
        is_hosted = self._parts.hosted.find(topic_partition) is not None
        if is_hosted and not is_under_way:
            self._forget(topic_partition)
            futures.drop(topic_partition)
        if not is_here and not is_under_way and not self._parts.hosted.is_offline(topic_partition):
            futures.prefer(topic_partition, directory)
        partition = self._parts.hosted.get(topic_partition)
        if not is_here and not is_under_way:
            futures.create(topic_partition, directory)
            _log.info("%s begins to move to %s", topic_partition, path)
            self._add(partition)

    def on_leadership_change(
        self, became_leader: Iterable[Partition], became_follower: Iterable[Partition]
    ) -> None:
        """Find out again where the copies of these partitions part from their logs. Moves that an
        earlier run of the broker began go on.
        """
        for partition in (*became_leader, *became_follower):
            topic_partition = partition.topic_partition
            self._forget(topic_partition)
            is_here = self._parts.hosted.find(topic_partition) is partition
            if is_here and self._futures.find(topic_partition) is not None:
                self._add(partition)

    async def shutdown(self) -> None:
        """Return once nothing is being copied; the next start goes on with the moves."""
        self._is_open = False
        movers = list(self._movers.values())
        self._movers.clear()
        await asyncio.gather(*(mover.stop() for mover in movers))

    def _add(self, partition: Partition) -> None:
        if not self._is_open:
            return
        topic, index = partition.topic_partition
        number = (crc32(topic.encode()) + index) % max(1, self._count())
        if number not in self._movers:
            from kbroker.replication.fetchers.replica_mover import ReplicaMover

            self._movers[number] = ReplicaMover(self._parts, self._of_logs, self._quota)
        self._movers[number].add(partition)

    def _forget(self, topic_partition: TopicPartition) -> None:
        for mover in self._movers.values():
            mover.remove(topic_partition)
