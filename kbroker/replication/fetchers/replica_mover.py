"""ReplicaMover: copies replicas to other data directories of this broker, one after the other.

Law: a copy follows its log as a follower follows a leader: what is cut there is cut here, and what
is appended there is copied, in slices between which others run. When it has everything, it replaces
the log in one turn of the loop; nobody sees a moment without a log. A log that cannot be copied now
is tried again, and served all the while.

Owned by the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.manager.future_logs import FutureLogs
from kbroker.log.partition.leader_epoch_cache import UNDEFINED_EPOCH
from kbroker.log.partition.log import Log
from kbroker.log.segments.fetch_data_info import FetchIsolation
from kbroker.model import TopicPartition
from kbroker.record.legacy_record import read_any_header
from kbroker.replication.fetchers.fetcher_parts import CopyParts
from kbroker.replication.fetchers.truncation import truncation_for
from kbroker.replication.partitions.follower_parts import parts_for
from kbroker.replication.partitions.partition import Partition
from kbroker.replication.replication_quota import ReplicationQuota
from kbroker.turns import turn

_SLICE_BYTES = 256 * 1024  # copied before others run, unless one batch is larger
_LAST_BYTES = 1024 * 1024  # may be missing when a copy is about to take its log's place

_log = logging.getLogger(__name__)


class _Move:
    """The progress of one partition that moves."""

    __slots__ = ("is_truncating", "partition", "trouble", "until_ms")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.is_truncating = True  # it is unknown which of the copy's records the log has
        self.until_ms = 0.0  # left alone before this
        self.trouble = ""


class ReplicaMover:
    """Moves its partitions one after the other, in a task that lives as long as there are some."""

    def __init__(
        self, parts: CopyParts, futures: Callable[[], FutureLogs], quota: ReplicationQuota
    ) -> None:
        self._parts = parts
        self._of_logs = futures
        self._quota = quota
        self._moves: dict[TopicPartition, _Move] = {}
        self._task: asyncio.Task[None] | None = None

    def add(self, partition: Partition) -> None:
        """Move a partition to where its copy is."""
        self._moves[partition.topic_partition] = _Move(partition)
        if self._task is None or self._task.done():
            loop = asyncio.get_running_loop()
            self._task = loop.create_task(self._run(), name="mover of replicas")

    def remove(self, topic_partition: TopicPartition) -> None:
        """Leave a partition where it is."""
        self._moves.pop(topic_partition, None)

    async def stop(self) -> None:
        """Return once nothing is being copied."""
        self._moves.clear()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        while self._moves:
            now_ms = self._parts.clock.monotonic_ms()
            first = min(self._moves.values(), key=lambda move: move.until_ms)
            move = next((m for m in self._moves.values() if m.until_ms <= now_ms), None)
            if move is None:
                await self._parts.sleep((first.until_ms - now_ms) / 1000)
                continue
            if self._quota.is_exceeded(now_ms):
                await self._parts.sleep(self._parts.backoff_ms() / 1000)
                continue
            try:
                await self._step(move)
            except KafkaError as error:
                self._later(move, str(error))
            except Exception as error:
                _log.exception("The move of %s failed, and goes on", move.partition)
                self._later(move, repr(error))
            await self._parts.sleep(0)

    def _later(self, move: _Move, trouble: str) -> None:
        """Leave a move alone for a while; the broker's log says why, once while it lasts."""
        if move.trouble != trouble:
            move.trouble = trouble
            _log.error("%s waits on its way: %s", move.partition.topic_partition, trouble)
        move.until_ms = self._parts.clock.monotonic_ms() + self._parts.backoff_ms()

    async def _step(self, move: _Move) -> None:
        """Copy one slice, or finish the move."""
        logs = self._logs(move)
        if logs is None:
            return
        log, future = logs
        self._copy(move, log, future)
        if future.log_end_offset < log.log_end_offset:
            return
        for _ in future.producers.copy(log.producers, log.log_end_offset):
            await turn()
            if self._logs(move) != logs:
                return
        settled = asyncio.Event()
        self._of_logs().settle(move.partition.topic_partition, settled.set)
        await settled.wait()
        logs = self._logs(move)
        if logs is not None:
            self._finish(move, *logs)

    def _logs(self, move: _Move) -> tuple[Log, Log] | None:
        """A log and its copy; None if the partition no longer moves."""
        partition = move.partition
        topic_partition = partition.topic_partition
        if self._moves.get(topic_partition) is not move:
            return None
        future = self._of_logs().find(topic_partition)
        if future is None or self._parts.hosted.find(topic_partition) is not partition:
            self.remove(topic_partition)
            return None
        return partition.log, future

    def _finish(self, move: _Move, log: Log, future: Log) -> None:
        """Copy what came meanwhile and, unless that was too much, let the copy replace the log."""
        copied_bytes = 0
        while copied_bytes < _LAST_BYTES and (size_bytes := self._copy(move, log, future)):
            copied_bytes += size_bytes
        if future.log_end_offset != log.log_end_offset:
            return
        topic_partition = move.partition.topic_partition
        self.remove(topic_partition)
        try:
            move.partition.log = self._of_logs().replace(topic_partition)
        except KafkaError:
            self._moves[topic_partition] = move
            raise
        _log.info("%s has moved to %s", topic_partition, future.directory)
        self._parts.wake(topic_partition)

    def _copy(self, move: _Move, log: Log, future: Log) -> int:
        """Bring a copy nearer to its log; returns the bytes copied, 0 if it has all of them.

        Raises KafkaError if one of their disks refuses, or something cannot be copied.
        """
        now_ms = self._parts.clock.now_ms()
        if log.offsets.unfinished_cut is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "a cut of its log has come to no end")
        _cut(move, log, future, now_ms)
        size_bytes = 0
        if future.log_end_offset < log.log_end_offset:
            size_bytes = _copy_slice(log, future, now_ms)
            if self._quota.limit is not None:
                self._quota.record(size_bytes, self._parts.clock.monotonic_ms())
        log.offsets.copied_to(future.log_end_offset)
        future.update_high_watermark(log.high_watermark)
        if future.log_start_offset < log.log_start_offset <= future.high_watermark:
            future.maybe_increment_log_start_offset(log.log_start_offset)
        move.trouble = ""
        return size_bytes


