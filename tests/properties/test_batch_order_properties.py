"""All readers of segment files go by one rule of which batches count: `record.batch_order`.

Here it stands a second time, over batches whose offsets and damage are known; the readers are given
the bytes: recovery, the audit of what was found, the Spark decoder, the end of a dead log, the
cleaner, `kbroker log verify`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbroker.config.topic_config import TopicConfig
from kbroker.inspection.data_directory import PartitionDirectory, PartitionView
from kbroker.inspection.directory_check import check_partition
from kbroker.inspection.finding import Findings, Severity
from kbroker.inspection.log_walk import CheckOptions
from kbroker.inspection.segment_scan import SegmentScan
from kbroker.log.cleaner.cleaning_job import SourceSegment
from kbroker.log.cleaner.segment_reader import DamagedSegmentError, read_batches
from kbroker.log.disk.format import MAX_RELATIVE_OFFSET, log_file
from kbroker.log.partition.log_state import LogEnvironment
from kbroker.log.recovery.load_request import LoadRequest
from kbroker.log.recovery.log_loader import load_log
from kbroker.log.segments.batch_audit import BatchAudit, recoverable_batches
from kbroker.log.segments.file_records import FileRecords
from kbroker.log.segments.log_segment import LogSegment
from kbroker.log.segments.segment_files import SegmentConfig
from kbroker.model import TopicPartition
from kbroker.pipeline.logdir.decode.record_columns import readable_record_batches
from kbroker.pipeline.logdir.directory.partition_log import Disk, find_log
from kbroker.pipeline.logdir.segment_task import ReadOptions, SegmentTask
from kbroker.record.batch_order import recoverable
from kbroker.record.legacy_builder import build_legacy
from kbroker.record.record_batch import BatchOptions, Record, assign_offset, build
from tests.fakes.disks.memory_file_system import MemoryFileSystem
from tests.fakes.logs.log_maker import NOW_MS

BASE = 100
END = BASE + MAX_RELATIVE_OFFSET + 1
DIRECTORY = "/data/t-0"
PARTITION = TopicPartition("t", 0)
GAPS_ANYWHERE = 2**62
CRC_END = 20  # the last byte of the checksum of format 2; formats before have a checked one there
GAP_CODES = ("gap", "segment-missing")
DAMAGE = ("moved", "moved", "crc", "length", "garbage", "cut")


class Part(NamedTuple):
    """What stands behind each other in a segment; no span: that is no whole batch, or its checksum
    is wrong.
    """

    data: bytes
    span: tuple[int, int] | None  # first and last offset, inclusive
    offsets: tuple[int, ...] = ()  # of its records
    epoch: int = 0

    def __repr__(self) -> str:
        return f"<{self.span} {self.offsets} epoch {self.epoch}, {len(self.data)} bytes>"


@st.composite
def sound_parts(draw: st.DrawFn, expected: int) -> Part:
    """A batch that begins with `expected`, or behind a gap; of some, records were cleaned away."""
    first = expected + draw(st.sampled_from([0, 0, 0, 1, 2, 30]))
    count = draw(st.integers(1, 4))
    value = draw(st.binary(max_size=40))
    if draw(st.integers(0, 5)) == 0:
        records = [Record(first + i, NOW_MS, b"k", value) for i in range(1)]
        return Part(build_legacy(records, 1), (first, first), (first,), -1)
    kept = draw(st.sets(st.integers(0, count - 1)))
    offsets = tuple(first + i for i in range(count) if i in kept or draw(st.booleans()))
    epoch = draw(st.sampled_from([0, 0, 0, 0, 1]))
    options = BatchOptions(last_offset=first + count - 1, partition_leader_epoch=epoch)
    records = [Record(offset, NOW_MS, b"k", value) for offset in offsets]
    data = build(records, base_offset=first, options=options)
    return Part(data, (first, first + count - 1), offsets, epoch)


@st.composite
def damaged(draw: st.DrawFn, part: Part) -> Part:
    """The same part with something done to it."""
    data = bytearray(part.data)
    kind = draw(st.sampled_from(DAMAGE))
    if kind == "moved":
        assert part.span is not None
        shift = draw(st.sampled_from([-200, -3, -2, -1, 1, 2, 3, 64, 2**31]))
        first, last = (offset + shift for offset in part.span)
        assign_offset(data, 0, first, part.epoch) if data[16] == 2 else data.__setitem__(
            slice(0, 8), first.to_bytes(8, "big", signed=True)
        )
        return Part(bytes(data), (first, last), tuple(o + shift for o in part.offsets), part.epoch)
    if kind == "crc":
        data[-1] ^= 1
    elif kind == "length":
        length = draw(st.sampled_from([0, -1, len(data) - 13, len(data) - 11, 4096, 2**31 - 1]))
        data[8:12] = length.to_bytes(4, "big", signed=True)
    elif kind == "cut":
        kept = draw(st.integers(1, len(data) - 1))
        data[kept:] = b"\xff"  # as no batch goes on
        if kept > CRC_END:
            data[CRC_END] ^= 1  # else the part behind it could make it whole again
    else:
        data = bytearray(draw(st.binary(min_size=1, max_size=90)))
    return Part(bytes(data), None)


@st.composite
def segments(draw: st.DrawFn, base: int = BASE, most_damage: int = 3) -> list[Part]:
    """Up to eight parts, of which so many are damaged."""
    parts: list[Part] = []
    expected = base
    for _ in range(draw(st.integers(0, 8))):
        part = draw(sound_parts(expected))
        assert part.span is not None
        expected = part.span[1] + 1
        parts.append(part)
    places = draw(st.sets(st.integers(0, 7), max_size=most_damage))
    places &= set(range(len(parts)))
    parts = [draw(damaged(part)) if i in places else part for i, part in enumerate(parts)]
    if parts and not places and most_damage and draw(st.booleans()):
        data = parts[-1].data
        parts[-1] = Part(data[: draw(st.integers(1, len(data) - 1))], None)
    return parts


def fits(span: tuple[int, int] | None, expected: int, end: int) -> bool:
    return span is not None and expected <= span[0] <= span[1] < end


def disproves(parts: Sequence[Part], index: int, expected: int, end: int) -> bool:
    """Whether the batch behind the one at `index` speaks against it."""
    span = parts[index].span
    behind = parts[index + 1].span if index + 1 < len(parts) else None
    assert span is not None
    if span[0] == expected or not fits(behind, expected, end):
        return False
    assert behind is not None
    return behind[0] <= span[1]


def counts(parts: Sequence[Part], index: int, expected: int, end: int = END) -> bool:
    """The rule."""
    return fits(parts[index].span, expected, end) and not disproves(parts, index, expected, end)


def beginning(parts: Sequence[Part], base: int = BASE, end: int = END) -> list[Part]:
    """The parts up to the first that does not count."""
    expected = base
    for index, part in enumerate(parts):
        if not counts(parts, index, expected, end):
            return list(parts[:index])
        assert part.span is not None
        expected = part.span[1] + 1
    return list(parts)


def all_that_count(parts: Sequence[Part]) -> list[Part]:
    """Those that count on both sides of damage."""
    found: list[Part] = []
    expected, index = BASE, 0
    while index < len(parts):
        part = parts[index]
        if counts(parts, index, expected):
            found.append(part)
            assert part.span is not None
            expected = part.span[1] + 1
        elif fits(part.span, expected, END):
            behind, after = parts[index + 1].span, parts[index + 2 : index + 3]
            next_offset = after[0].span[0] if after and after[0].span else END
            assert behind is not None
            index += behind[1] + 1 != next_offset
        index += 1
    return found


def size_of(parts: Sequence[Part]) -> int:
    return sum(len(part.data) for part in parts)


def offsets_of(parts: Sequence[Part]) -> list[int]:
    return [offset for part in parts for offset in part.offsets]


def stored(parts: Sequence[Part], base: int = BASE) -> MemoryFileSystem:
    disk = MemoryFileSystem()
    disk.make_directory(DIRECTORY)
    store(disk, parts, base)
    return disk


def store(disk: MemoryFileSystem, parts: Sequence[Part], base: int) -> None:
    disk.write_bytes(log_file(DIRECTORY, base), b"".join(part.data for part in parts))


def records_in(disk: MemoryFileSystem) -> FileRecords:
    return FileRecords(disk, log_file(DIRECTORY, BASE))


def decoded(disk: MemoryFileSystem, end: int = END) -> tuple[list[int], list[int]]:
    """Return what the Spark decoder reads: offsets, and positions that it left out."""
    task = SegmentTask(
        directory=DIRECTORY,
        topic="t",
        partition=0,
        segment_base_offset=BASE,
        start_position=0,
        end_position=disk.size(log_file(DIRECTORY, BASE)),
        start_offset=0,
        end_offset=2**62,
        segment_end_offset=end,
    )
    left_out: list[int] = []
    batches = readable_record_batches(
        disk, task, ReadOptions(columns=("offset",)), lambda error: left_out.append(error.position)
    )
    return [o for batch in batches for o in batch.column("offset").to_pylist()], left_out


def served(disk: MemoryFileSystem) -> list[int]:
    """Positions of the batches that a broker serves of a segment that it found."""
    segment = LogSegment(disk, DIRECTORY, BASE, SegmentConfig(), created_ms=0)
    segment.distrust(END)
    return [position for position, _ in segment.sound_headers()]


def audited(disk: MemoryFileSystem) -> list[tuple[int, int]]:
    """(position, end) of what an audit finds sound, neighbours together."""
    records = records_in(disk)
    found: list[tuple[int, int]] = []
    for start, end in BatchAudit(records, records.size_bytes, END).sound_stretches(BASE):
        begins = found.pop()[0] if found and found[-1][1] == start else start
        found.append((begins, end))
    return found


@settings(deadline=None)
@given(segments(), st.integers(BASE, BASE + 60) | st.just(END))
def test_all_readers_stop_at_the_same_batch(parts: list[Part], end: int) -> None:
    before = beginning(parts, end=end)
    disk = stored(parts)
    records = records_in(disk)
    audit = BatchAudit(records, records.size_bytes, end)

    recovered = list(recoverable_batches(records, BASE, end, gapless_from=GAPS_ANYWHERE))
    scan = SegmentScan(disk, records.path, checks_crc=True)
    scanned = list(recoverable(scan.intact(), BASE, end, gapless_from=GAPS_ANYWHERE))
    offsets, left_out = decoded(disk, end)

    assert audit.verify(0, BASE, records.size_bytes)[0] == size_of(before)
    assert sum(len(view) for _, _, _, view in recovered) == size_of(before)
    assert [position for _, _, position, _ in scanned] == [
        position for _, _, position, _ in recovered
    ]
    assert offsets[: len(offsets_of(before))] == offsets_of(before)
    assert left_out[:1] == ([size_of(before)] if len(before) < len(parts) else [])


@settings(deadline=None)
@given(segments(most_damage=1))
def test_one_damage_costs_no_other_batch(parts: list[Part]) -> None:
    found = all_that_count(parts)
    disk = stored(parts)

    assert decoded(disk)[0] == offsets_of(found)
    assert len(served(disk)) == len(found)
    assert sum(end - start for start, end in audited(disk)) == size_of(found)


@settings(deadline=None)
@given(segments(most_damage=6))
def test_behind_any_damage_all_readers_go_on_at_the_same_batches(parts: list[Part]) -> None:
    disk = stored(parts)
    records = records_in(disk)
    positions = [
        position for start, end in audited(disk) for position, _ in records.headers(start, end)
    ]

    offsets, _ = decoded(disk)

    assert served(disk) == positions
    by_position = dict(zip(starts(parts), parts, strict=True))
    assert all(position in by_position for position in positions)
    assert offsets == offsets_of([by_position[position] for position in positions])
    spans = [by_position[position].span or (0, 0) for position in positions]
    assert all(
        before[1] < after[0] for before, after in pairwise([(0, BASE - 1), *spans, (END, 0)])
    )


def starts(parts: Sequence[Part]) -> list[int]:
    return [size_of(parts[:index]) for index in range(len(parts))]


@settings(deadline=None)
@given(segments())
def test_who_takes_all_or_nothing_goes_by_the_rule_too(parts: list[Part]) -> None:
    is_sound = beginning(parts) == parts
    disk = stored(parts)
    path = log_file(DIRECTORY, BASE)

    assert cleans(disk) == is_sound
    findings = Findings()
    view = PartitionView(was_clean=True)
    options = CheckOptions(now_ms=NOW_MS, pause=lambda: None)
    check_partition(disk, PartitionDirectory(DIRECTORY, PARTITION, view), options, findings)
    told = {
        finding.code
        for finding in findings.all()
        if finding.path == path
        and finding.code not in GAP_CODES
        and (finding.severity is Severity.ERROR or finding.code == "segment-zeros")
    }
    assert (not told) == is_sound, told


def cleans(disk: MemoryFileSystem) -> bool:
    path = log_file(DIRECTORY, BASE)
    source = SourceSegment(BASE, path, disk.size(path), 0, 0, 0)
    try:
        list(read_batches(disk, source, 100, lambda _: None))
    except DamagedSegmentError:
        return False
    return True


@st.composite
def broken_logs(draw: st.DrawFn) -> MemoryFileSystem:
    """Up to three segments, each of which begins where the one before ends, or behind it."""
    disk = stored([])
    base = BASE
    for _ in range(draw(st.integers(1, 3))):
        parts = draw(segments(base, most_damage=1))
        store(disk, parts, base)
        ends = [part.span[1] for part in parts if part.span is not None and part.span[1] < 2000]
        base = max([base, *ends]) + 1 + draw(st.sampled_from([0, 0, 7]))
    return disk


@pytest.mark.parametrize("was_clean", [False, True])
@settings(deadline=None)
@given(
    broken_logs(),
    st.none() | st.integers(BASE - 1, BASE + 60),
    st.sampled_from([0, BASE, BASE + 1, BASE + 5, BASE + 20, 5000]),
)
def test_a_dead_brokers_log_ends_where_its_next_start_ends_it(
    was_clean: bool, disk: MemoryFileSystem, gapless_from: int | None, recovery_point: int
) -> None:
    view = PartitionView(
        was_clean=was_clean, recovery_point=recovery_point, gapless_from=gapless_from
    )
    directory = PartitionDirectory(DIRECTORY, PARTITION, view)
    found = find_log(Disk(disk), directory, is_live=False)
    request = LoadRequest(
        topic_partition=PARTITION,
        directory=DIRECTORY,
        config=TopicConfig(),
        now_ms=NOW_MS,
        recovery_point=recovery_point,
        gapless_from=gapless_from,
        was_clean=was_clean,
    )

    log = load_log(request, LogEnvironment(file_system=disk))

    assert found is not None
    assert found.end_offset == log.log_end_offset
