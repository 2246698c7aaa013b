"""Data directories written by Apache Kafka 3.9.2 and 4.3.1: opened, read, recovered and left as
Kafka leaves them.

What a Java client read from each of them is in `*.expected.jsonl`; file sizes and checkpoints after
Kafka's own recovery are in `*.after-recovery.*`. Kafka differs in three things, each said at its
test.
"""

from __future__ import annotations

import base64
import gzip
import json
import tarfile
from bisect import bisect_left
from pathlib import Path
from typing import Any

import pytest

from kbroker.config.log_config import LogConfig
from kbroker.config.topic_config import TopicConfig
from kbroker.log.fetch_data_info import FetchIsolation
from kbroker.log.file_system import RealFileSystem
from kbroker.log.log import Log
from kbroker.log.log_manager import LogManager
from kbroker.log.transaction_index import AbortedTxn
from kbroker.model import TopicPartition
from kbroker.record.legacy_record import any_records, read_any_header

GOLDEN = Path(__file__).parents[2] / "golden" / "logs"
VERSIONS = ("3.9.2", "4.3.1")
CLEAN = [
    *(f"{version}-clean" for version in VERSIONS),
    *(f"3.9.2-compaction-{stage}" for stage in ("before", "after-1", "after-2")),
    "4.3.1-compaction-before",
    "4.3.1-compaction-after-1",
    "3.9.2-ibp28",
]
UNCLEAN = [f"{version}-{kind}" for version in VERSIONS for kind in ("unclean", "damaged")]
IMAGES = CLEAN + UNCLEAN
WHEN_TAKEN_MS = 1_795_250_000_000

SMALL = TopicConfig(segment_bytes=1800, index_interval_bytes=200, segment_index_bytes=4096)
INTERNAL = TopicConfig(segment_bytes=6000, segment_index_bytes=4096)


class ClockThen:
    """The time when the directories were made."""

    def now_ms(self) -> int:
        return WHEN_TAKEN_MS

    def monotonic_ms(self) -> float:
        return 0.0


def unpack(image: str, directory: Path) -> Path:
    with tarfile.open(GOLDEN / f"{image}.tar.gz") as archive:
        archive.extractall(directory, filter="data")
    for path in (directory, *directory.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return next(directory.rglob("meta.properties")).parent


def opened(root: Path) -> LogManager:
    logs = LogManager(
        [str(root)],
        LogConfig(),
        lambda topic: INTERNAL if topic.startswith("__") else SMALL,
        RealFileSystem(),
        ClockThen(),
    )
    meta = logs.open_directories()
    assert meta is not None
    assert meta.cluster_id is not None
    assert meta.broker_id is not None
    logs.load(meta.cluster_id, meta.broker_id)
    for log in logs.all_logs():
        log.update_high_watermark(log.log_end_offset)
    return logs


def golden_lines(image: str, name: str) -> list[dict[str, Any]]:
    with gzip.open(GOLDEN / f"{image}.{name}.jsonl.gz", "rt") as file:
        return [json.loads(line) for line in file]


def files(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and path.name != ".lock"
    }


Row = tuple[int, int, bytes | None, bytes | None]


def consume(log: Log, isolation: FetchIsolation, end_offset: int) -> list[Row]:
    """What a consumer of this isolation level sees from the log start on."""
    rows: list[Row] = []
    offset = log.log_start_offset
    while offset < end_offset:
        info = log.read(offset, 1000, isolation, min_one_message=True)
        data = info.records.read()
        if not data:
            break
        offset = _take(data, offset, info.aborted_transactions or [], rows)
    return rows


def _take(data: bytes, offset: int, aborted: list[AbortedTxn], rows: list[Row]) -> int:
    position = 0
    start = offset
    while len(data) - position >= 17:
        header = read_any_header(data + bytes(61), position)
        end = position + header.size_bytes
        if end > len(data):
            break
        hidden = header.is_control or (
            header.is_transactional
            and any(
                txn.producer_id == header.producer_id
                and txn.first_offset <= header.base_offset < txn.last_offset
                for txn in aborted
            )
        )
        if not hidden:
            rows += [
                (record.offset, record.timestamp, record.key, record.value)
                for record in any_records(data[position:end])
                if record.offset >= start
            ]
        offset = header.next_offset
        position = end
    return offset


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


@pytest.mark.parametrize("image", IMAGES)
def test_every_record_and_offset_is_what_a_java_client_read(image: str, tmp_path: Path) -> None:
    expected = golden_lines(image, "expected")
    logs = opened(unpack(image, tmp_path))
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
            wanted[row["topic"], row["partition"], row["isolation"]].append(
                (row["offset"], row["timestamp"], _bytes(row["key"]), _bytes(row["value"]))
            )

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
            found[topic, partition, isolation] = consume(log, levels[isolation], end)
    logs.shutdown()

    assert found_bounds == bounds
    assert found == {key: rows for key, rows in wanted.items() if key in found}


@pytest.mark.parametrize("image", IMAGES)
def test_a_read_at_any_offset_starts_with_the_batch_that_holds_it(
    image: str, tmp_path: Path
) -> None:
    logs = opened(unpack(image, tmp_path))
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


@pytest.mark.parametrize("image", CLEAN)
def test_opening_and_closing_a_clean_directory_changes_no_log(image: str, tmp_path: Path) -> None:
    root = unpack(image, tmp_path)
    before = files(root)

    opened(root).shutdown()

    after = files(root)
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    # Kafka, too, drops snapshots between segments when it opens a log, and rewrites these files.
    strays = {name for name in changed if name.endswith(".snapshot") and name not in after}
    rewritten = {
        ".kafka_cleanshutdown",
        "recovery-point-offset-checkpoint",
        "log-start-offset-checkpoint",
    }
    assert changed - strays <= rewritten


@pytest.mark.parametrize("image", UNCLEAN)
def test_recovery_leaves_the_files_that_kafka_leaves(image: str, tmp_path: Path) -> None:
    with gzip.open(GOLDEN / f"{image}.after-recovery.tsv.gz", "rt") as file:
        wanted = dict(line.split("\t") for line in file.read().splitlines()[1:])
    root = unpack(image, tmp_path)

    opened(root).shutdown()

    found = {name: str(len(content)) for name, content in files(root).items()}
    differing = {
        name
        for name in found.keys() | wanted.keys()
        if found.get(name) != wanted.get(name)
        and not name.startswith("__cluster_metadata")  # KRaft's own log is no log of ours
        and not name.endswith("leader-epoch-checkpoint")  # 4.3.1 raised the epoch when it came back
        and name != ".kafka_cleanshutdown"  # holds the broker epoch of KRaft
    }
    # Kafka throws away every snapshot behind the first segment it recovers, and so forgets a
    # transaction whose first records were compacted away: its abort is missing in the rebuilt
    # index.
    assert differing <= {
        "compacted-txn-0/00000000000000000010.snapshot",
        "compacted-txn-0/00000000000000000043.txnindex",
    }


@pytest.mark.parametrize("image", [f"3.9.2-{kind}" for kind in ("unclean", "damaged")])
def test_recovery_finds_the_leader_epochs_that_kafka_finds(image: str, tmp_path: Path) -> None:
    with gzip.open(GOLDEN / f"{image}.after-recovery.checkpoints.json.gz", "rt") as file:
        checkpoints = json.load(file)
    root = unpack(image, tmp_path)

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
