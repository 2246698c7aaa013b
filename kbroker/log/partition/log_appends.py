"""Appends to a log: a batch from a client, several at once, what a leader sent.

Law: bytes, end offset and producer state come together or not at all. The end offset moves with the
bytes, in one place; whatever fails after that, expected or not, has the bytes cut off again, and if
even that fails the log takes no more appends. So no offset is ever given twice.

On the event loop a batch is opened only within the `WorkLimit` of its append.
"""

from __future__ import annotations

from errno import EIO
from struct import Struct

from kbroker.config.topic_config import TopicConfig
from kbroker.errors import KafkaError
from kbroker.log.append.append_preparation import Preparation, Prepared
from kbroker.log.append.append_refusals import batch_too_large, larger_than_segment
from kbroker.log.append.append_rules import UNLIMITED, AppendPlace, AppendRules, WorkLimit
from kbroker.log.append.log_append import OpenedBatch, check_produced_batch, looks_right, open_batch
from kbroker.log.append.message_set import check_takes_not_long, holds_batch, whole_messages
from kbroker.log.append.trusted_append import (
    TrustedBatches,
    apply_trusted,
    built_batches,
    placed_batches,
    read_trusted,
)
from kbroker.log.disk.file_system import StorageError
from kbroker.log.partition import log_truncation
from kbroker.log.partition.log_parts import LogParts
from kbroker.log.partition.segment_roll import RollParams, should_roll, start_segment
from kbroker.log.producers.log_append_info import AppendOrigin, LogAppendInfo
from kbroker.log.producers.producer_state import duplicate_append_info
from kbroker.model import new_tuple
from kbroker.record.built_batch import BuiltBatch
from kbroker.record.record_batch import LOG_OVERHEAD, MAGIC, BatchHeader, assign_log_append_time

_BATCH_START = Struct(">qii")  # base offset, length, leader epoch: what the log writes of a batch
_CLIENT = AppendOrigin.CLIENT  # asked for by every append; a look into the class costs 70 ns

Records = memoryview | bytearray


