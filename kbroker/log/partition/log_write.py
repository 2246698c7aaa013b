"""Appends to a log: a batch from a client, several at once, what a leader sent.

Law: bytes, end offset and producer state come together or not at all. The end offset moves with the
bytes, in one place; whatever fails after that, expected or not, has the bytes cut off again, and
where even that fails the log takes no more appends. So no offset is ever given twice.

On the event loop a batch is opened only within the `WorkLimit` of its append.
"""

from __future__ import annotations

from errno import EIO
from struct import Struct

from kbroker.errors import KafkaError
from kbroker.log.append.append_preparation import Prepared
from kbroker.log.append.append_refusals import larger_than_segment
from kbroker.log.append.append_rules import UNLIMITED, Place, WorkLimit
from kbroker.log.append.log_append import OpenedBatch, check_produced_batch, looks_right, open_batch
from kbroker.log.append.message_set import check_takes_not_long, holds_batch, whole_messages
from kbroker.log.append.trusted_append import (
    TrustedBatches,
    apply_trusted,
    placed_batches,
    read_trusted,
)
from kbroker.log.disk.file_system import StorageError
from kbroker.log.partition.local_log import LocalLog
from kbroker.log.partition.segment_roll import RollParams, roll_at, should_roll
from kbroker.log.producers.log_append_info import AppendOrigin, LogAppendInfo
from kbroker.log.producers.producer_state import duplicate_append_info
from kbroker.record.record_batch import (
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
    assign_log_append_time,
)

_BATCH_START = Struct(">qii")  # base offset, length, leader epoch: what the log writes of a batch
_CLIENT = AppendOrigin.CLIENT  # asked for by every append; a look into the class costs 70 ns
_new_tuple = tuple.__new__

Records = memoryview | bytearray


def append_as_leader(
    log: LocalLog,
    records: Records,
    leader_epoch: int,
    now_ms: int,
    *,
    origin: AppendOrigin = AppendOrigin.CLIENT,
    limit: WorkLimit = UNLIMITED,
) -> LogAppendInfo:
    """Give the records the next offsets and `leader_epoch`, in place, and append them.

    A CLIENT brings exactly one batch. A batch that is one of the producer's last five comes back
    with its old offsets and `duplicate`. Raises TakesLongError beyond `limit`: see
    `Log.prepare_append`; KafkaError: see `log_append`, `message_set_append`,
    `ProducerStateManager.validate`, and KAFKA_STORAGE_ERROR.
    """
    if origin is not _CLIENT:
        records = whole_messages(records)
        if origin is not AppendOrigin.OLD_CLIENT or not holds_batch(records):
            return _append_several(log, records, leader_epoch, now_ms, origin, limit)
    rules = log.rules
    header = check_produced_batch(records, log.topic_partition, rules)
    if header.batch_length + LOG_OVERHEAD != len(records):
        records = memoryview(records)[: header.size_bytes]
    if rules.opens_batches or not looks_right(header, records):
        if rules.magic != MAGIC:
            origin = AppendOrigin.OLD_CLIENT
            return _append_several(log, records, leader_epoch, now_ms, origin, limit)
        opened = open_batch(records, header, log.topic_partition, rules, now_ms, limit)
        return _append_batch(log, *opened, leader_epoch, now_ms)
    return _append_batch(log, records, header, header.max_timestamp, leader_epoch, now_ms)


def append_prepared(
    log: LocalLog, prepared: Prepared, leader_epoch: int, now_ms: int
) -> LogAppendInfo | None:
    """See `Log.append_prepared`."""
    if prepared.rules != log.rules:
        return None
    ready = prepared.ready
    if isinstance(ready, OpenedBatch):
        return _append_batch(log, *ready, leader_epoch, now_ms)
    place = prepared.place
    if ready.headers and (place.first_offset, place.leader_epoch) != (
        log.log_end_offset,
        leader_epoch,
    ):
        return None
    return _append_placed(log, ready, leader_epoch, AppendOrigin.OLD_CLIENT, now_ms)


def append_as_follower(
    log: LocalLog, records: Records | bytes, now_ms: int, leader_start_offset: int
) -> LogAppendInfo:
    """See `Log.append_as_follower`."""
    batches = read_trusted(records, log.topic_partition, log.rules, log.log_end_offset)
    if max(log.log_start_offset, leader_start_offset) == log.log_end_offset:
        _begin_at_batch(log, batches, now_ms)
    try:
        if batches.check_offsets(log.log_end_offset):
            log.expect_gaps()
    except StorageError as error:
        raise log.failed(error) from error
    latest_epoch = log.leader_epoch_cache.latest_epoch
    for header in batches.headers:
        if header.partition_leader_epoch > latest_epoch:
            latest_epoch = header.partition_leader_epoch
            log.assign_epoch(latest_epoch, header.base_offset)
    return _append_trusted(log, batches, AppendOrigin.REPLICATION, now_ms)


def _begin_at_batch(log: LocalLog, batches: TrustedBatches, now_ms: int) -> None:
    """Let a log without records of use begin with the first batch where that holds the offset at
    which it ends: the leader's log may start amid a batch, and batches are sent whole.
    """
    if batches.headers:
        first = batches.headers[0]
        if first.base_offset < log.log_end_offset <= first.last_offset:
            log.truncate_fully_and_start_at(first.base_offset, now_ms)


