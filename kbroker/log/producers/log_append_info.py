"""Values of an append: who writes, where the records landed, which were refused."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from kbroker.errors import ErrorCode, KafkaError


class AppendOrigin(IntEnum):
    """The writer of records; a client is trusted least."""

    REPLICATION = 0  # a follower storing what its leader sent: offsets and epochs stay
    COORDINATOR = 1  # group or transaction coordinator: may write control batches
    CLIENT = 2  # a Produce request
    OLD_CLIENT = 3  # one of version 0 to 2: any number of messages, the last may be cut off


class RecordError(NamedTuple):
    """Why one record of a batch was refused; `batch_index` counts its records from 0."""

    batch_index: int
    message: str


class InvalidRecordsError(KafkaError):
    """A batch refused because of single records: the Produce answer names them (KIP-467)."""

    def __init__(self, code: ErrorCode, message: str, record_errors: list[RecordError]) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors


class InvalidRecordSetError(KafkaError):
    """Not exactly one whole batch of format 2: refused before the log is asked, so the answer's log
    start offset is -1.
    """

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.INVALID_RECORD, message)


class LogAppendInfo(NamedTuple):
    """Where an append landed. Offsets are inclusive; times in milliseconds, -1 for none."""

    first_offset: int
    last_offset: int
    max_timestamp: int
    offset_of_max_timestamp: int
    log_append_time: int
    log_start_offset: int
    records_size_bytes: int
    duplicate: bool = False
    converted: int = 0  # records that were put into another format, or under another codec
