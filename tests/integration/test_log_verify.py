"""`log verify` over directories that Apache Kafka brokers wrote: nothing is said against sound ones,
every injury is found, nothing is changed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from kbroker.inspection.data_directory import partition_directory
from kbroker.inspection.directory_check import (
    check_data_directory,
    check_partition,
)
from kbroker.inspection.finding import Finding, Findings, Severity
from kbroker.inspection.log_walk import SERVED_UNREAD, CheckOptions, CheckTotals
from kbroker.log.disk.file_system import RealFileSystem
from tests.golden import golden_logs

SOUND = (*golden_logs.CLEAN, *golden_logs.COMPACTED, golden_logs.OLD_FORMATS)
CLEAN = golden_logs.CLEAN[0]
UNCLEAN = golden_logs.UNCLEAN[0]
TXN = "txn-0/00000000000000000008"


def unpack_part(name: str, target: Path, *partitions: str) -> Path:
    """The data directory's own files and these partitions."""
    for path, content in golden_logs.files(name).items():
        if "/" not in path or path.startswith(partitions):
            file = target / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
    return target


def check(directory: Path, *, deep: bool = True) -> tuple[list[Finding], CheckTotals]:
    findings = Findings()
    options = CheckOptions(is_deep=deep)
    totals = check_data_directory(RealFileSystem(), str(directory), options, findings)
    return findings.all(), totals


def found(directory: Path, file: str) -> list[tuple[str, str]]:
    """(severity, code) of what is worse than worth knowing, in one file."""
    return [
        (finding.severity.name, finding.code)
        for finding in check(directory)[0]
        if finding.severity > Severity.INFO and finding.path == f"{directory}/{file}"
    ]


@pytest.mark.parametrize("name", SOUND)
def test_nothing_is_said_against_a_sound_directory(name: str, tmp_path: Path) -> None:
    findings, _ = check(golden_logs.unpack(name, tmp_path))

    assert [f for f in findings if f.severity > Severity.INFO] == []


@pytest.mark.parametrize("name", golden_logs.UNCLEAN)
def test_an_unclean_stop_is_no_error(name: str, tmp_path: Path) -> None:
    findings, _ = check(golden_logs.unpack(name, tmp_path))

    assert [f for f in findings if f.severity is Severity.ERROR] == []


@pytest.mark.parametrize("name", golden_logs.DAMAGED)
def test_every_injury_is_found(name: str, tmp_path: Path) -> None:
    directory = golden_logs.unpack(name, tmp_path)

    findings, _ = check(directory, deep=False)

    told = {
        finding.path.removeprefix(f"{directory}/")
        for finding in findings
        if finding.severity > Severity.INFO
    }
    errors = {
        (finding.path.removeprefix(f"{directory}/"), finding.code)
        for finding in findings
        if finding.severity is Severity.ERROR
    }
    assert set(golden_logs.damage(name)) - told == set()
    assert errors == {
        ("plain-0/00000000000000000046.log", "batch-torn"),
        ("codec-zstd-0/00000000000000000042.log", "batch-crc"),
        ("append-time-0/00000000000000000025.log", "segment-garbage"),
    }


@pytest.mark.parametrize("name", [*golden_logs.CLEAN, golden_logs.OLD_FORMATS])
def test_all_batches_are_counted(name: str, tmp_path: Path) -> None:
    directory = golden_logs.unpack(name, tmp_path)

    _, totals = check(directory)

    files = list(directory.glob("*/*.log"))
    assert totals.segments == len(files)
    assert totals.size_bytes == sum(file.stat().st_size for file in files)
    assert totals.partitions == len({file.parent for file in files})


def test_nothing_is_changed(tmp_path: Path) -> None:
    directory = golden_logs.unpack(golden_logs.DAMAGED[0], tmp_path)

    def state() -> dict[str, tuple[int, int]]:
        paths = [directory, *directory.rglob("*")]
        return {str(p): (p.stat().st_mtime_ns, p.stat().st_size) for p in paths}

    before = state()
    check(directory)

    assert state() == before


def test_a_partition_is_judged_with_what_its_data_directory_says(tmp_path: Path) -> None:
    directory = golden_logs.unpack(golden_logs.DAMAGED[0], tmp_path)
    findings = Findings()

    totals = check_partition(
        RealFileSystem(),
        partition_directory(RealFileSystem(), str(directory / "plain-0")),
        CheckOptions(),
        findings,
    ).totals

    codes = {finding.code for finding in findings.all()}
    assert {"batch-torn", "high-watermark"} <= codes
    assert totals.partitions == 1


