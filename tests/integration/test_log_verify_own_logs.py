"""`log verify` finds nothing wrong with what kbroker itself writes, whatever the format, the codec,
the epochs, and however the log was cut, cleaned or left.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kbroker.inspection.data_directory import PartitionDirectory, PartitionView
from kbroker.inspection.finding import Finding, Findings, Severity
from kbroker.inspection.log_walk import CheckOptions
from kbroker.inspection.partition_check import PartitionCheck
from kbroker.log.disk.file_system import RealFileSystem
from kbroker.log.partition.log import Log
from kbroker.log.producers.log_append_info import AppendOrigin
from kbroker.model import NO_SEQUENCE
from kbroker.record.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from kbroker.record.default_record import Record
from kbroker.record.legacy_builder import build_legacy
from kbroker.record.record_batch import (
    TRANSACTIONAL_BIT,
    BatchOptions,
    ControlRecord,
    build_marker,
)
from tests.fakes.logs.log_cleaning import clean
from tests.fakes.logs.log_maker import NOW_MS, PARTITION, batch, delete_old_segments, open_log
from tests.fakes.logs.verified_batches import verified

SMALL = {"segment_bytes": 1_500, "index_interval_bytes": 200, "segment_index_bytes": 4_096}
FORMAT_VERSION = {0: "0.9.0", 1: "0.10.0"}


def worse(directory: Path, **view: object) -> list[Finding]:
    """All findings but notes."""
    findings = Findings()
    PartitionCheck(
        RealFileSystem(),
        PartitionDirectory(str(directory), PARTITION, PartitionView(**view)),
        CheckOptions(is_deep=True),
        findings,
    ).run()
    return [finding for finding in findings.all() if finding.severity > Severity.INFO]


def leave_open(_log: Log) -> None:
    """As a running broker has it."""


def stop(log: Log) -> None:
    log.flush()
    log.close()


LEFT = pytest.mark.parametrize("leave", [leave_open, stop])


def append(log: Log, count: int, *, leader_epoch: int = 0, first: int = 0, **options) -> None:
    for index in range(first, first + count):
        data = batch(
            b"a%d" % index * 20,
            b"b%d" % index,
            key=b"k%d" % (index % 7),
            timestamp=NOW_MS + index * 1_000,
            **options,
        )
        log.append_as_leader(verified(log, data), leader_epoch, NOW_MS)
    log.update_high_watermark(log.log_end_offset)


@LEFT
@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
def test_every_codec(codec: int, leave: Callable[[Log], None], tmp_path: Path) -> None:
    log = open_log(tmp_path, **SMALL)
    append(log, 60, compression=codec)
    leave(log)

    assert len(log.segments) > 3
    assert worse(tmp_path, was_clean=leave is stop) == []


@LEFT
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [NONE, GZIP, LZ4])
def test_old_formats(magic: int, codec: int, leave: Callable[[Log], None], tmp_path: Path) -> None:
    log = open_log(tmp_path, message_format_version=FORMAT_VERSION[magic], **SMALL)
    for index in range(40):
        records = [
            Record(n, NOW_MS + index * 1_000 + n, b"k", b"value %d" % index * 5) for n in range(3)
        ]
        data = bytearray(build_legacy(records, magic, codec))
        log.append_as_leader(data, 0, NOW_MS, origin=AppendOrigin.OLD_CLIENT)
    leave(log)

    assert len(log.segments) > 2
    assert worse(tmp_path, was_clean=leave is stop) == []


@LEFT
def test_several_epochs_and_a_cut(leave: Callable[[Log], None], tmp_path: Path) -> None:
    log = open_log(tmp_path, **SMALL)
    for epoch in range(4):
        append(log, 12, leader_epoch=epoch, first=epoch * 12)
    log.truncate_to(61, NOW_MS)
    append(log, 12, leader_epoch=7, first=40)
    leave(log)

    assert worse(tmp_path, was_clean=leave is stop) == []


@LEFT
def test_a_follower_that_gets_many_batches_at_once(
    leave: Callable[[Log], None], tmp_path: Path
) -> None:
    log = open_log(tmp_path, **SMALL)
    for turn in range(10):
        data = b"".join(
            bytes(batch(b"x" * 50, base_offset=turn * 6 + n, timestamp=NOW_MS + n * (-1) ** n))
            for n in range(6)
        )
        log.append_as_follower(data, NOW_MS)
    leave(log)

    assert len(log.segments) > 2
    assert worse(tmp_path, was_clean=leave is stop) == []


@LEFT
def test_transactions_of_several_producers(leave: Callable[[Log], None], tmp_path: Path) -> None:
    log = open_log(tmp_path, **SMALL)
    for turn in range(12):
        for producer_id in (1, 2, 3):
            fields = {"flags": TRANSACTIONAL_BIT, "producer_id": producer_id, "producer_epoch": 0}
            append(log, 1, first=turn, base_sequence=turn * 2, **fields)
        for producer_id in (1, 2) if turn % 3 else (1, 2, 3):
            options = BatchOptions(
                producer_id=producer_id, producer_epoch=0, base_sequence=NO_SEQUENCE
            )
            marker = build_marker(ControlRecord(producer_id == 1, 0), NOW_MS, options=options)
            log.append_as_leader(bytearray(marker), 0, NOW_MS, origin=AppendOrigin.COORDINATOR)
    log.update_high_watermark(log.log_end_offset)
    leave(log)

    assert list(tmp_path.glob("*.txnindex"))
    assert worse(tmp_path, was_clean=leave is stop) == []


@LEFT
def test_a_log_without_its_beginning(leave: Callable[[Log], None], tmp_path: Path) -> None:
    log = open_log(tmp_path, **SMALL)
    append(log, 60)
    log.maybe_increment_log_start_offset(55)
    delete_old_segments(log, NOW_MS)
    leave(log)

    assert log.segments[0].base_offset > 0
    assert worse(tmp_path, was_clean=leave is stop, log_start_offset=55) == []


@LEFT
@pytest.mark.parametrize("codec", [NONE, LZ4])
def test_a_cleaned_log(codec: int, leave: Callable[[Log], None], tmp_path: Path) -> None:
    log = open_log(tmp_path, cleanup_policy=("compact",), **SMALL)
    append(log, 60, compression=codec)
    log.roll(NOW_MS)
    done = clean(log, NOW_MS + 3_600_000)
    append(log, 10, first=60, compression=codec)
    leave(log)

    assert worse(tmp_path, was_clean=leave is stop, cleaner_offset=done.end_offset) == []


def test_a_log_that_was_recovered(tmp_path: Path) -> None:
    append(open_log(tmp_path, **SMALL), 60)
    active = max(tmp_path.glob("*.log"))
    active.write_bytes(active.read_bytes()[:-9])

    torn = [finding.code for finding in worse(tmp_path)]
    stop(open_log(tmp_path, was_clean=False, **SMALL))

    assert "batch-torn" in torn
    assert worse(tmp_path, was_clean=True) == []
