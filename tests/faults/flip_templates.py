"""Small data directories with one partition each, and what was acknowledged in them: several
segments, transactions, gaps as compaction leaves them, all message formats, several epochs; stopped
cleanly or killed.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from kbroker.config.log_config import LogConfig
from kbroker.config.topic_config import TopicConfig
from kbroker.log.directories.log_directories import LogDirectories
from kbroker.log.disk.temporary_file_system import TemporaryFileSystem
from kbroker.log.manager.log_manager import LogManager
from kbroker.log.partition.log import Log
from kbroker.log.producers.log_append_info import AppendOrigin
from kbroker.model import TopicPartition
from kbroker.record.legacy_builder import build_legacy
from kbroker.record.legacy_record import any_records, read_any_header
from kbroker.record.record_batch import (
    TRANSACTIONAL_BIT,
    BatchOptions,
    ControlRecord,
    Record,
    build,
    build_marker,
)
from tests.fakes.logs.log_maker import NOW_MS, FixedClock
from tests.fakes.logs.verified_batches import verified

CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAA"
PARTITION = TopicPartition("t", 0)
TOPIC_ID = UUID(int=0x5EED << 96 | 0xF1195)
_SETTINGS: dict[str, Any] = {"segment_bytes": 3000, "index_interval_bytes": 300}


@dataclass
class Template:
    """A data directory and what is in it."""

    name: str
    directory: Path
    is_clean: bool
    settings: dict[str, Any]
    records: dict[int, Record] = field(default_factory=dict)  # data records by offset
    batches: list[tuple[int, int]] = field(default_factory=list)  # (first, last offset) stored
    aborted: set[int] = field(default_factory=set)
    epochs: list[tuple[int, int]] = field(default_factory=list)
    start_offset: int = 0
    end_offset: int = 0
    last_stable_offset: int = 0


def open_manager(directory: Path, settings: dict[str, Any]) -> LogManager:
    """A manager over one data directory, whose logs are not loaded yet."""
    return LogManager(
        LogDirectories.lock(TemporaryFileSystem(), [str(directory)]),
        LogConfig,
        lambda _: TopicConfig(**settings),
        TemporaryFileSystem(),  # nothing here waits for the disk
        FixedClock(),
    )


def make_templates(home: Path, seed: int) -> list[Template]:
    """All kinds of directories, each cleanly stopped and killed."""
    writers: dict[str, tuple[Callable[[Log, random.Random], set[int]], dict[str, Any]]] = {
        "plain": (_write_plain, {}),
        "transactions": (_write_transactions, {}),
        "gaps": (_write_gaps, {"cleanup_policy": ["compact"]}),
        "formats": (_write_formats, {}),
        "one-segment": (_write_plain, {"segment_bytes": 1 << 20}),
    }
    return [
        _make(home / f"{name}-{'clean' if is_clean else 'killed'}", is_clean, write, extra, seed)
        for name, (write, extra) in writers.items()
        for is_clean in (True, False)
    ]


def _make(
    directory: Path,
    is_clean: bool,
    write: Callable[[Log, random.Random], set[int]],
    extra: dict[str, Any],
    seed: int,
) -> Template:
    settings = {**_SETTINGS, **extra}
    living = directory if is_clean else directory.with_name(directory.name + "-living")
    manager = open_manager(living, settings)
    manager.load(CLUSTER_ID, 0)
    log = manager.get_or_create_log(PARTITION, TOPIC_ID)
    template = Template(directory.name, directory, is_clean, settings)
    template.aborted = write(log, random.Random(seed))
    log.update_high_watermark(log.log_end_offset)
    _note(template, log)
    log.flush(log.segments[1].base_offset if len(log.segments) > 1 else 0)
    manager.checkpoint_recovery_points()
    manager.checkpoint_log_start_offsets()
    manager.write_high_watermarks({PARTITION: log.high_watermark})
    if not is_clean:
        shutil.copytree(living, directory)
    manager.shutdown()
    return template


def _note(template: Template, log: Log) -> None:
    for segment in log.segments:
        for _, header, view in segment.records.batches():
            records = list(any_records(view))
            first = header.base_offset if header.magic == 2 else records[0].offset
            template.batches.append((first, header.last_offset))
            if not header.is_control:
                template.records.update((record.offset, record) for record in records)
    template.epochs = [(e.epoch, e.start_offset) for e in log.leader_epoch_cache.entries]
    template.start_offset = log.log_start_offset
    template.end_offset = log.log_end_offset
    template.last_stable_offset = log.last_stable_offset


def _records(rnd: random.Random, first: int, count: int, time_ms: int) -> list[Record]:
    return [
        Record(
            first + i, time_ms + rnd.randrange(20), b"k%d" % rnd.randrange(9), rnd.randbytes(size)
        )
        for i in range(count)
        for size in [rnd.choice((5, 20, 60, 150))]
    ]


def _write_plain(log: Log, rnd: random.Random) -> set[int]:
    for number in range(60):
        records = _records(rnd, 0, rnd.randrange(1, 5), NOW_MS + number * 10)
        options = BatchOptions(compression=rnd.choice((0, 0, 0, 1, 3)))
        log.append_as_leader(bytearray(build(records, options=options)), number // 20, NOW_MS)
    log.update_high_watermark(log.log_end_offset)
    log.maybe_increment_log_start_offset(3)
    return set()


def _write_transactions(log: Log, rnd: random.Random) -> set[int]:
    aborted: set[int] = set()
    sequences = {7: 0, 8: 0, 9: 0}
    open_offsets: dict[int, list[int]] = {7: [], 8: [], 9: []}
    for number in range(90):
        time_ms = NOW_MS + number * 10
        producer_id = rnd.choice((7, 8, 9))
        if open_offsets[producer_id] and rnd.random() < 0.35:
            is_commit = rnd.random() < 0.5
            options = BatchOptions(producer_id=producer_id, producer_epoch=0)
            marker = build_marker(ControlRecord(is_commit, 3), time_ms, options=options)
            log.append_as_leader(bytearray(marker), 0, NOW_MS, origin=AppendOrigin.COORDINATOR)
            if not is_commit:
                aborted.update(open_offsets[producer_id])
            open_offsets[producer_id] = []
            continue
        records = _records(rnd, 0, rnd.randrange(1, 4), time_ms)
        options = BatchOptions(
            flags=TRANSACTIONAL_BIT,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequences[producer_id],
        )
        sequences[producer_id] += len(records)
        data = verified(log, bytearray(build(records, options=options)))
        info = log.append_as_leader(data, 0, NOW_MS)
        open_offsets[producer_id] += range(info.first_offset, info.last_offset + 1)
    return aborted


def _write_gaps(log: Log, rnd: random.Random) -> set[int]:
    offset = 0
    for number in range(60):
        offset += rnd.choice((0, 0, 1, 5, 40))
        records = _records(rnd, offset, rnd.randrange(1, 4), NOW_MS + number * 10)
        kept = records[:1] + [record for record in records[1:] if rnd.random() < 0.7]
        options = BatchOptions(partition_leader_epoch=number // 30, last_offset=records[-1].offset)
        log.append_as_follower(build(kept, base_offset=offset, options=options), NOW_MS)
        offset = records[-1].offset + 1
    return set()


def _write_formats(log: Log, rnd: random.Random) -> set[int]:
    offset = 0
    for number in range(60):
        records = _records(rnd, offset, rnd.randrange(1, 4), NOW_MS + number * 10)
        magic = number // 20
        if magic == 2:
            data = build(records, base_offset=offset)
        else:
            data = build_legacy(records, magic, rnd.choice((0, 1, 2)))
        log.append_as_follower(data, NOW_MS)
        offset += len(records)
    return set()


def batch_ranges(template: Template, path: Path) -> list[tuple[int, int, int, int]]:
    """(start, end, first offset, last offset) of the batches of a segment file, as written."""
    data = path.read_bytes()
    firsts = {last: first for first, last in template.batches}
    found = []
    position = 0
    while position < len(data):
        header = read_any_header(data, position)
        last = header.last_offset
        found.append((position, position + header.size_bytes, firsts[last], last))
        position += header.size_bytes
    return found
