"""Data directories written by Apache Kafka 3.9.2 and 4.3.1: opened, read, recovered and left as
Kafka leaves them.

What a Java client read from each of them is in `*.expected.jsonl`; file sizes and checkpoints after
Kafka's own recovery are in `*.after-recovery.*`; a digest of every file after Kafka opened a copy and
stopped is in `*.after-restart.tsv`.
"""

from __future__ import annotations

import base64
from bisect import bisect_left
from pathlib import Path
from typing import Any

import pytest

from kbroker.config.log_config import LogConfig
from kbroker.config.topic_config import TopicConfig
from kbroker.log.directories.log_directories import LogDirectories
from kbroker.log.disk.file_system import RealFileSystem
from kbroker.log.manager.log_manager import LogManager
from kbroker.log.partition.log import Log
from kbroker.log.segments.fetch_data_info import FetchIsolation
from kbroker.model import TopicPartition
from tests.golden import golden_logs
from tests.integration.apache_tree import latest_epoch
from tests.integration.log_reads import visible_records

IMAGES = golden_logs.IMAGES
UNCLEAN = (*golden_logs.UNCLEAN, *golden_logs.DAMAGED)
WHEN_TAKEN_MS = 1_795_250_000_000
TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")

SMALL = TopicConfig(segment_bytes=1800, index_interval_bytes=200, segment_index_bytes=4096)
INTERNAL = TopicConfig(segment_bytes=6000, segment_index_bytes=4096)


class ClockThen:
    """The time when the directories were made."""

    def now_ms(self) -> int:
        return WHEN_TAKEN_MS

    def monotonic_ms(self) -> float:
        return 0.0


def opened(root: Path) -> LogManager:
    directories = LogDirectories.lock(RealFileSystem(), [str(root)])
    logs = LogManager(
        directories,
        LogConfig,
        lambda topic: INTERNAL if topic.startswith("__") else SMALL,
        RealFileSystem(),
        ClockThen(),
    )
    meta = directories.meta
    assert meta is not None
    assert meta.cluster_id is not None
    assert meta.broker_id is not None
    logs.load(meta.cluster_id, meta.broker_id)
    for log in logs.all_logs():
        log.update_high_watermark(log.log_end_offset)
    return logs


# Offset, timestamp and its type, leader epoch, key, value, headers.
Row = tuple[int, int, str, int | None, bytes | None, bytes | None, tuple[Any, ...]]


def consume(log: Log, isolation: FetchIsolation) -> list[Row]:
    """Return what a consumer of this isolation level sees from the log start on."""
    return [
        (
            record.offset,
            record.timestamp,
            TIMESTAMP_TYPES[header.timestamp_type] if header.magic else "NoTimestampType",
            None if header.partition_leader_epoch < 0 else header.partition_leader_epoch,
            *record[2:],
        )
        for header, record in visible_records(log, isolation)
    ]


def expected_row(row: dict[str, Any]) -> Row:
    headers = tuple((name, _bytes(value)) for name, value in row["headers"])
    place = (row["offset"], row["timestamp"], row["timestamp_type"], row["leader_epoch"])
    return (*place, _bytes(row["key"]), _bytes(row["value"]), headers)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


@pytest.mark.parametrize("image", IMAGES)
def test_every_record_and_offset_is_what_a_java_client_read(image: str, tmp_path: Path) -> None:
    expected = golden_logs.lines(image, "expected")
    logs = opened(golden_logs.unpack(image, tmp_path))
    levels = {
        "read_committed": FetchIsolation.TXN_COMMITTED,
        "read_uncommitted": FetchIsolation.HIGH_WATERMARK,
    }
    bounds = {
        (row["topic"], row["partition"], row["isolation"]): (row["start"], row["end"])
        for row in expected
        if row["kind"] == "offsets"
    }
    wanted: dict[tuple[str, int, str], list[Row]] = {key: [] for key in bounds}
    for row in expected:
        if row["kind"] == "record":
            wanted[row["topic"], row["partition"], row["isolation"]].append(expected_row(row))

    found_bounds = {}
    found: dict[tuple[str, int, str], list[Row]] = {}
    for topic, partition, isolation in bounds:
        log = logs.get_log(TopicPartition(topic, partition))
        assert log is not None
        committed = isolation == "read_committed"
        end = log.last_stable_offset if committed else log.high_watermark
        found_bounds[topic, partition, isolation] = (log.log_start_offset, end)
        # Of internal topics only the uncommitted records were noted.
        if not (committed and topic.startswith("__")):
            found[topic, partition, isolation] = consume(log, levels[isolation])
    logs.shutdown()

    assert found_bounds == bounds
    assert found == {key: rows for key, rows in wanted.items() if key in found}


