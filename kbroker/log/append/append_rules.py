"""The settings of a topic that an append goes by, its place, and how much of the event loop it may
take.

Law: values only; equal rules are one object, so comparing them costs an append nothing.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from kbroker.config.config_values import MAX_LONG
from kbroker.config.topic_config import TopicConfig
from kbroker.model import TopicPartition
from kbroker.record.compression import CODEC_IDS, GZIP, LZ4, NONE, SNAPPY, ZSTD
from kbroker.record.record_batch import MAGIC
from kbroker.record.record_stream import Pace


class AppendRules(NamedTuple):
    """The settings of a topic that say what happens to a produced batch."""

    max_message_bytes: int
    segment_bytes: int
    is_compacted: bool
    stamps_append_time: bool
    timestamp_before_max_ms: int
    timestamp_after_max_ms: int
    compression: int | None  # None: the producer's codec stays
    compression_level: int | None  # of that codec; None: its default
    magic: int  # the format that records are stored in
    walks_records: bool  # kbroker.record.validation=full
    opens_batches: bool  # one of the settings above needs more than the header

    @classmethod
    def of(cls, config: TopicConfig, *, walks_records: bool) -> AppendRules:
        """The rules that `config` makes."""
        is_compacted = config.is_compacted
        stamps = config.message_timestamp_type == "LogAppendTime"
        before = config.timestamp_before_max_ms_effective()
        after = config.timestamp_after_max_ms_effective()
        codec = (
            None if config.compression_type == "producer" else CODEC_IDS[config.compression_type]
        )
        magic = config.message_format
        opens = is_compacted or stamps or walks_records or codec is not None or magic != MAGIC
        rules = cls(
            config.max_message_bytes,
            config.segment_bytes,
            is_compacted,
            stamps,
            before,
            after,
            codec,
            config.compression_level,
            magic,
            walks_records,
            opens or before != MAX_LONG or after != MAX_LONG,
        )
        return _shared(rules)


@lru_cache(maxsize=256)
def _shared(rules: AppendRules) -> AppendRules:
    """One object for all logs with the same rules: thousands of partitions have few settings."""
    return rules


class AppendPlace(NamedTuple):
    """Where and when records are appended."""

    topic_partition: TopicPartition
    first_offset: int
    leader_epoch: int
    now_ms: int


class TakesLongError(Exception):
    """A batch that is not for the event loop: see `append_preparation`."""


# A walk of so many records, one by one, takes 0.5 ms, and up to 1 ms with long fields. As many
# steps of `walk_records` may be taken: twelve times as many records, if all have the same lengths.
AT_ONCE_RECORDS = 1_000
# Of plain bytes, by codec, beside one that is only copied: gzip unpacks 64 KiB in 0.25 ms.
BYTE_COSTS = {NONE: 1, GZIP: 64, SNAPPY: 8, LZ4: 8, ZSTD: 8}
RECOMPRESSION_COST = 512  # of a byte, beside all that
AT_ONCE_COST = BYTE_COSTS[GZIP] * 64 * 1024


class WorkLimit:
    """How much of a request's batches may be opened on the event loop. What was opened is taken
    off, so that a request takes no longer for having many partitions.
    """

    __slots__ = ("byte_cost", "records")
    pace: Pace | None = None

    def __init__(self, records: int = AT_ONCE_RECORDS, byte_cost: int = AT_ONCE_COST) -> None:
        self.records = records
        self.byte_cost = byte_cost

    def use_up(self) -> None:
        """Let nothing more be opened here."""
        self.records = self.byte_cost = 0


class WorkerThread(WorkLimit):
    """No limit; `pace` hears of each piece that was unpacked."""

    __slots__ = ("pace",)

    def __init__(self, pace: Pace | None = None) -> None:
        super().__init__()
        self.pace = pace


UNLIMITED = WorkerThread()
