"""Cleaning the logs that Apache Kafka had before it cleaned them gives what it had afterwards.

Batch by batch the same bytes; of compressed ones the same records, as the codecs' libraries differ.
When Kafka's cleaner ran is not written down: how often it did follows from how the segments were
merged, and the times from the delete horizons in its files.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kbroker.config.topic_config import TopicConfig
from kbroker.log.disk.file_system import RealFileSystem
from kbroker.log.partition.log import Log
from kbroker.log.partition.log_state import LogEnvironment
from kbroker.log.recovery.load_request import LoadRequest
from kbroker.log.recovery.log_loader import load_log
from kbroker.model import TopicPartition
from kbroker.record.legacy_record import any_records
from kbroker.record.record_batch import BatchHeader
from tests.fakes.logs.log_cleaning import clean
from tests.golden import golden_logs

DAY_MS = 86_400_000
STARTED_MS = 1_795_251_500_000
TOPICS = (
    "c-plain",
    "c-tombstones-gone",
    "c-gzip",
    "c-snappy",
    "c-lz4",
    "c-zstd",
    "c-recode",
    "c-idempotent",
    "c-txn",
    "c-txn-gone",
    "c-delete",
)
# Two records close the active segment: "1" and "2" stand for their writing, "c" for a cleaning.
USUAL_ROUNDS = "c1c2c"
FIRST_ROUNDS = {
    ("3.9.2", "c-gzip"): "c1c2cc",
    ("3.9.2", "c-recode"): "c1c2cc",
    ("3.9.2", "c-delete"): "c1c2cc",
    ("3.9.2", "c-idempotent"): "1c2c",
    ("3.9.2", "c-txn"): "c12c",
    ("3.9.2", "c-txn-gone"): "c1c2cc",
    ("4.3.1", "c-gzip"): "c1c2cc",
    ("4.3.1", "c-snappy"): "c1c2cc",
    ("4.3.1", "c-zstd"): "c1c2cc",
    ("4.3.1", "c-idempotent"): "1c2c",
    ("4.3.1", "c-txn-gone"): "c1c2cc",
}

Stored = tuple[int, BatchHeader, object]


def retention_ms(topic: str) -> int:
    return 0 if topic.endswith("-gone") else DAY_MS


def open_log(name: str, topic: str, tmp_path: Path, now_ms: int) -> Log:
    directory = tmp_path / name / f"{topic}-0"
    directory.mkdir(parents=True)
    for path, content in golden_logs.files(name).items():
        if path.startswith(f"{topic}-0/"):
            (tmp_path / name / path).write_bytes(content)
    config = TopicConfig(
        cleanup_policy=("compact",),
        segment_bytes=1800,
        index_interval_bytes=200,
        segment_index_bytes=4096,
        segment_ms=2**62,
        delete_retention_ms=retention_ms(topic),
    )
    request = LoadRequest(
        topic_partition=TopicPartition(topic, 0),
        directory=str(directory),
        config=config,
        now_ms=now_ms,
        was_clean=True,
    )
    environment = LogEnvironment(
        file_system=RealFileSystem(), producer_id_expiration_ms=lambda: DAY_MS
    )
    log = load_log(request, environment)
    log.update_high_watermark(log.log_end_offset)
    return log


def batches(log: Log) -> list[tuple[int, BatchHeader, bytes]]:
    return [
        (segment.base_offset, header, bytes(view))
        for segment in log.segments
        for _, header, view in segment.records.batches()
    ]


def comparable(stored: list[tuple[int, BatchHeader, bytes]]) -> list[Stored]:
    return [
        (base, header._replace(crc=0, batch_length=0), tuple(any_records(batch)))
        if header.compression
        else (base, header, batch)
        for base, header, batch in stored
    ]


def cleaning_times(wanted: list[tuple[int, BatchHeader, bytes]], topic: str) -> list[int]:
    """When the horizons in these batches were set."""
    horizons = {header.delete_horizon_ms for _, header, _ in wanted} - {None}
    return sorted(horizon - retention_ms(topic) for horizon in horizons if horizon is not None)


def replay(log: Log, rounds: str, times: list[int], written: list[bytes]) -> None:
    for step in rounds:
        if step == "c":
            clean(log, times.pop(0))
            continue
        if step == "2":
            log.roll(times[0])
        log.append_as_follower(written[int(step) - 1])
        log.update_high_watermark(log.log_end_offset)


def check(
    log: Log, wanted: list[tuple[int, BatchHeader, bytes]], rounds: str, times: list[int]
) -> None:
    written = [batch for _, header, batch in wanted if header.base_offset >= log.log_end_offset]
    assert len(written) == 2
    replay(log, rounds, times, written)
    assert comparable(batches(log)) == comparable(wanted)
    names = {path.name for path in Path(log.directory).iterdir()}
    assert not [name for name in names if name.endswith((".cleaned", ".swap"))]


@pytest.mark.parametrize("version", ["3.9.2", "4.3.1"])
@pytest.mark.parametrize("topic", TOPICS)
def test_the_first_cleaning_gives_the_batches_that_kafka_has(
    version: str, topic: str, tmp_path: Path
) -> None:
    wanted = batches(open_log(f"{version}-compaction-after-1", topic, tmp_path, STARTED_MS))
    rounds = FIRST_ROUNDS.get((version, topic), USUAL_ROUNDS)
    times = cleaning_times(wanted, topic) or [STARTED_MS]
    missing = rounds.count("c") - len(times)
    if topic.startswith("c-txn"):  # markers get their horizon once their data has gone
        times = [times[0] - 1000] * missing + times
    else:
        times += times[-1:] * missing
    log = open_log(f"{version}-compaction-before", topic, tmp_path, times[0])

    check(log, wanted, rounds, times)


@pytest.mark.parametrize("version", ["3.9.2", "4.3.1"])
@pytest.mark.parametrize("topic", TOPICS)
def test_the_second_cleaning_gives_the_batches_that_kafka_has(
    version: str, topic: str, tmp_path: Path
) -> None:
    wanted = batches(open_log(f"{version}-compaction-after-2", topic, tmp_path, STARTED_MS))
    before = batches(open_log(f"{version}-compaction-after-1", topic, tmp_path, STARTED_MS))
    known = cleaning_times(before, topic) or [STARTED_MS]
    new = [time for time in cleaning_times(wanted, topic) if time > known[-1]]
    now_ms = new[0] if new else known[-1] + 40_000
    log = open_log(f"{version}-compaction-after-1", topic, tmp_path / "copy", now_ms)
    log.offsets.cleaned_to(before[-1][1].base_offset)

    check(log, wanted, USUAL_ROUNDS, [now_ms] * 3)