class LogAppends:
    """Appends to one log, by the `rules` of its topic."""

    __slots__ = (
        "_directory",
        "_epochs",
        "_files",
        "_offsets",
        "_parts",
        "_producers",
        "_segment_ms",
        "rules",
    )

    def __init__(self, parts: LogParts) -> None:
        self._parts = parts
        self._directory = parts.directory
        self._offsets = parts.offsets
        self._files = parts.files
        self._epochs = parts.epochs
        self._producers = parts.producers

    def update_config(self, config: TopicConfig) -> None:
        """Use new topic settings from the next append on."""
        walks_records = self._directory.environment.walks_records
        self.rules = AppendRules.of(config, walks_records=walks_records)
        self._segment_ms = config.segment_ms_effective()
        self._epochs.keep(self.rules.magic == MAGIC)

    def append_as_leader(
        self,
        records: Records,
        leader_epoch: int,
        now_ms: int,
        *,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        limit: WorkLimit = UNLIMITED,
    ) -> LogAppendInfo:
        """Give the records the next offsets and `leader_epoch`, in place, and append them.

        A CLIENT brings exactly one batch. One of the producer's last five comes back with its old
        offsets and `duplicate`. Raises TakesLongError beyond `limit`: see `prepare`; KafkaError:
        see `log_append`, `message_set_append`, `ProducerStateManager.validate`, and
        KAFKA_STORAGE_ERROR.
        """
        if origin is not _CLIENT:
            if type(records) is BuiltBatch:
                return self._append_built(records, leader_epoch, now_ms)
            records = whole_messages(records)
            if origin is not AppendOrigin.OLD_CLIENT or not holds_batch(records):
                return self._append_several(records, leader_epoch, now_ms, origin, limit)
        rules = self.rules
        header = check_produced_batch(records, self._directory.topic_partition, rules)
        if header.batch_length + LOG_OVERHEAD != len(records):
            records = memoryview(records)[: header.size_bytes]
        if rules.opens_batches or not looks_right(header, records):
            if rules.magic != MAGIC:
                origin = AppendOrigin.OLD_CLIENT
                return self._append_several(records, leader_epoch, now_ms, origin, limit)
            topic_partition = self._directory.topic_partition
            opened = open_batch(records, header, topic_partition, rules, now_ms, limit)
            info = self._append_batch(*opened, leader_epoch, now_ms)
            if opened[0] is records:
                return info
            return info._replace(converted=header.record_count)
        return self._append_batch(records, header, header.max_timestamp, leader_epoch, now_ms)

    def prepare(
        self, records: Records, leader_epoch: int, now_ms: int, origin: AppendOrigin
    ) -> Preparation:
        """Return the work that a worker thread has to do before `append_prepared`."""
        return Preparation(records, origin, self.rules, self._place(leader_epoch, now_ms))

    def append_prepared(
        self, prepared: Prepared, leader_epoch: int, now_ms: int
    ) -> LogAppendInfo | None:
        """Append as a leader; None if it is to be prepared again: settings or offsets changed
        meanwhile.
        """
        if prepared.rules != self.rules:
            return None
        ready = prepared.ready
        if isinstance(ready, OpenedBatch):
            info = self._append_batch(*ready, leader_epoch, now_ms)
            return info._replace(converted=prepared.converted) if prepared.converted else info
        place = prepared.place
        if ready.headers and (place.first_offset, place.leader_epoch) != (
            self._offsets.log_end_offset,
            leader_epoch,
        ):
            return None
        return self._append_placed(ready, leader_epoch, AppendOrigin.OLD_CLIENT, now_ms)

    def append_as_follower(
        self, records: Records | bytes, now_ms: int, leader_start_offset: int
    ) -> LogAppendInfo:
        """Append what the leader sent, offsets and epochs as they are; a batch that is cut off at
        the end is left out. A log that is empty, or of which the leader has deleted everything,
        starts over with the first batch if that holds the offset at which the log ends.

        KafkaError: CORRUPT_MESSAGE, OFFSET_OUT_OF_RANGE (they do not rise), KAFKA_STORAGE_ERROR.
        """
        offsets = self._offsets
        topic_partition = self._directory.topic_partition
        batches = read_trusted(records, topic_partition, self.rules, offsets.log_end_offset)
        if max(offsets.log_start_offset, leader_start_offset) == offsets.log_end_offset:
            self._begin_at_batch(batches, now_ms)
        if batches.check_offsets(offsets.log_end_offset):
            with self._directory.refusals():
                self._directory.before_gap()
        latest_epoch = self._epochs.latest_epoch
        for header in batches.headers:
            if header.partition_leader_epoch > latest_epoch:
                latest_epoch = header.partition_leader_epoch
                self.assign_epoch(latest_epoch, header.base_offset)
        return self._append_trusted(batches, AppendOrigin.REPLICATION, now_ms)

    def assign_epoch(self, leader_epoch: int, start_offset: int) -> None:
        """Note that this epoch writes from `start_offset` on. KafkaError(KAFKA_STORAGE_ERROR)."""
        with self._directory.refusals():
            self._epochs.assign(leader_epoch, start_offset)

    def _place(self, leader_epoch: int, now_ms: int) -> AppendPlace:
        return AppendPlace(
            self._directory.topic_partition, self._offsets.log_end_offset, leader_epoch, now_ms
        )

    def _begin_at_batch(self, batches: TrustedBatches, now_ms: int) -> None:
        """Let a log without records of use begin with the first batch if that holds the offset at
        which the log ends: the leader's may start amid a batch, and batches are sent whole.
        """
        if batches.headers:
            first = batches.headers[0]
            if first.base_offset < self._offsets.log_end_offset <= first.last_offset:
                log_truncation.truncate_fully_and_start_at(self._parts, first.base_offset, now_ms)

    def _append_built(self, batch: BuiltBatch, leader_epoch: int, now_ms: int) -> LogAppendInfo:
        """Append what a coordinator of this broker has just built, of which nothing is read. It is
        held to the limits of a producer's batch.
        """
        rules = self.rules
        header = batch.header
        if header.producer_id >= 0:  # of a transaction: in one way for all that a coordinator sends
            origin = AppendOrigin.COORDINATOR
            batches = built_batches(batch, rules, self._place(leader_epoch, now_ms))
            return self._append_placed(batches, leader_epoch, origin, now_ms)
        size = len(batch)
        if size > rules.max_message_bytes:
            raise batch_too_large(size, self._directory.topic_partition, rules)
        return self._append_batch(batch, header, header.max_timestamp, leader_epoch, now_ms)

    def _append_batch(
        self,
        records: Records,
        header: BatchHeader,
        max_timestamp: int,
        leader_epoch: int,
        now_ms: int,
    ) -> LogAppendInfo:
        rules = self.rules
        log_append_time = -1
        if rules.stamps_append_time:
            assign_log_append_time(header, records, 0, now_ms)
            max_timestamp = log_append_time = now_ms
        size = len(records)
        if size > rules.segment_bytes:
            raise larger_than_segment(size, self._directory.topic_partition, rules)
        offsets, producers = self._offsets, self._producers.state
        first_offset = offsets.log_end_offset
        producer_id = header.producer_id
        if producer_id >= 0:
            duplicate = self._check_producer(header)
            if duplicate is not None:
                return duplicate
        last_offset = first_offset + header.last_offset_delta
        if leader_epoch != self._epochs.latest_epoch:
            self.assign_epoch(leader_epoch, first_offset)
        _BATCH_START.pack_into(records, 0, first_offset, header.batch_length, leader_epoch)
        info: LogAppendInfo = new_tuple(  # half the price of its constructor
            LogAppendInfo,
            (
                first_offset,
                last_offset,
                max_timestamp,
                last_offset,
                log_append_time,
                offsets.log_start_offset,
                size,
                False,
                0,
            ),
        )
        try:
            self._write(records, info, now_ms)
            if producer_id >= 0:
                producers.update(header, first_offset, last_offset, max_timestamp)
            producers.advance_to(last_offset + 1)
        except BaseException as error:
            self._take_back(first_offset, now_ms, error)
            raise
        return info

    def _check_producer(self, header: BatchHeader) -> LogAppendInfo | None:
        """Refuse what may not follow; return the old place of a batch that was sent again."""
        offsets, producers = self._offsets, self._producers.state
        if offsets.unfinished_cut is not None:
            log_truncation.finish_cut(self._parts)
        duplicate = producers.find_duplicate(header)
        if duplicate is None:
            producers.validate(header, offsets.log_end_offset, AppendOrigin.CLIENT)
            return None
        return duplicate_append_info(duplicate, offsets.log_start_offset)

    def _append_several(
        self,
        records: Records,
        leader_epoch: int,
        now_ms: int,
        origin: AppendOrigin,
        limit: WorkLimit,
    ) -> LogAppendInfo:
        """Append anything that is not one batch of the topic's own format."""
        place = self._place(leader_epoch, now_ms)
        if origin == AppendOrigin.OLD_CLIENT:
            if limit is not UNLIMITED:
                check_takes_not_long(records, limit)
            # With the first old message.
            from kbroker.log.append.message_set_append import prepare_set

            batches = prepare_set(records, self.rules, place)
        else:
            batches = placed_batches(records, self.rules, place)
        return self._append_placed(batches, leader_epoch, origin, now_ms)

    def _append_placed(
        self, batches: TrustedBatches, leader_epoch: int, origin: AppendOrigin, now_ms: int
    ) -> LogAppendInfo:
        if batches.headers and leader_epoch != self._epochs.latest_epoch:
            self.assign_epoch(leader_epoch, self._offsets.log_end_offset)
        return self._append_trusted(batches, origin, now_ms)

    def _append_trusted(
        self, batches: TrustedBatches, origin: AppendOrigin, now_ms: int
    ) -> LogAppendInfo:
        end_offset = self._offsets.log_end_offset
        info = batches.info(end_offset, self._offsets.log_start_offset)
        if not batches.headers:
            return info
        producers = self._producers.state
        markers = batches.validate(producers, origin)
        try:
            self._write(batches.records, info, now_ms)
            apply_trusted(producers, batches.headers, markers, self._files.segments.active)
        except BaseException as error:
            self._take_back(end_offset, now_ms, error)
            raise
        return info

    def _write(self, data: Records | bytes, info: LogAppendInfo, now_ms: int) -> None:
        offsets, files = self._offsets, self._files
        if self._directory.failure is not None:
            raise self._directory.failed(self._directory.failure)
        if offsets.unfinished_cut is not None:
            log_truncation.finish_cut(self._parts)
        first_offset, last_offset, max_timestamp, offset_of_max_timestamp, _, _, size, _, _ = info
        assert last_offset >= offsets.log_end_offset, (last_offset, offsets.log_end_offset)
        params: RollParams = new_tuple(
            RollParams,
            (self._segment_ms, self.rules.segment_bytes, max_timestamp, last_offset, size, now_ms),
        )
        try:
            active = files.segments.active
            if should_roll(active, params):
                active = start_segment(self._parts, now_ms, first_offset)
            elif not files.is_active_open:
                files.activate()
            active.append(last_offset, max_timestamp, offset_of_max_timestamp, data)
        except StorageError as error:
            if error.is_out_of_space:
                self._directory.full(error, size)
            raise self._directory.failed(error) from error
        offsets.appended_to(last_offset + 1)

    def _take_back(self, end_offset: int, now_ms: int, error: BaseException) -> None:
        """An append ended in `error`: the log ends where it did before, or takes no more appends.

        A KafkaError is what the disk refused at the write, which has left nothing behind. Other
        refusals of the disk are raised as one.
        """
        if isinstance(error, KafkaError):
            return
        directory = self._directory
        try:
            log_truncation.cut_at(self._parts, end_offset, now_ms)
        except StorageError as second:
            directory.failed(second)  # if that passes, the next append begins with the cut
        except Exception:
            directory.failed(StorageError(directory.path, "cut", EIO))
        if isinstance(error, StorageError):
            raise directory.failed(error) from error
