"""Data directories that rows were written into: written again after a kill, looked at, read back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kbroker.config.log_config import LogConfig
from kbroker.config.topic_config import TopicConfig
from kbroker.inspection.directory_check import check_data_directory
from kbroker.inspection.finding import Finding, Findings, Severity
from kbroker.inspection.log_walk import CheckOptions
from kbroker.log.directories.log_directories import LogDirectories
from kbroker.log.disk.file_system import FileSystem
from kbroker.log.manager.log_manager import LogManager
from kbroker.log.segments.fetch_data_info import FetchIsolation
from kbroker.model import TopicPartition
from kbroker.pipeline.restoring.logs.log_writing import LogWriting, WrittenDirectory, WrittenLog
from tests.fakes.archives.arrow_records import unplaced_batch
from tests.fakes.logs.log_maker import FixedClock
from tests.integration.log_reads import visible_records

CLUSTER_ID = "cluster-of-writing-0000"
BROKER_ID = 3
T0 = TopicPartition("t", 0)
SMALL: dict[str, Any] = {
    "segment_bytes": 2_000,
    "index_interval_bytes": 200,
    "segment_index_bytes": 4_096,
}

Rows = Sequence[dict[str, Any]]


def directory(path: str, **settings: Any) -> WrittenDirectory:
    return WrittenDirectory(
        path=path,
        cluster_id=CLUSTER_ID,
        broker_id=BROKER_ID,
        topic_config=lambda _: TopicConfig(**settings),
    )


def write_rows(
    file_system: FileSystem, path: str, rows: Rows, *, at_once: int = 20, **log: Any
) -> int:
    """Write rows of t-0, those that are not there yet, in pieces; where that began."""
    settings = log.pop("settings", SMALL)
    wanted = {
        "partition": T0,
        "start_offset": rows[0]["offset"] if rows else 0,
        "end_offset": rows[-1]["offset"] + 1 if rows else 0,
    }
    with LogWriting(directory(path, **settings), file_system) as writing:
        one = writing.open(WrittenLog(**wanted | log))
        begun = one.next_offset
        left = [row for row in rows if row["offset"] >= begun]
        pieces = (left[at : at + at_once] for at in range(0, len(left), at_once))
        one.write(unplaced_batch(piece) for piece in pieces)
    return begun


def read_rows(file_system: FileSystem, path: str, partition: TopicPartition = T0) -> list[tuple]:  # type: ignore[type-arg]
    """Return what a broker shows: (offset, time, kind of time, key, value, headers) of each record."""
    logs = LogManager(
        LogDirectories.lock(file_system, [path]), LogConfig, lambda _: TopicConfig(**SMALL),
        file_system, FixedClock(),
    )  # fmt: skip
    assert logs.load(CLUSTER_ID, BROKER_ID) == []  # nothing to recover
    log = logs.get_log(partition)
    assert log is not None
    log.update_high_watermark(logs.read_high_watermarks()[partition])
    found = [
        (record.offset, record.timestamp, header.timestamp_type, *record[2:])
        for header, record in visible_records(log, FetchIsolation.HIGH_WATERMARK)
    ]
    logs.shutdown()
    return found


def shown(rows: Rows) -> list[tuple]:  # type: ignore[type-arg]
    """Return what `read_rows` finds of these."""
    return [
        (
            row["offset"],
            row["timestamp"] // 1_000,
            int(row["timestampType"] == 1),
            row["key"],
            row["value"],
            tuple((each["key"], each["value"]) for each in row["headers"] or ()),
        )
        for row in rows
    ]


def findings_of(file_system: FileSystem, path: str) -> list[Finding]:
    """Return what `kbroker log verify` says, but notes."""
    findings = Findings()
    check_data_directory(file_system, path, CheckOptions(is_deep=True), findings)
    return [finding for finding in findings.all() if finding.severity > Severity.INFO]