def flip(position: int, mask: int = 1) -> Callable[[bytes], bytes]:
    """Turn bits of one byte; negative positions count from the end."""

    def change(data: bytes) -> bytes:
        at = position % len(data)
        return data[:at] + bytes([data[at] ^ mask]) + data[at + 1 :]

    return change


def cut(size: int) -> Callable[[bytes], bytes]:
    return lambda data: data[:-size]


def replaced(old: bytes, new: bytes) -> Callable[[bytes], bytes]:
    def change(data: bytes) -> bytes:
        assert old in data
        return data.replace(old, new, 1)

    return change


CRC = ("ERROR", "batch-crc")
# (file, injury, what has to be among the findings for that file)
INJURIES = [
    (f"{TXN}.log", flip(7), ("ERROR", "batch-order")),  # base offset
    (f"{TXN}.log", flip(11), CRC),  # length
    (f"{TXN}.log", flip(16, 0x80), ("ERROR", "segment-garbage")),  # magic
    (f"{TXN}.log", flip(20), CRC),  # the CRC itself
    (f"{TXN}.log", flip(22), CRC),  # attributes
    (f"{TXN}.log", flip(60), CRC),  # record count
    (f"{TXN}.log", flip(-1), CRC),
    (f"{TXN}.log", cut(1), ("ERROR", "batch-torn")),
    (f"{TXN}.log", cut(70), ("ERROR", "batch-torn")),
    (f"{TXN}.index", flip(3), ("ERROR", "index-entry")),  # an offset
    (f"{TXN}.index", flip(7), ("ERROR", "index-entry")),  # a position
    (f"{TXN}.index", cut(3), ("WARNING", "index-size")),
    (f"{TXN}.index", lambda data: data[8:] + data[:8], ("ERROR", "index-order")),
    (f"{TXN}.index", lambda data: data + b"\0" * 80, ("WARNING", "index-zeros")),
    (f"{TXN}.timeindex", flip(7), ("ERROR", "timeindex-entry")),  # a timestamp
    (f"{TXN}.timeindex", flip(8, 0x40), ("ERROR", "timeindex-beyond")),  # an offset
    (f"{TXN}.timeindex", cut(5), ("WARNING", "index-size")),
    (f"{TXN}.timeindex", cut(12), ("ERROR", "timeindex-short")),
    (f"{TXN}.txnindex", flip(1), ("WARNING", "txnindex-unreadable")),
    (f"{TXN}.txnindex", flip(9), ("ERROR", "txnindex-entry")),  # producer
    (f"{TXN}.txnindex", flip(17), ("ERROR", "txnindex-entry")),  # first
    (f"{TXN}.txnindex", flip(25), ("ERROR", "txnindex-missing")),  # last
    (f"{TXN}.txnindex", flip(33), ("ERROR", "txnindex-entry")),  # stable
    (f"{TXN}.txnindex", cut(1), ("WARNING", "txnindex-unreadable")),
    ("idempotent-0/00000000000000000062.snapshot", flip(20), ("WARNING", "snapshot")),
    ("idempotent-0/00000000000000000062.snapshot", flip(3), ("WARNING", "snapshot")),
    ("idempotent-0/00000000000000000062.snapshot", cut(1), ("WARNING", "snapshot")),
    ("idempotent-0/00000000000000000062.snapshot", lambda _: b"", ("WARNING", "snapshot")),
    ("epochs-0/leader-epoch-checkpoint", flip(0), ("WARNING", "epochs-unreadable")),
    ("epochs-0/leader-epoch-checkpoint", cut(4), ("WARNING", "epochs-unreadable")),
    ("epochs-0/leader-epoch-checkpoint", lambda _: b"0\n1\n99 0\n", ("WARNING", "epochs-wrong")),
    ("epochs-0/leader-epoch-checkpoint", lambda _: b"0\n2\n1 0\n0 9\n", ("WARNING", "epochs-order")),
    ("plain-0/partition.metadata", replaced(b": 0", b": 7"), ("ERROR", "partition-metadata")),
    ("plain-0/partition.metadata", cut(3), ("ERROR", "partition-metadata")),
    ("plain-0/partition.metadata", lambda _: b"", ("ERROR", "partition-metadata")),
    ("meta.properties", replaced(b"version=0", b"version=9"), ("ERROR", "meta-properties")),
    ("meta.properties", lambda _: b"\xff\xfe", ("ERROR", "meta-properties")),
    ("recovery-point-offset-checkpoint", flip(0), ("WARNING", "checkpoint-unreadable")),
    ("recovery-point-offset-checkpoint", cut(30), ("WARNING", "checkpoint-unreadable")),
    ("replication-offset-checkpoint", flip(2, 0x10), ("WARNING", "checkpoint-unreadable")),
    ("log-start-offset-checkpoint", cut(5), ("WARNING", "checkpoint-unreadable")),
    ("cleaner-offset-checkpoint", flip(0, 0x20), ("WARNING", "checkpoint-unreadable")),
]  # fmt: skip


