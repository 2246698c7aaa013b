"""Data directories with one partition of `__consumer_offsets`, and what each batch in it says:
several segments, old and new formats, codecs, transactions with their markers, compaction between;
stopped cleanly or killed.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from kbroker.config.log_config import LogConfig
from kbroker.config.topic_config import TopicConfig
from kbroker.coordinator.group.group import Group
from kbroker.coordinator.group.group_state import GroupState
from kbroker.coordinator.group.member import Member
from kbroker.coordinator.group.offsets import CommittedOffset
from kbroker.coordinator.group.records import (
    group_metadata,
    group_metadata_key,
    offset_commit_key,
    offset_commit_value,
)
from kbroker.log.directories.log_directories import LogDirectories
from kbroker.log.disk.temporary_file_system import TemporaryFileSystem
from kbroker.log.manager.log_manager import LogManager
from kbroker.log.partition.log import Log
from kbroker.log.producers.log_append_info import AppendOrigin
from kbroker.model import GROUP_METADATA_TOPIC, TopicPartition
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
from tests.fakes.brokers.group_broker import SUBSCRIPTION
from tests.fakes.logs.log_cleaning import clean
from tests.fakes.logs.log_maker import NOW_MS, FixedClock, remove_deleted_files
from tests.fakes.logs.verified_batches import verified

CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAA"
OFFSETS = TopicPartition(GROUP_METADATA_TOPIC, 0)
TOPIC_ID = UUID(int=0x5EED << 96 | 0x0FF5)
_SETTINGS: dict[str, Any] = {
    "segment_bytes": 3000,
    "index_interval_bytes": 300,
    "cleanup_policy": ["compact"],
    "file_delete_delay_ms": 0,
}
_CODECS = (0, 0, 1, 2, 3, 4)

Key = tuple[str, int]  # group, partition of t; partition -1 is the group's own record
Rows = dict[Key, int | None]  # offset or generation by key; None for a tombstone


@dataclass(frozen=True)
class Said:
    """What one batch says; with `ends_at` it counts when the marker at that offset commits."""

    rows: Rows
    ends_at: int | None = None
    is_aborted: bool = False


@dataclass
class Template:
    """A data directory and what is in it."""

    name: str
    directory: Path
    is_clean: bool
    settings: dict[str, Any]
    said: dict[int, Said] = field(default_factory=dict)  # by last offset of the batch
    end_offset: int = 0
    cleaned_end_offset: int | None = None


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
    writers: dict[str, Callable[[Log, random.Random], None]] = {
        "plain": _write_plain,
        "codecs": _write_codecs,
        "transactions": _write_transactions,
        "compacted": _write_compacted,
        "formats": _write_formats,
    }
    return [
        _make(home / f"{name}-{'clean' if is_clean else 'killed'}", is_clean, write, seed)
        for name, write in writers.items()
        for is_clean in (True, False)
    ]


def _make(
    directory: Path, is_clean: bool, write: Callable[[Log, random.Random], None], seed: int
) -> Template:
    living = directory if is_clean else directory.with_name(directory.name + "-living")
    manager = open_manager(living, _SETTINGS)
    manager.load(CLUSTER_ID, 0)
    log = manager.get_or_create_log(OFFSETS, TOPIC_ID)
    write(log, random.Random(seed))
    log.update_high_watermark(log.log_end_offset)
    template = Template(directory.name, directory, is_clean, _SETTINGS)
    template.said = dict(_what_is_said(log))
    template.end_offset = log.log_end_offset
    template.cleaned_end_offset = log.cleaned_end_offset
    remove_deleted_files(log, NOW_MS + 10_000)
    log.flush(log.segments[1].base_offset)
    manager.checkpoint_recovery_points()
    manager.checkpoint_log_start_offsets()
    manager.write_high_watermarks({OFFSETS: log.high_watermark})
    if not is_clean:
        shutil.copytree(living, directory)
    manager.shutdown()
    return template


# ---- writing


def _commit(rnd: random.Random, number: int, groups: str = "abcdefgh") -> Record:
    value = CommittedOffset(
        offset=number, metadata="m" * rnd.choice((0, 3, 40)), commit_timestamp_ms=NOW_MS
    )
    key = offset_commit_key(rnd.choice(groups), "t", rnd.randrange(3))
    is_tombstone = groups == "abcdefgh" and rnd.random() < 0.1
    return Record(0, NOW_MS, key, None if is_tombstone else offset_commit_value(value))


def _group_record(rnd: random.Random, number: int) -> Record:
    group_id = rnd.choice("abcd")
    if rnd.random() < 0.2:
        return Record(0, NOW_MS, group_metadata_key(group_id), None)
    group = Group(group_id, GroupState.STABLE)
    group.generation_id = number + 1
    member = Member(
        member_id=f"m-{number}",
        group_instance_id=None,
        client_id="c",
        client_host="/127.0.0.1",
        rebalance_timeout_ms=60_000,
        session_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[("range", SUBSCRIPTION)],
    )
    group.add(member)
    group.protocol_name = "range"
    return Record(0, NOW_MS, *group_metadata(group, {member.member_id: b"all"}))


def _placed(records: list[Record], first: int = 0) -> list[Record]:
    return [record._replace(offset=first + at) for at, record in enumerate(records)]


def _append(log: Log, batch: bytes) -> int:
    data = verified(log, bytearray(batch))
    return log.append_as_leader(data, 0, NOW_MS, origin=AppendOrigin.COORDINATOR).first_offset


def _write_plain(log: Log, rnd: random.Random) -> None:
    for number in range(100):
        make = _group_record if rnd.random() < 0.2 else _commit
        _append(log, build(_placed([make(rnd, number)])))


def _write_codecs(log: Log, rnd: random.Random) -> None:
    for number in range(60):
        rows = [_commit(rnd, number) for _ in range(rnd.randrange(1, 6))]
        options = BatchOptions(compression=rnd.choice(_CODECS), base_sequence=0)
        _append(log, build(_placed([*rows, _group_record(rnd, number)]), options=options))


def _write_transactions(log: Log, rnd: random.Random) -> None:
    """Groups of transactions and others are not the same ones."""
    sequences, open_rows = {7: 0, 8: 0, 9: 0}, {7: 0, 8: 0, 9: 0}
    for number in range(130):
        producer_id = rnd.choice((7, 8, 9, 0, 0))
        if not producer_id:
            _append(log, build(_placed([_commit(rnd, number)])))
        elif open_rows[producer_id] and rnd.random() < 0.4:
            options = BatchOptions(producer_id=producer_id, producer_epoch=0)
            marker = ControlRecord(rnd.random() < 0.6, 3)
            _append(log, build_marker(marker, NOW_MS, options=options))
            open_rows[producer_id] = 0
        else:
            rows = [_commit(rnd, number, f"xyz{producer_id}") for _ in range(rnd.randrange(1, 3))]
            options = BatchOptions(
                flags=TRANSACTIONAL_BIT,
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=sequences[producer_id],
                compression=rnd.choice(_CODECS),
            )
            sequences[producer_id] += len(rows)
            open_rows[producer_id] += len(rows)
            _append(log, build(_placed(rows), options=options))


def _write_compacted(log: Log, rnd: random.Random) -> None:
    _write_codecs(log, rnd)
    log.update_high_watermark(log.log_end_offset)
    clean(log, NOW_MS)
    _write_plain(log, rnd)


def _write_formats(log: Log, rnd: random.Random) -> None:
    offset = 0
    for number in range(75):
        rows = _placed([_commit(rnd, number) for _ in range(rnd.randrange(1, 4))], offset)
        magic = number // 25
        if magic == 2:
            data = build(rows, base_offset=offset)
        else:
            data = build_legacy(rows, magic, rnd.choice((0, 1, 2)))
        log.append_as_follower(data, NOW_MS)
        offset += len(rows)


# ---- reading


def _what_is_said(log: Log) -> Iterator[tuple[int, Said]]:
    """Yield what each batch says, by its last offset; read without the coordinator."""
    batches = [
        (header, list(any_records(view)))
        for segment in log.segments
        for _, header, view in segment.records.batches()
    ]
    for at, (header, records) in enumerate(batches):
        if header.is_control:
            yield header.last_offset, Said({})
            continue
        rows = {key: value for record in records for key, value in [_row(record)]}
        if not header.is_transactional:
            yield header.last_offset, Said(rows)
            continue
        marker = next(
            (later for later in batches[at:] if later[0].is_control
             and later[0].producer_id == header.producer_id), None,
        )  # fmt: skip
        ends_at = marker[0].base_offset if marker else 2**62
        is_aborted = marker is None or marker[1][0].key == b"\0\0\0\0"
        yield header.last_offset, Said(rows, ends_at, is_aborted)


def _row(record: Record) -> tuple[Key, int | None]:
    key, value = record.key or b"", record.value
    size = int.from_bytes(key[2:4])
    group = key[4 : 4 + size].decode()
    if key[1] == 2:
        return (group, -1), None if value is None else _generation(value)
    partition = int.from_bytes(key[-4:])
    return (group, partition), None if value is None else int.from_bytes(value[2:10])


def _generation(value: bytes) -> int:
    size = int.from_bytes(value[2:4])
    return int.from_bytes(value[4 + size : 8 + size])


def batch_ranges(path: Path) -> list[tuple[int, int, int]]:
    """(start, end, last offset) of the batches of a segment file, as written."""
    data, found, position = path.read_bytes(), [], 0
    while position < len(data):
        header = read_any_header(data, position)
        found.append((position, position + header.size_bytes, header.last_offset))
        position += header.size_bytes
    return found
