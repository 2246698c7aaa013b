"""Appends of several batches: what a leader sent, what a coordinator writes, and message sets of
old clients once `message_set_append` has checked them.

Law: several batches go in as one write. Their CRCs are checked, except of those that this broker
has just built; their producers are not asked for sequences, and control batches end transactions:
the leader has accepted them already, and a follower that refused one would never catch up.
"""

from __future__ import annotations

from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.append.append_refusals import batch_too_large, larger_than_segment
from kbroker.log.append.append_rules import AppendPlace, AppendRules
from kbroker.log.producers.log_append_info import AppendOrigin, LogAppendInfo
from kbroker.log.producers.producer_replay import Marker, end_transaction, read_marker
from kbroker.log.producers.producer_state import ProducerStateManager
from kbroker.log.segments.log_segment import LogSegment
from kbroker.model import TopicPartition
from kbroker.record.built_batch import BuiltBatch
from kbroker.record.legacy_record import is_intact, read_any_header
from kbroker.record.record_batch import (
    CONTROL_BIT,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
    assign_log_append_time,
    assign_offset,
)

Markers = list[Marker | None]  # per batch


class TrustedBatches:
    """Whole batches in one buffer, with their headers; of messages that were converted to an old
    format, which may be many, with the one of the largest time and the last.

    `log_append_time` is reported to the producer; -1 if records keep their own time. `converted`
    records came in another format, or under another codec.
    """

    __slots__ = ("converted", "headers", "log_append_time", "records")

    def __init__(
        self,
        records: memoryview,
        headers: list[BatchHeader],
        log_append_time: int = -1,
        converted: int = 0,
    ) -> None:
        self.records = records
        self.headers = headers
        self.log_append_time = log_append_time
        self.converted = converted

    def info(self, log_end_offset: int, log_start_offset: int) -> LogAppendInfo:
        """Return the result of appending them at `log_end_offset`; offsets are -1 if there are
        none.
        """
        headers = self.headers
        if not headers:
            return LogAppendInfo(-1, -1, -1, -1, -1, log_start_offset, 0)
        largest = max(headers, key=lambda header: header.max_timestamp)
        # The header of a compressed old message does not say where it begins.
        is_old = headers[0].magic < MAGIC
        return LogAppendInfo(
            log_end_offset if is_old else headers[0].base_offset,
            headers[-1].last_offset,
            largest.max_timestamp,
            largest.last_offset,
            self.log_append_time,
            log_start_offset,
            len(self.records),
            converted=self.converted,
        )

    def assign_offsets(
        self, next_offset: int, leader_epoch: int, now_ms: int, rules: AppendRules
    ) -> None:
        """Write offsets, leader epoch and, if the topic wants it, the broker's time."""
        position = 0
        for index, header in enumerate(self.headers):
            header = header._replace(base_offset=next_offset, partition_leader_epoch=leader_epoch)
            assign_offset(self.records, position, next_offset, leader_epoch)
            if rules.stamps_append_time:
                assign_log_append_time(header, self.records, position, now_ms)
                header = header._replace(max_timestamp=now_ms)
            self.headers[index] = header
            position += header.size_bytes
            next_offset = header.next_offset

    def check_offsets(self, log_end_offset: int) -> bool:
        """True if the batches leave gaps after the log or one another. Raises KafkaError:
        OFFSET_OUT_OF_RANGE if they do not follow.
        """
        expected = log_end_offset
        is_gapless = True
        for header in self.headers:
            base_offset = header.base_offset
            if base_offset < expected:
                raise KafkaError(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"Offset {base_offset} does not rise above the end of the log, {expected}",
                )
            is_gapless = is_gapless and base_offset == expected
            expected = base_offset + header.last_offset_delta + 1
        return not is_gapless

    def validate(self, state: ProducerStateManager, origin: AppendOrigin) -> Markers:
        """Read the markers and refuse fenced producers and coordinators. KafkaError as
        `state.validate`.
        """
        markers: Markers = []
        position = 0
        is_checked = origin is not AppendOrigin.REPLICATION  # else it refuses nothing
        for header in self.headers:
            marker = None
            end = position + header.batch_length + LOG_OVERHEAD
            if header.producer_id >= 0:
                if header.attributes & CONTROL_BIT:
                    marker = read_marker(header, self.records[position:end])
                if is_checked:
                    control = marker.control if marker else None
                    state.validate(header, header.base_offset, origin, control)
            markers.append(marker)
            position = end
        return markers