@pytest.mark.parametrize(("file", "injury", "expected"), INJURIES)
def test_an_injury_to_any_kind_of_file_is_found(
    file: str, injury: Callable[[bytes], bytes], expected: tuple[str, str], tmp_path: Path
) -> None:
    directory = unpack_part(CLEAN, tmp_path, f"{file.partition('/')[0]}/")
    path = directory / file
    path.write_bytes(injury(path.read_bytes()))

    assert expected in found(directory, file)


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        (f"{TXN}.index", ("WARNING", "index-missing")),
        (f"{TXN}.timeindex", ("WARNING", "index-missing")),
        (f"{TXN}.txnindex", ("ERROR", "txnindex-missing")),
        (f"{TXN}.snapshot", ("WARNING", "snapshot-missing")),
        ("epochs-0/leader-epoch-checkpoint", ("WARNING", "epochs-missing")),
    ],
)
def test_a_missing_file_is_found(file: str, expected: tuple[str, str], tmp_path: Path) -> None:
    directory = unpack_part(CLEAN, tmp_path, f"{file.partition('/')[0]}/")
    (directory / file).unlink()

    assert expected in found(directory, file)


def test_a_missing_segment_is_found(tmp_path: Path) -> None:
    directory = unpack_part(CLEAN, tmp_path, "plain-", "txn-", "codec-none-", "odd-")
    middle = "codec-none-0/00000000000000000024"
    (directory / f"{middle}.log").unlink()

    findings, _ = check(directory)

    told = {(f.severity, f.code) for f in findings if "codec-none-0" in f.path and f.severity.value}
    assert (Severity.ERROR, "segment-missing") in told
    assert (Severity.WARNING, "index-orphan") in told


def test_a_checkpoint_beyond_the_end_of_its_log_is_found(tmp_path: Path) -> None:
    directory = unpack_part(CLEAN, tmp_path, "plain-", "txn-", "codec-none-", "odd-")
    for name in ("recovery-point", "replication", "log-start", "cleaner"):
        (directory / f"{name}-offset-checkpoint").write_bytes(b"0\n1\nplain 0 4711\n")

    told = {f.code: f.severity for f in check(directory)[0] if f.path == f"{directory}/plain-0"}

    assert told == {
        "recovery-point": Severity.WARNING,
        "high-watermark": Severity.WARNING,
        "log-start-offset": Severity.ERROR,
        "cleaner-offset": Severity.WARNING,
    }


def test_two_topic_ids_for_one_topic_are_found(tmp_path: Path) -> None:
    directory = unpack_part(CLEAN, tmp_path, "plain-", "txn-", "codec-none-", "odd-")
    other = (directory / "odd-0" / "partition.metadata").read_bytes()
    (directory / "plain-1" / "partition.metadata").write_bytes(other)

    assert ("ERROR", "topic-id") in found(directory, "plain-1/partition.metadata")


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("plain-0/00000000000000000000.log.deleted", "leftover"),
        ("plain-0/00000000000000000000.log.cleaned", "leftover"),
        ("plain-0/00000000000000000000.log.swap", "leftover-swap"),
        ("plain-0/leader-epoch-checkpoint.tmp", "leftover"),
        ("plain-0/notes.txt", "foreign"),
        ("plain-0/00000000000000000777.index", "index-orphan"),
        ("notes.txt", "foreign"),
        ("recovery-point-offset-checkpoint.tmp", "leftover"),
    ],
)
def test_leftovers_and_foreign_files_are_told(name: str, code: str, tmp_path: Path) -> None:
    directory = unpack_part(CLEAN, tmp_path, "plain-", "txn-", "codec-none-", "odd-")
    (directory / name).write_bytes(b"x" * 8)

    assert code in [f.code for f in check(directory)[0] if f.path == f"{directory}/{name}"]