@pytest.mark.parametrize("image", IMAGES)
def test_a_read_at_any_offset_starts_with_the_batch_that_holds_it(
    image: str, tmp_path: Path
) -> None:
    logs = opened(golden_logs.unpack(image, tmp_path))
    wanted, found = {}, {}
    for log in logs.all_logs():
        batches = [
            (header.last_offset, segment.records.read(position, header.size_bytes))
            for segment in log.segments
            for position, header in segment.records.headers()
        ]
        last_offsets = [last_offset for last_offset, _ in batches]
        for offset in range(log.log_start_offset, log.log_end_offset):
            key = (log.topic_partition, offset)
            wanted[key] = batches[bisect_left(last_offsets, offset)][1]
            found[key] = log.read(offset, 1, FetchIsolation.LOG_END, True).records.read()
    logs.shutdown()

    assert len(found) > 100
    assert found == wanted


@pytest.mark.parametrize("image", IMAGES)
def test_a_restart_leaves_every_byte_as_a_restart_of_kafka_leaves_it(
    image: str, tmp_path: Path
) -> None:
    root = golden_logs.unpack(image, tmp_path)
    epochs = {path.name: latest_epoch(path) for path in root.glob("*-*/")}

    logs = opened(root)
    for log in logs.all_logs():  # what becoming leader and the replica manager's stop do
        epoch = epochs[Path(log.directory).name]
        log.leader_epoch_cache.assign(epoch, log.log_end_offset)
    logs.write_high_watermarks({log.topic_partition: log.high_watermark for log in logs.all_logs()})
    logs.shutdown()

    found = golden_logs.digests(root)
    wanted = golden_logs.digests_after_restart(image)
    differing = {name for name in found | wanted if found.get(name) != wanted.get(name)}
    assert {name for name in differing if not belongs_to_kraft(image, name)} == set()


def belongs_to_kraft(image: str, name: str) -> bool:
    """Whether KRaft, or the cluster that opened the directory, decides this: its own log, the
    broker epoch in the marker, the leader epochs that every start of its controller raises.
    """
    ends = (".kafka_cleanshutdown", "leader-epoch-checkpoint", "bootstrap.checkpoint")
    is_decided_there = image.startswith("4.") and name.endswith(ends)
    return is_decided_there or name.startswith("__cluster_metadata-0/")


@pytest.mark.parametrize("image", UNCLEAN)
def test_recovery_leaves_files_of_the_sizes_that_kafka_leaves(image: str, tmp_path: Path) -> None:
    wanted = golden_logs.sizes_after_recovery(image)
    root = golden_logs.unpack(image, tmp_path)

    opened(root).shutdown()

    found = golden_logs.sizes(root)
    differing = {
        name
        for name in found.keys() | wanted.keys()
        if found.get(name) != wanted.get(name) and not belongs_to_kraft(image, name)
    }
    assert differing - {".kafka_cleanshutdown"} == set()


@pytest.mark.parametrize("image", [image for image in UNCLEAN if image.startswith("3.9")])
def test_recovery_finds_the_leader_epochs_that_kafka_finds(image: str, tmp_path: Path) -> None:
    checkpoints = golden_logs.checkpoints_after_recovery(image)
    root = golden_logs.unpack(image, tmp_path)

    opened(root).shutdown()

    epochs = {name for name in checkpoints if name.endswith("/leader-epoch-checkpoint")}
    assert epochs
    assert {name: (root / name).read_text() for name in epochs} == {
        name: checkpoints[name] for name in epochs
    }
    recovery = "recovery-point-offset-checkpoint"
    assert sorted((root / recovery).read_text().splitlines()) == sorted(
        checkpoints[recovery].splitlines()
    )
