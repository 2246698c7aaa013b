"""Takes batches apart one record at a time, through `kbroker.record`: every format, any content.

Slow, and right: the way of the old formats, and of batches that the fast way does not vouch for.
"""

from __future__ import annotations

from itertools import chain
from typing import Final

import numpy as np
import pyarrow as pa

from kbroker.errors import ErrorCode, KafkaError
from kbroker.pipeline.logdir.batch_headers import BatchHeaders
from kbroker.pipeline.logdir.columns import HEADERS
from kbroker.pipeline.logdir.decoded_records import DecodedRecords
from kbroker.pipeline.logdir.java_text import java_text
from kbroker.record.default_record import Headers, Record
from kbroker.record.legacy_record import any_records

MAX_DECOMPRESSED_BYTES: Final = 256 * 1024 * 1024  # of one batch


def read_records(buffer: bytes, start: int) -> list[Record]:
    """The records of the batch at `start`; KafkaError where they are broken."""
    try:
        return list(any_records(buffer, start, MAX_DECOMPRESSED_BYTES))
    except OverflowError as error:
        raise KafkaError(ErrorCode.INVALID_RECORD, str(error)) from error


def decode_tuples(batches: list[list[Record]], headers: BatchHeaders) -> DecodedRecords:
    """The records of each of these batches as columns."""
    records = list(chain.from_iterable(batches))
    counts = [len(batch) for batch in batches]
    return DecodedRecords(
        batch=np.repeat(np.arange(len(counts), dtype=np.int64), counts),
        headers=headers,
        offset=np.array([_wrapped(record.offset) for record in records], np.int64),
        timestamp_ms=np.array([_wrapped(record.timestamp) for record in records], np.int64),
        key=pa.array([record.key for record in records], pa.binary()),
        value=pa.array([record.value for record in records], pa.binary()),
        record_headers=pa.array([_headers(record.headers) for record in records], HEADERS),
    )


def _wrapped(number: int) -> int:
    """A sum as Java has it, in 64 bits."""
    return (number + 2**63) % 2**64 - 2**63


def _headers(headers: Headers) -> list[dict[str, str | bytes | None]] | None:
    if not headers:
        return None
    return [
        {"key": java_text(key.encode("utf-8", "surrogateescape")), "value": value}
        for key, value in headers
    ]
