"""A coordinator at its start on a log that is damaged, cut short, or holds what is no record."""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable
from errno import EIO
from pathlib import Path

import pytest
from fastcrc.crc32 import iscsi as crc32c

from kbroker.coordinator.group.offsets import CommittedOffset
from kbroker.coordinator.group.records import (
    group_metadata_key,
    offset_commit_key,
    offset_commit_value,
)
from kbroker.errors import ErrorCode
from kbroker.log.disk.file_system import StorageError
from kbroker.log.partition.log import Log
from kbroker.log.partition.log_replay import LogReplay, ReplayGap
from kbroker.log.segments.file_records import RecordsSlice
from kbroker.model import GROUP_METADATA_TOPIC, TopicPartition
from kbroker.record.default_record import read_varint
from kbroker.record.record_batch import (
    ATTRIBUTES_POSITION,
    CONTROL_BIT,
    CRC_POSITION,
    HEADER_SIZE,
    TRANSACTIONAL_BIT,
    BatchOptions,
    ControlRecord,
    Record,
    build,
    build_marker,
)
from tests.fakes.brokers.disk_group_broker import (
    SMALL,
    append,
    commit,
    committed,
    flip,
    restarted,
    twenty_commits,
    writer_on,
)
from tests.fakes.brokers.disk_offsets_log import DiskOffsetsLog
from tests.fakes.brokers.group_broker import GroupBroker
from tests.fakes.logs.log_maker import NOW_MS, manager, open_log

OFFSETS = TopicPartition(GROUP_METADATA_TOPIC, 0)


@pytest.mark.parametrize("byte", [3, 7, 9, 16, 20, 60, 70], ids=lambda at: f"byte {at}")
@pytest.mark.parametrize("victim", [0, 3, 9, 19])
def test_a_damaged_batch_costs_what_is_in_it_and_nothing_else(
    tmp_path: Path, victim: int, byte: int
) -> None:
    broker = twenty_commits(tmp_path / "log")
    flip(tmp_path / "log", victim, broker.log(), byte=byte)

    after = restarted(broker, tmp_path / "log")

    names = [f"g{number}" for number in range(20)]
    assert committed(after, names) == {f"g{n}": n for n in range(20) if n != victim}


def test_what_was_skipped_is_said_once_with_offsets_and_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broker = twenty_commits(tmp_path / "log")
    path = flip(tmp_path / "log", 9, broker.log())

    with caplog.at_level(logging.WARNING, "kbroker.coordinator"):
        restarted(broker, tmp_path / "log")

    said = [record.getMessage() for record in caplog.records if record.name.startswith(
        "kbroker.coordinator")]  # fmt: skip
    assert said == [f"__consumer_offsets-0 was loaded without offsets 9 to 9 in {path} (damaged)"]


@pytest.mark.parametrize("number", [0, 1, -2, -1])
@pytest.mark.parametrize(
    "spoil", [lambda size: b"\0" * size, lambda size: b"\xa5" * size], ids=["zeros", "noise"]
)
def test_a_segment_that_is_unreadable_as_a_whole_costs_itself(
    tmp_path: Path, number: int, spoil: Callable[[int], bytes]
) -> None:
    broker = twenty_commits(tmp_path / "log")
    bases = [*broker.log().segments.base_offsets, 20]
    index = number % (len(bases) - 1)
    path = Path(broker.log().segments[index].records.path)
    path.write_bytes(spoil(path.stat().st_size))

    after = restarted(broker, tmp_path / "log")

    lost = range(bases[index], bases[index + 1])
    names = [f"g{number}" for number in range(20)]
    assert committed(after, names) == {f"g{n}": n for n in range(20) if n not in lost}
    commit(after, "new", 7)
    assert committed(after, ["new"]) == {"new": 7}


def test_commits_after_a_damaged_end_are_there_at_the_next_start(tmp_path: Path) -> None:
    broker = twenty_commits(tmp_path / "log")
    flip(tmp_path / "log", 19, broker.log())

    without_checkpoint = GroupBroker(lead=False)
    without_checkpoint.lead(DiskOffsetsLog(open_log(tmp_path / "log", **SMALL)))
    commit(without_checkpoint, "new", 7)
    without_checkpoint.log().close()
    after = restarted(without_checkpoint, tmp_path / "log")

    names = [f"g{number}" for number in range(20)]
    assert committed(after, [*names, "new"]) == {f"g{n}": n for n in range(19)} | {"new": 7}


def test_a_disk_that_does_not_give_a_segment_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = twenty_commits(tmp_path / "log")
    bases = broker.log().segments.base_offsets
    log = open_log(tmp_path / "log", recovery_point=20, **SMALL)
    refuse_slices(log, bases[1], monkeypatch)
    after = GroupBroker(lead=False)

    after.lead(DiskOffsetsLog(log))

    lost = range(bases[1], bases[2])
    names = [f"g{number}" for number in range(20)]
    assert committed(after, names) == {f"g{n}": n for n in range(20) if n not in lost}