@pytest.mark.parametrize("suffix", ["delete", "future", "stray"])
def test_directories_on_their_way_are_told_and_not_looked_into(suffix: str, tmp_path: Path) -> None:
    directory = unpack_part(CLEAN, tmp_path, "plain-", "txn-", "codec-none-", "odd-")
    moved = directory / f"gone-0.{'0af3' * 8}-{suffix}"
    moved.mkdir()
    (moved / "00000000000000000000.log").write_bytes(b"garbage")

    told = [f.code for f in check(directory)[0] if "gone-0" in f.path]

    assert told == ["moved-directory"]


@pytest.mark.parametrize(
    ("name", "expected"), [(CLEAN, Severity.ERROR), (UNCLEAN, Severity.WARNING)]
)
def test_what_the_next_start_rebuilds_is_a_warning(
    name: str, expected: Severity, tmp_path: Path
) -> None:
    directory = unpack_part(name, tmp_path, "txn-")
    (directory / "recovery-point-offset-checkpoint").write_bytes(b"0\n0\n")
    index = directory / f"{TXN}.index"
    index.write_bytes(flip(7)(index.read_bytes()))

    severities = {f.severity for f in check(directory)[0] if f.path == str(index)}

    assert severities == {expected}


def test_the_inside_of_batches_is_looked_at_on_demand(tmp_path: Path) -> None:
    """A record that claims another length, under a CRC that is right."""
    from kbroker.record.record_batch import ATTRIBUTES_POSITION, CRC_POSITION, crc32c

    directory = unpack_part(CLEAN, tmp_path, "plain-", "txn-", "codec-none-", "odd-")
    path = directory / f"{TXN}.log"
    data = bytearray(path.read_bytes())
    size = 12 + int.from_bytes(data[8:12], "big")
    data[61] ^= 0x04
    data[CRC_POSITION : CRC_POSITION + 4] = crc32c(bytes(data[ATTRIBUTES_POSITION:size])).to_bytes(
        4, "big"
    )
    path.write_bytes(data)

    shallow = [f.code for f in check(directory, deep=False)[0] if f.path == str(path)]
    deep = {f.code: f.advice for f in check(directory)[0] if f.path == str(path)}

    assert "batch-records" not in shallow
    assert deep["batch-records"] == SERVED_UNREAD  # recovery looks at checksums and offsets alone


def test_findings_can_be_written_as_json(tmp_path: Path) -> None:
    findings, _ = check(golden_logs.unpack(golden_logs.DAMAGED[0], tmp_path))

    assert json.dumps([(f.severity.name, f.code, f.path, f.what, f.advice) for f in findings])


_FIRST_MINUTE = ["recovery-point", "replication", "log-start", "cleaner"]


@pytest.mark.parametrize(
    ("emptied", "was_clean", "expected"),
    [
        (["recovery-point"], False, [Severity.WARNING]),
        (["replication"], False, [Severity.WARNING]),
        (["log-start"], False, [Severity.INFO]),
        (["log-start"], True, [Severity.WARNING]),
        (["cleaner"], True, []),  # Apache Kafka fills it when it first compacts
        (["cleaner"], False, []),
        (_FIRST_MINUTE[:3], False, []),
        (_FIRST_MINUTE, False, []),
        (_FIRST_MINUTE, True, [Severity.WARNING] * 3),  # a clean stop writes all but the last
    ],
)
def test_checkpoints_without_content_are_those_of_a_new_broker_or_emptied(
    emptied: list[str], was_clean: bool, expected: list[Severity], tmp_path: Path
) -> None:
    directory = unpack_part(CLEAN, tmp_path, "plain-")
    (directory / ".kafka_cleanshutdown").unlink(missing_ok=True)
    if was_clean:
        (directory / ".kafka_cleanshutdown").touch()
    for name in emptied:
        (directory / f"{name}-offset-checkpoint").write_bytes(b"")

    told = [f.severity for f in check(directory)[0] if f.code == "checkpoint-empty"]

    assert told == expected


def test_a_broker_killed_before_its_first_partition_had_a_high_watermark_is_sound(
    tmp_path: Path,
) -> None:
    directory = unpack_part(CLEAN, tmp_path, "plain-")
    (directory / ".kafka_cleanshutdown").unlink(missing_ok=True)
    (directory / "replication-offset-checkpoint").write_bytes(b"")
    (directory / "recovery-point-offset-checkpoint").write_text("0\n0\n")

    assert [f.code for f in check(directory)[0]] == []