def _cut(move: _Move, log: Log, future: Log, now_ms: int) -> None:
    """Cut from a copy whatever its log does not have."""
    if future.offsets.unfinished_cut is not None:
        future.truncate_to(future.offsets.unfinished_cut, now_ms)
    if move.is_truncating and future.log_start_offset > log.log_start_offset:
        future.truncate_fully_and_start_at(log.log_start_offset, now_ms)  # a crash took its start
    while move.is_truncating:
        move.is_truncating = not _part(log, future, now_ms)
    copied_up_to = log.offsets.copied_up_to
    if copied_up_to is not None and copied_up_to < future.log_end_offset:
        future.truncate_to(copied_up_to, now_ms)
    if future.log_end_offset < log.log_start_offset:
        future.truncate_fully_and_start_at(log.log_start_offset, now_ms)
    log.offsets.copied_to(future.log_end_offset)


def _part(log: Log, future: Log, now_ms: int) -> bool:
    """Cut a copy where its log parts from it; False if that may be earlier still."""
    epochs = future.leader_epoch_cache
    end_offset, before = log.log_end_offset, future.log_end_offset
    offset, is_complete = min(future.high_watermark, end_offset), True
    if epochs.latest_epoch != UNDEFINED_EPOCH:
        end = log.leader_epoch_cache.end_offset_for(epochs.latest_epoch, end_offset)
        offset, is_complete = truncation_for(end, epochs, before, future.high_watermark)
    future.truncate_to(min(offset, end_offset), now_ms)
    return is_complete or future.log_end_offset == before


def _copy_slice(log: Log, future: Log, now_ms: int) -> int:
    found = log.read(
        future.log_end_offset, _SLICE_BYTES, FetchIsolation.LOG_END, min_one_message=True
    )
    records = memoryview(found.records.read())
    if not records:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"its log ends at {log.log_end_offset}, and has no records from "
            f"{future.log_end_offset} on",
        )
    header = read_any_header(records, 0)
    if header is not None and header.base_offset < future.log_end_offset:
        future.truncate_to(header.base_offset, now_ms)  # the log starts within a batch
    for part in parts_for(records, future.config.segment_bytes):
        future.append_as_follower(part, now_ms)
    return len(records)
