"""The result of an append to one partition. A value; a refusal is its `error_code`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kbroker.errors import ErrorCode
from kbroker.log.producers.log_append_info import RecordError
from kbroker.model import TopicPartition

REQUIRED_ACKS_ALL = -1


@dataclass(slots=True, eq=False, repr=False)
class PartitionProduceResult:
    """The answer for one partition. Offsets are -1 if none is known, times in milliseconds."""

    topic_partition: TopicPartition
    error_code: ErrorCode = ErrorCode.NONE
    base_offset: int = -1
    last_offset: int = -1  # inclusive
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    error_message: str | None = None
    record_errors: Sequence[RecordError] = ()