def read_trusted(
    records: memoryview | bytearray | bytes,
    topic_partition: TopicPartition,
    rules: AppendRules,
    log_end_offset: int,
) -> TrustedBatches:
    """The whole batches of a buffer; one that is cut off at its end is left out. Raises KafkaError:
    CORRUPT_MESSAGE, RECORD_LIST_TOO_LARGE if an empty segment could not hold them.
    """
    view = memoryview(records)
    headers: list[BatchHeader] = []
    position = 0
    size = len(view)
    while size - position >= 17:  # up to the magic byte, which says how long the header is
        header = _header_at(view, position)
        if header is None:
            break
        end = position + header.batch_length + LOG_OVERHEAD
        if end > size:
            break
        if not is_intact(header, view, position):
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE,
                f"Record batch at offset {header.base_offset} is corrupt in topic partition "
                f"{topic_partition}, whose log ends at {log_end_offset}",
            )
        headers.append(header)
        position = end
    if position > rules.segment_bytes and len(headers) > 1:
        raise larger_than_segment(position, topic_partition, rules)
    return TrustedBatches(view[:position], headers)


def placed_batches(
    records: memoryview | bytearray, rules: AppendRules, place: AppendPlace
) -> TrustedBatches:
    """A coordinator's batches with offsets, leader epoch and, if the topic asks for it, the
    broker's time. They are held to the limits of a producer's: only batches that a leader has taken
    are exempt.

    KafkaError: see `read_trusted`; MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE.
    """
    return _placed(
        read_trusted(records, place.topic_partition, rules, place.first_offset), rules, place
    )


def built_batches(batch: BuiltBatch, rules: AppendRules, place: AppendPlace) -> TrustedBatches:
    """The same of a batch whose header is known. KafkaError: MESSAGE_TOO_LARGE,
    RECORD_LIST_TOO_LARGE.
    """
    return _placed(TrustedBatches(memoryview(batch), [batch.header]), rules, place)


def _placed(batches: TrustedBatches, rules: AppendRules, place: AppendPlace) -> TrustedBatches:
    for header in batches.headers:
        if header.size_bytes > rules.max_message_bytes:
            raise batch_too_large(header.size_bytes, place.topic_partition, rules)
    if len(batches.records) > rules.segment_bytes:
        raise larger_than_segment(len(batches.records), place.topic_partition, rules)
    batches.assign_offsets(place.first_offset, place.leader_epoch, place.now_ms, rules)
    return batches


def apply_trusted(
    state: ProducerStateManager, headers: list[BatchHeader], markers: Markers, segment: LogSegment
) -> None:
    """Record the batches that have been written to `segment`."""
    for header, marker in zip(headers, markers, strict=True):
        if header.producer_id < 0:
            continue
        if marker is not None:
            end_transaction(state, header, marker, segment.transaction_index)
        elif not header.attributes & CONTROL_BIT:
            base_offset = header.base_offset
            last_offset = base_offset + header.last_offset_delta
            state.update(header, base_offset, last_offset, header.max_timestamp)
    state.advance_to(headers[-1].next_offset)


def _header_at(view: memoryview, position: int) -> BatchHeader | None:
    try:
        return read_any_header(view, position)
    except KafkaError as error:
        if error.code == ErrorCode.INVALID_RECORD:
            return None  # cut off inside the header
        raise
