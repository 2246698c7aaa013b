"""Every log directory that Apache Kafka wrote, read as a Java client read it from the broker, and
its headers as Kafka's dump tool shows them.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

import pytest

from kbroker.log.disk.format import LOG_SUFFIX, TRANSACTION_INDEX_ENTRY, TRANSACTION_INDEX_SUFFIX
from kbroker.pipeline.envelope import RECORD_COLUMNS
from kbroker.pipeline.logdir.columns import HEADER_COLUMNS
from kbroker.pipeline.logdir.decode.header_columns import header_batches
from kbroker.pipeline.logdir.decode.record_columns import readable_record_batches
from kbroker.pipeline.logdir.segment_task import AbortedTransaction, ReadOptions, SegmentTask
from tests.golden import golden_logs
from tests.unit.pipeline.logdir.segment_rows import rows, stored

TYPES = {"CreateTime": 0, "LogAppendTime": 1, "NoTimestampType": -1}
COLUMNS = (*RECORD_COLUMNS, "leaderEpoch")
DUMPED = (*golden_logs.CLEAN, *golden_logs.COMPACTED, golden_logs.OLD_FORMATS)


def segments(name: str) -> Iterator[tuple[PurePosixPath, bytes]]:
    for path in sorted(golden_logs.files(name)):
        if path.endswith(LOG_SUFFIX) and "/" in path and "@metadata" not in path:
            yield PurePosixPath(path), golden_logs.files(name)[path]


def task_of(path: PurePosixPath, start: int, end: int, aborted: list[Any]) -> SegmentTask:
    topic, _, partition = path.parent.name.rpartition("-")
    return SegmentTask(
        directory=f"/data/{path.parent.name}",
        topic=topic,
        partition=int(partition),
        segment_base_offset=int(path.stem),
        start_position=0,
        end_position=0,
        start_offset=start,
        end_offset=end,
        aborted=tuple(aborted),
    )


def aborted_of(name: str, directory: str) -> list[AbortedTransaction]:
    return [
        AbortedTransaction(*entry[1:4])
        for path, data in golden_logs.files(name).items()
        if path.startswith(f"{directory}/") and path.endswith(TRANSACTION_INDEX_SUFFIX)
        for entry in TRANSACTION_INDEX_ENTRY.iter_unpack(data)
    ]


def found_rows(name: str, isolation: str) -> Iterator[dict[str, Any]]:
    ranges = {
        (row["topic"], row["partition"]): (row["start"], row["end"])
        for row in golden_logs.lines(name, "expected")
        if row["kind"] == "offsets" and row["isolation"] == isolation
    }
    for path, data in segments(name):
        topic, _, partition = path.parent.name.rpartition("-")
        bounds = ranges.get((topic, int(partition)))
        if bounds is None:
            continue
        aborted = aborted_of(name, path.parent.name) if isolation == "read_committed" else []
        disk, task = stored(data, task_of(path, *bounds, aborted))
        # What is behind the end of the log is no business of the decoder: planning leaves it out.
        batches = readable_record_batches(disk, task, ReadOptions(columns=COLUMNS), lambda _: None)
        yield from rows(batches)


def as_expected(row: dict[str, Any], isolation: str) -> dict[str, Any]:
    """A row in the words of the golden file."""
    names = {number: name for name, number in TYPES.items()}
    return {
        "kind": "record",
        "isolation": isolation,
        "topic": row["topic"],
        "partition": row["partition"],
        "offset": row["offset"],
        "timestamp": row["timestamp"] // 1000,
        "timestamp_type": names[row["timestampType"]],
        "leader_epoch": None if row["leaderEpoch"] == -1 else row["leaderEpoch"],
        "key": text(row["key"]),
        "value": text(row["value"]),
        "headers": [[header["key"], text(header["value"])] for header in row["headers"] or ()],
    }


def text(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize("name", golden_logs.IMAGES)
def test_records_are_those_a_java_client_read(name: str, isolation: str) -> None:
    wanted = [
        row
        for row in golden_logs.lines(name, "expected")
        if row["kind"] == "record" and row["isolation"] == isolation
    ]
    topics = {row["topic"] for row in wanted}

    found = [
        as_expected(row, isolation) for row in found_rows(name, isolation) if row["topic"] in topics
    ]

    assert wanted
    assert sorted(found, key=place) == sorted(wanted, key=place)


def place(row: dict[str, Any]) -> tuple[str, int, int]:
    return row["topic"], row["partition"], row["offset"]


def dumped(row: dict[str, Any], file: str) -> dict[str, Any]:
    """A header row as the dump tool shows the same batch."""
    type_name = {number: name for name, number in TYPES.items()}[row["timestampType"]]
    shown: dict[str, Any] = {
        "file": file,
        "position": row["position"],
        type_name: row["maxTimestamp"] // 1000,
        "size": row["sizeBytes"],
        "magic": row["magic"],
        "compresscodec": row["compression"],
        "crc": row["crc"],
    }
    if row["magic"] < 2:
        return shown | {"offset": row["lastOffset"]}
    horizon = row["baseTimestamp"] // 1000
    return shown | {
        "baseOffset": row["baseOffset"],
        "lastOffset": row["lastOffset"],
        "count": row["recordCount"],
        "baseSequence": row["baseSequence"],
        "lastSequence": row["lastSequence"],
        "producerId": row["producerId"],
        "producerEpoch": row["producerEpoch"],
        "partitionLeaderEpoch": row["leaderEpoch"],
        "isTransactional": row["isTransactional"],
        "isControl": row["isControl"],
        "deleteHorizonMs": (
            f"OptionalLong[{horizon}]" if row["hasDeleteHorizon"] else "OptionalLong.empty"
        ),
    }


@pytest.mark.parametrize("name", DUMPED)
def test_headers_are_those_kafkas_dump_tool_prints(name: str) -> None:
    files = {row["file"] for row in golden_logs.lines(name, "segments")}
    wanted = [
        {key: value for key, value in row.items() if key != "isvalid"}
        for row in golden_logs.lines(name, "segments")
        if row["file"].endswith(LOG_SUFFIX) and "@metadata" not in row["file"]
    ]

    found = []
    for path, data in segments(name):
        if str(path) in files:
            disk, task = stored(data, task_of(path, 0, 2**62, []))
            for row in rows(header_batches(disk, task, HEADER_COLUMNS)):
                assert row["crcValid"]
                found.append(dumped(row, str(path)))

    assert wanted
    key = "file", "position"
    assert sorted(found, key=lambda row: [row[k] for k in key]) == sorted(
        wanted, key=lambda row: [row[k] for k in key]
    )
