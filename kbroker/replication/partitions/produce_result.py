"""The results of appends, as values; a refusal is the `error_code` of one partition."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

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


class AppendOutcome(NamedTuple):
    """The results of one request, in the order of its entries.

    They are final once `settled`, whose result they are, is done; without it they are final now.
    Until `appended` is done, records are still read; without it all are appended or refused.
    """

    results: list[PartitionProduceResult]
    settled: asyncio.Future[list[PartitionProduceResult]] | None = None
    appended: asyncio.Future[None] | None = None