def refuse_slices(log: Log, base_offset: int, monkeypatch: pytest.MonkeyPatch) -> None:
    path = log.segments[log.segments.floor_index(base_offset)].records.path
    read = RecordsSlice.read

    def refusing(records: RecordsSlice) -> bytes:
        if records.records.path == path:
            raise StorageError(path, "read", EIO)
        return read(records)

    monkeypatch.setattr(RecordsSlice, "read", refusing)


def test_what_this_process_wrote_itself_is_looked_at_as_closely(tmp_path: Path) -> None:
    broker = writer_on(tmp_path / "log")
    for number in range(20):
        commit(broker, f"g{number}", number)
    log = broker.log()
    segment = log.segments[log.segments.floor_index(7)]
    path = Path(segment.records.path)
    data = bytearray(path.read_bytes())
    data[segment.position_of(7) + 9] ^= 0x40  # its length
    path.write_bytes(data)

    broker.resign()
    broker.lead(log)

    names = [f"g{number}" for number in range(20)]
    assert committed(broker, names) == {f"g{n}": n for n in range(20) if n != 7}


def test_a_disk_without_descriptors_is_asked_again(tmp_path: Path) -> None:
    broker = twenty_commits(tmp_path / "log")
    log = open_log(tmp_path / "log", recovery_point=20, **SMALL)
    after = GroupBroker(lead=False)
    disk = DiskOffsetsLog(log)
    disk.refusals = 2

    after.lead(disk)
    assert after.groups.describe_group("g3")[0] is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    after.time.advance(1000)
    assert after.groups.describe_group("g3")[0] is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    after.time.advance(1000)

    assert committed(after, ["g3"]) == {"g3": 3}
    assert broker.log().log_end_offset == after.log().log_end_offset


@pytest.mark.parametrize("cleaned_end_offset", [None, 4, 5, 6])
def test_offsets_that_are_not_there_were_seen_by_the_cleaner_or_by_nobody(
    tmp_path: Path, cleaned_end_offset: int | None
) -> None:
    log = open_log(tmp_path / "log", **SMALL)
    for offset in (0, 1, 2, 3, 4, 7, 8):
        log.append_as_follower(build([Record(offset, NOW_MS, b"k", b"v")], base_offset=offset))
    log.offsets.cleaned_to(cleaned_end_offset)

    found = list(LogReplay(log))

    gaps = [(each.offset, each.next_offset) for each in found if isinstance(each, ReplayGap)]
    assert gaps == ([(5, 7)] if (cleaned_end_offset or 0) <= 5 else [])
    assert len(found) - len(gaps) == 7


def test_a_log_knows_from_its_load_on_how_far_it_was_cleaned(tmp_path: Path) -> None:
    place = tmp_path / str(OFFSETS)
    place.mkdir()
    (tmp_path / "cleaner-offset-checkpoint").write_text(f"0\n1\n{OFFSETS.topic} 0 5\n")
    logs = manager(tmp_path, **SMALL)

    logs.load("AAAAAAAAAAAAAAAAAAAAAA", 0)

    log = logs.get_log(OFFSETS)
    assert log is not None
    assert log.cleaned_end_offset == 5
    logs.shutdown()


# ---- records


