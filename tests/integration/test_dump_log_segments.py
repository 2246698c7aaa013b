"""Kafka's own segment dump tool reads what is written here: batches, indexes, snapshots."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from compat_tests.apache_kafka import NotAvailableError, jars, run_tool
from kbroker.log.log import Log
from kbroker.log.log_append_info import AppendOrigin
from kbroker.record.record_batch import (
    TRANSACTIONAL_BIT,
    BatchOptions,
    ControlRecord,
    build_marker,
)
from tests.fakes.log_maker import NOW_MS, batch, open_log

TOOL = "org.apache.kafka.tools.DumpLogSegments"
OLDER_TOOL = "kafka.tools.DumpLogSegments"
VERSION = "4.3.1"

pytestmark = pytest.mark.java


@pytest.fixture(scope="module", autouse=True)
def _tool_is_there() -> None:
    try:
        jars(VERSION)
    except NotAvailableError as error:
        pytest.skip(str(error))


def dump(*files: Path, options: tuple[str, ...] = ()) -> str:
    names = ",".join(str(file) for file in files)
    for main_class in (TOOL, OLDER_TOOL):
        done = run_tool(main_class, "--files", names, *options, version=VERSION)
        if "ClassNotFoundException" not in done.stderr:
            break
    assert done.returncode == 0, done.stderr
    assert "Exception" not in done.stderr, done.stderr
    return done.stdout


def filled(directory: Path) -> Log:
    """Several segments: all codecs, an idempotent producer, a commit and an abort."""
    log = open_log(directory, segment_bytes=1500, index_interval_bytes=200)
    for index in range(30):
        value = b"%03d" % index * 30
        data = batch(value, value, timestamp=NOW_MS + index * 1000, compression=index % 5)
        log.append_as_leader(data, index // 10, NOW_MS)
    for sequence in range(3):
        data = batch(b"i", producer_id=7, producer_epoch=1, base_sequence=sequence)
        log.append_as_leader(data, 3, NOW_MS)
    for pid, commit in ((8, True), (9, False)):
        data = batch(
            b"t", flags=TRANSACTIONAL_BIT, producer_id=pid, producer_epoch=0, base_sequence=0
        )
        log.append_as_leader(data, 3, NOW_MS)
        options = BatchOptions(producer_id=pid, producer_epoch=0)
        marker = bytearray(build_marker(ControlRecord(commit, 0), NOW_MS, options=options))
        log.append_as_leader(marker, 3, NOW_MS, origin=AppendOrigin.COORDINATOR)
    log.flush()
    return log


def test_the_dump_tool_accepts_logs_indexes_and_snapshots(tmp_path: Path) -> None:
    log = filled(tmp_path)
    bases = log.segments.base_offsets
    end_offset = log.log_end_offset
    log.close()

    batches = dump(*sorted(tmp_path.glob("*.log")), options=("--deep-iteration",))
    indexes = dump(*sorted(tmp_path.glob("*index")), options=("--index-sanity-check",))
    snapshots = dump(*sorted(tmp_path.glob("*.snapshot")))
    aborted = dump(*sorted(tmp_path.glob("*.txnindex")))

    offsets = [int(found) for found in re.findall(r"^\| offset: (\d+)", batches, re.MULTILINE)]
    assert len(bases) > 3
    assert offsets == list(range(end_offset))
    assert "isvalid: false" not in batches.lower()
    assert batches.count("isvalid: true") == 30 + 3 + 4
    assert set(re.findall(r"compresscodec: (\w+)", batches)) == {
        "none",
        "gzip",
        "snappy",
        "lz4",
        "zstd",
    }
    assert indexes.count("passed sanity check") == 2 * len(bases)
    assert "ismatch" not in indexes
    assert "producerId: 7 producerEpoch: 1" in snapshots
    assert "producerId: 9 firstOffset: 65 lastOffset: 66 lastStableOffset: 67" in aborted


def test_the_dump_tool_finds_every_index_entry_right(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.close()

    listing = dump(
        *sorted(tmp_path.glob("*.index")),
        *sorted(tmp_path.glob("*.timeindex")),
        options=("--verify-index-only",),
    )

    for complaint in (
        "Mismatches in",
        "Found timestamp",
        "Index file",
        "out of order",
        "non-consecutive",
    ):
        assert complaint not in listing, listing