def _append_batch(
    log: LocalLog,
    records: Records,
    header: BatchHeader,
    max_timestamp: int,
    leader_epoch: int,
    now_ms: int,
) -> LogAppendInfo:
    """Append the one batch of a client, opened or not."""
    rules = log.rules
    log_append_time = -1
    if rules.stamps_append_time:
        assign_log_append_time(header, records, 0, now_ms)
        max_timestamp = log_append_time = now_ms
    size = len(records)
    if size > rules.segment_bytes:
        raise larger_than_segment(size, log.topic_partition, rules)
    first_offset = log.log_end_offset
    producer_id = header.producer_id
    if producer_id >= 0:
        duplicate = _check_producer(log, header)
        if duplicate is not None:
            return duplicate
    last_offset = first_offset + header.last_offset_delta
    if leader_epoch != log.leader_epoch_cache.latest_epoch:
        log.assign_epoch(leader_epoch, first_offset)
    _BATCH_START.pack_into(records, 0, first_offset, header.batch_length, leader_epoch)
    info: LogAppendInfo = _new_tuple(  # half the price of its constructor
        LogAppendInfo,
        (
            first_offset,
            last_offset,
            max_timestamp,
            last_offset,
            log_append_time,
            log.log_start_offset,
            size,
            False,
        ),
    )
    try:
        _write(log, records, info, now_ms)
        if producer_id >= 0:
            log.producer_state.update(header, first_offset, last_offset, max_timestamp)
        log.producer_state.map_end_offset = last_offset + 1
    except BaseException as error:
        _take_back(log, first_offset, now_ms, error)
        raise
    return info


def _check_producer(log: LocalLog, header: BatchHeader) -> LogAppendInfo | None:
    """Refuse what may not follow; the old place of a batch that was sent again."""
    if log.unfinished_cut is not None:
        log.finish_cut()
    duplicate = log.producer_state.find_duplicate(header)
    if duplicate is None:
        log.producer_state.validate(header, log.log_end_offset, AppendOrigin.CLIENT)
        return None
    return duplicate_append_info(duplicate, log.log_start_offset)


def _append_several(
    log: LocalLog,
    records: Records,
    leader_epoch: int,
    now_ms: int,
    origin: AppendOrigin,
    limit: WorkLimit,
) -> LogAppendInfo:
    """Append anything that is not one batch of the topic's own format."""
    place = Place(log.topic_partition, log.log_end_offset, leader_epoch, now_ms)
    if origin == AppendOrigin.OLD_CLIENT:
        if limit is not UNLIMITED:
            check_takes_not_long(records, limit)
        from kbroker.log.append.message_set_append import prepare_set  # with the first old message

        batches = prepare_set(records, log.rules, place)
    else:
        batches = placed_batches(records, log.rules, place)
    return _append_placed(log, batches, leader_epoch, origin, now_ms)


def _append_placed(
    log: LocalLog,
    batches: TrustedBatches,
    leader_epoch: int,
    origin: AppendOrigin,
    now_ms: int,
) -> LogAppendInfo:
    """Append batches that have their offsets."""
    if batches.headers and leader_epoch != log.leader_epoch_cache.latest_epoch:
        log.assign_epoch(leader_epoch, log.log_end_offset)
    return _append_trusted(log, batches, origin, now_ms)


def _append_trusted(
    log: LocalLog, batches: TrustedBatches, origin: AppendOrigin, now_ms: int
) -> LogAppendInfo:
    end_offset = log.log_end_offset
    info = batches.info(end_offset, log.log_start_offset)
    if not batches.headers:
        return info
    markers = batches.validate(log.producer_state, origin)
    try:
        _write(log, batches.records, info, now_ms)
        apply_trusted(log.producer_state, batches.headers, markers, log.segments.active)
    except BaseException as error:
        _take_back(log, end_offset, now_ms, error)
        raise
    return info


def _write(log: LocalLog, data: Records | bytes, info: LogAppendInfo, now_ms: int) -> None:
    """Append the batches that `info` describes."""
    if log.failure is not None:
        raise log.failed(log.failure)
    if log.unfinished_cut is not None:
        log.finish_cut()
    first_offset, last_offset, max_timestamp, offset_of_max_timestamp, _, _, size, _ = info
    assert last_offset >= log.log_end_offset, (last_offset, log.log_end_offset)
    params: RollParams = _new_tuple(
        RollParams,
        (log.segment_ms, log.config.segment_bytes, max_timestamp, last_offset, size, now_ms),
    )
    try:
        active = log.segments.active
        if should_roll(active, params):
            active = roll_at(log, first_offset, now_ms)
        elif not log.files.is_active_open:
            log.files.activate()
        active.append(last_offset, max_timestamp, offset_of_max_timestamp, data)
    except StorageError as error:
        if error.is_out_of_space:
            log.environment.on_full(log.directory, error, size)
        raise log.failed(error) from error
    log.log_end_offset = last_offset + 1


def _take_back(log: LocalLog, end_offset: int, now_ms: int, error: BaseException) -> None:
    """An append ended in `error`: the log ends where it did before, or takes no more appends.

    A KafkaError is what the disk refused at the write, which has left nothing behind. Other
    refusals of the disk are raised as one.
    """
    if isinstance(error, KafkaError):
        return
    try:
        log.cut_at(end_offset, now_ms)
    except StorageError as second:
        log.failed(second)  # where that passes, the next append begins with the cut
    except Exception:
        log.failed(StorageError(log.directory, "cut", EIO))
    if isinstance(error, StorageError):
        raise log.failed(error) from error