def test_a_record_that_is_none_hides_no_neighbour(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broker = writer_on(tmp_path / "log", segment_bytes=1 << 20)
    value = offset_commit_value(CommittedOffset(offset=5, commit_timestamp_ms=NOW_MS))
    rows: list[tuple[bytes | None, bytes | None]] = [
        (offset_commit_key("a", "t", 0), value),
        (None, value),
        (b"", value),
        (b"\x00", value),
        (b"\x00\x01", value),
        (b"\x00\x63\x00\x01x", value),  # key version 99
        (b"\xff\xff\x00\x01x", value),
        (offset_commit_key("b", "t", 0)[:-2], value),
        (offset_commit_key("c", "t", 0), value[:5]),
        (offset_commit_key("d", "t", 0), b""),
        (offset_commit_key("e", "t", 0), b"\x00\x63" + value[2:]),
        (group_metadata_key("f"), b"\x00\x03"),
        (group_metadata_key("h"), b"\x00\x03" + b"\x7f" * 40),
        (b"\x00\x01\x00\x01\xff\x00\x01t\0\0\0\0", value),  # no UTF-8
        (offset_commit_key("z", "t", 0), value),
    ]  # fmt: skip
    batch = build([Record(at, NOW_MS, *row) for at, row in enumerate(rows)])
    append(broker, batch)

    with caplog.at_level(logging.WARNING):
        after = restarted(broker, tmp_path / "log", segment_bytes=1 << 20)

    assert committed(after, "abcdefhz") == {"a": 5, "z": 5}
    assert "skipped " in caplog.text


def test_a_record_with_broken_lengths_hides_no_neighbour(tmp_path: Path) -> None:
    broker = writer_on(tmp_path / "log")
    value = offset_commit_value(CommittedOffset(offset=5, commit_timestamp_ms=NOW_MS))
    whole = build(
        [
            Record(at, NOW_MS, offset_commit_key(name, "t", 0), value)
            for at, name in enumerate("abc")
        ]
    )
    append(broker, with_broken_record(whole, 1))

    after = restarted(broker, tmp_path / "log")

    assert committed(after, "abc") == {"a": 5, "c": 5}


def with_broken_record(batch: bytes, index: int) -> bytes:
    """Its key claims to be longer than its record; the checksum is right."""
    data, at = bytearray(batch), HEADER_SIZE
    for _ in range(index):
        length, start = read_varint(data, at)
        at = start + length
    _, start = read_varint(data, at)
    _, at = read_varint(data, start + 1, 10)
    _, key_length_at = read_varint(data, at)
    data[key_length_at] = 0x7E  # 63
    struct.pack_into(">I", data, CRC_POSITION, crc32c(bytes(data[ATTRIBUTES_POSITION:])))
    return bytes(data)


def test_a_group_record_that_makes_no_sense_leaves_the_older_one(tmp_path: Path) -> None:
    broker = writer_on(tmp_path / "log", segment_bytes=1 << 20)
    joined = broker.stable_member("g")
    append(broker, build([Record(0, NOW_MS, group_metadata_key("g"), b"\x00\x03\x00")]))

    after = restarted(broker, tmp_path / "log", segment_bytes=1 << 20)

    _, described = after.groups.describe_group("g")
    assert [each.member_id for each in described.members] == [joined.member_id]


# ---- transactions


@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize("goes_on", ["not at all", "commit", "abort", "open"])
def test_a_transaction_whose_marker_is_damaged_ended_as_it_ended(
    tmp_path: Path, is_commit: bool, goes_on: str
) -> None:
    broker = writer_on(tmp_path / "log", segment_bytes=1 << 20)
    transactional(broker, "a", 1, 0)
    marker_offset = end_transaction(broker, is_commit=is_commit)
    commit(broker, "other", 9)
    if goes_on != "not at all":
        transactional(broker, "b", 2, 1)
    if goes_on in ("commit", "abort"):
        end_transaction(broker, is_commit=goes_on == "commit")
    flip(tmp_path / "log", marker_offset, broker.log())

    after = restarted(broker, tmp_path / "log", segment_bytes=1 << 20)

    wanted = {
        "other": 9,
        **({"a": 1} if is_commit else {}),
        **({"b": 2} if goes_on == "commit" else {}),
    }
    assert committed(after, ["a", "b", "other"]) == wanted
    fetched = after.groups.offsets.fetch("a", [TopicPartition("t", 0)], True)
    assert fetched[0][1].error is ErrorCode.NONE


def test_a_transaction_that_begins_in_a_gap_is_another_one(tmp_path: Path) -> None:
    broker = writer_on(tmp_path / "log", segment_bytes=1 << 20)
    transactional(broker, "a", 1, 0)
    marker_offset = end_transaction(broker, is_commit=True)
    transactional(broker, "b", 2, 1)
    transactional(broker, "c", 3, 2)
    end_transaction(broker, is_commit=False)
    flip(tmp_path / "log", marker_offset, broker.log())
    flip(tmp_path / "log", marker_offset + 1, broker.log())

    after = restarted(broker, tmp_path / "log", segment_bytes=1 << 20)

    assert committed(after, ["a", "b", "c"]) == {"a": 1}


def test_a_transaction_that_goes_on_over_a_gap_is_one(tmp_path: Path) -> None:
    broker = writer_on(tmp_path / "log", segment_bytes=1 << 20)
    transactional(broker, "a", 1, 0)
    commit(broker, "other", 9)
    transactional(broker, "b", 2, 1)
    end_transaction(broker, is_commit=False)
    flip(tmp_path / "log", 1, broker.log())

    after = restarted(broker, tmp_path / "log", segment_bytes=1 << 20)

    assert committed(after, ["a", "b", "other"]) == {}


def test_a_marker_that_says_nothing_ends_no_load(tmp_path: Path) -> None:
    broker = writer_on(tmp_path / "log")
    commit(broker, "before", 1)
    cut = build([Record(0, NOW_MS, b"\0", b"")], options=BatchOptions(flags=CONTROL_BIT))
    broker.log().append(memoryview(bytearray(cut)))
    commit(broker, "behind", 2)
    broker.log().close()

    after = restarted(broker, tmp_path / "log")

    assert committed(after, ["before", "behind"]) == {"before": 1, "behind": 2}


_PRODUCER = 7


def transactional(broker: GroupBroker, group_id: str, offset: int, sequence: int) -> None:
    options = BatchOptions(
        flags=TRANSACTIONAL_BIT, producer_id=_PRODUCER, producer_epoch=0, base_sequence=sequence
    )
    value = offset_commit_value(CommittedOffset(offset=offset, commit_timestamp_ms=NOW_MS))
    key = offset_commit_key(group_id, "t", 0)
    broker.log().append(
        memoryview(bytearray(build([Record(0, NOW_MS, key, value)], options=options)))
    )


def end_transaction(broker: GroupBroker, *, is_commit: bool) -> int:
    options = BatchOptions(producer_id=_PRODUCER, producer_epoch=0)
    marker = build_marker(ControlRecord(is_commit, 0), NOW_MS, options=options)
    return broker.log().append(memoryview(bytearray(marker)))
