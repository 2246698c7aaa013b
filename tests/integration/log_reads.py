"""Reads a log as a consumer does, batch by batch, and hides what its isolation level hides."""

from __future__ import annotations

from collections.abc import Iterator

from kbroker.log.partition.log import Log
from kbroker.log.segments.fetch_data_info import FetchIsolation
from kbroker.log.segments.transaction_index import AbortedTxn
from kbroker.record.default_record import Record
from kbroker.record.legacy_record import any_records, read_any_header
from kbroker.record.record_batch import BatchHeader

_READ_BYTES = 1000


def visible_records(log: Log, isolation: FetchIsolation) -> Iterator[tuple[BatchHeader, Record]]:
    """Every record that a consumer of this isolation level sees, with the header of its batch."""
    committed = isolation == FetchIsolation.TXN_COMMITTED
    end_offset = log.last_stable_offset if committed else log.high_watermark
    offset = log.log_start_offset
    while offset < end_offset:
        info = log.read(offset, _READ_BYTES, isolation, min_one_message=True)
        data = info.records.read()
        if not data:
            return
        start = offset
        for header, batch in _whole_batches(data):
            offset = header.next_offset
            if not _is_hidden(header, info.aborted_transactions or []):
                for record in any_records(batch):
                    if record.offset >= start:
                        yield header, record


def _whole_batches(data: bytes) -> Iterator[tuple[BatchHeader, bytes]]:
    position = 0
    while len(data) - position >= 17:
        header = read_any_header(data + bytes(61), position)
        end = position + header.size_bytes
        if end > len(data):
            return
        yield header, data[position:end]
        position = end


def _is_hidden(header: BatchHeader, aborted: list[AbortedTxn]) -> bool:
    return header.is_control or (
        header.is_transactional
        and any(
            txn.producer_id == header.producer_id
            and txn.first_offset <= header.base_offset < txn.last_offset
            for txn in aborted
        )
    )
