"""Batches and records of real Apache Kafka logs, all formats and codecs, read as Kafka's own tools
read them.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from typing import Any

import pytest

from kbroker.model import NO_TIMESTAMP
from kbroker.record.compression import CODEC_NAMES
from kbroker.record.legacy_record import any_records, is_intact, read_any_header
from kbroker.record.record_batch import BatchHeader, Record
from tests.fakes.logs.walked_batch import walk_batch
from tests.golden import golden_logs

DIRECTORIES = (*golden_logs.CLEAN, *golden_logs.COMPACTED, golden_logs.OLD_FORMATS)


def batches(data: bytes) -> Iterator[tuple[int, BatchHeader]]:
    position = 0
    while position < len(data):
        header = read_any_header(data, position)
        yield position, header
        position += header.size_bytes


def timestamp_name(header: BatchHeader) -> str:
    if header.magic == 0:
        return "NoTimestampType"
    return ("CreateTime", "LogAppendTime")[header.timestamp_type]


def dumped(header: BatchHeader, position: int) -> dict[str, Any]:
    """A header as Kafka's dump tool shows it."""
    row: dict[str, Any] = {
        "position": position,
        timestamp_name(header): header.max_timestamp,
        "size": header.size_bytes,
        "magic": header.magic,
        "compresscodec": CODEC_NAMES[header.compression],
        "crc": header.crc,
    }
    if header.magic < 2:
        return row | {"offset": header.last_offset}
    horizon = header.delete_horizon_ms
    return row | {
        "baseOffset": header.base_offset,
        "lastOffset": header.last_offset,
        "count": header.record_count,
        "baseSequence": header.base_sequence,
        "lastSequence": header.last_sequence,
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "partitionLeaderEpoch": header.partition_leader_epoch,
        "isTransactional": header.is_transactional,
        "isControl": header.is_control,
        "deleteHorizonMs": "OptionalLong.empty" if horizon is None else f"OptionalLong[{horizon}]",
    }


def log_files(name: str) -> Iterator[tuple[str, bytes]]:
    wanted = {row["file"] for row in golden_logs.lines(name, "segments")}
    for path, data in golden_logs.files(name).items():
        if path.endswith(".log") and path in wanted:
            yield path, data


@pytest.mark.parametrize("name", DIRECTORIES)
def test_headers_are_those_kafkas_dump_tool_prints(name: str) -> None:
    expected = [
        {key: value for key, value in row.items() if key not in {"file", "isvalid"}}
        | {"file": row["file"]}
        for row in golden_logs.lines(name, "segments")
        if row["file"].endswith(".log")
    ]

    found = [
        dumped(header, position) | {"file": path}
        for path, data in log_files(name)
        for position, header in batches(data)
    ]

    def order(row: dict[str, Any]) -> tuple[str, int]:
        return row["file"], row["position"]

    assert sorted(found, key=order) == sorted(expected, key=order)


@pytest.mark.parametrize("name", DIRECTORIES)
def test_every_checksum_of_a_clean_log_is_right(name: str) -> None:
    wrong = [
        (path, position)
        for path, data in log_files(name)
        for position, header in batches(data)
        if not is_intact(header, data, position)
    ]

    assert wrong == []


def expected_record(row: dict[str, Any]) -> Record:
    def decoded(text: str | None) -> bytes | None:
        return None if text is None else b64decode(text)

    headers = tuple((key, decoded(value)) for key, value in row["headers"])
    timestamp = NO_TIMESTAMP if row["timestamp"] is None else row["timestamp"]
    return Record(row["offset"], timestamp, decoded(row["key"]), decoded(row["value"]), headers)


@pytest.mark.parametrize("name", DIRECTORIES)
def test_records_are_those_a_java_client_read(name: str) -> None:
    rows = golden_logs.lines(name, "expected")
    starts = {
        f"{row['topic']}-{row['partition']}": row["start"]
        for row in rows
        if row["kind"] == "offsets"
    }
    expected = {
        (f"{row['topic']}-{row['partition']}", row["offset"]): expected_record(row)
        for row in rows
        if row["kind"] == "record" and row["isolation"] == "read_uncommitted"
    }

    found = {}
    for path, data in golden_logs.files(name).items():
        partition, _, file = path.partition("/")
        if file.endswith(".log") and partition in starts:
            for position, header in batches(data):
                if not header.is_control:
                    for record in any_records(data, position):
                        if record.offset >= starts[partition]:
                            found[partition, record.offset] = record

    assert found == expected


@pytest.mark.parametrize("name", golden_logs.CLEAN)
def test_full_validation_accepts_every_batch_clients_wrote(name: str) -> None:
    walked = 0
    for path, data in log_files(name):
        if not path.startswith(("compacted", "__")):
            for position, header in batches(data):
                max_timestamp = walk_batch(header, data[position:]).max_timestamp
                walked += header.record_count
                assert header.timestamp_type or max_timestamp == header.max_timestamp

    assert walked > 500
