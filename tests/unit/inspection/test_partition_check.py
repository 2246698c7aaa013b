from __future__ import annotations

import os
import shutil
from errno import EACCES, EIO, ENOENT
from pathlib import Path

import pytest

from kbroker.inspection.content_check import SegmentPlace, check_content
from kbroker.inspection.data_directory import PartitionDirectory, PartitionView, partition_directory
from kbroker.inspection.directory_check import check_partition
from kbroker.inspection.disk_advice import OFFLINE, WHO_MAY_READ
from kbroker.inspection.finding import Finding, Findings, Severity
from kbroker.inspection.log_walk import CUT, DEAD, NOT_CUT, CheckOptions
from kbroker.inspection.partition_check import PartitionCheck
from kbroker.log.disk.file_system import RealFileSystem, StorageError
from kbroker.model import TopicPartition
from tests.unit.inspection.test_segment_scan import batch


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Two segments: offsets 0 to 3, and 4 to 5."""
    directory = tmp_path / "t-0"
    directory.mkdir()
    for base_offset, offsets in ((0, range(4)), (4, range(4, 6))):
        stem = directory / f"{base_offset:020d}"
        stem.with_suffix(".log").write_bytes(b"".join(batch(offset) for offset in offsets))
        stem.with_suffix(".index").write_bytes(b"")
        time_entry = (1000).to_bytes(8, "big") + bytes(4)
        stem.with_suffix(".timeindex").write_bytes(time_entry)
    empty_snapshot = b"\x00\x01\x48\x67\x4b\xc7\x00\x00\x00\x00"
    (directory / f"{4:020d}.snapshot").write_bytes(empty_snapshot)
    return directory


def place(directory: Path, **view) -> PartitionDirectory:
    return PartitionDirectory(str(directory), TopicPartition("t", 0), PartitionView(**view))


PLAIN = CheckOptions()


def check(directory: Path, options: CheckOptions = PLAIN, **view) -> list[Finding]:
    findings = Findings()
    PartitionCheck(RealFileSystem(), place(directory, **view), options, findings).run()
    return findings.all()


def test_a_sound_partition_has_no_findings(directory: Path) -> None:
    assert check(directory) == []


def test_a_directory_without_a_segment_is_looked_through(tmp_path: Path) -> None:
    assert check(tmp_path) == []


def test_a_batch_that_is_being_written_is_waited_for(directory: Path) -> None:
    active = directory / f"{4:020d}.log"
    whole = active.read_bytes() + batch(6, value=b"x" * 500)
    active.write_bytes(whole[:-200])
    pauses = []

    def finish_the_write() -> None:
        pauses.append(1)
        active.write_bytes(whole)

    assert check(directory, CheckOptions(pause=finish_the_write)) == []
    assert pauses == [1]


def test_a_torn_batch_stays_torn_after_some_pauses(directory: Path) -> None:
    active = directory / f"{4:020d}.log"
    active.write_bytes(active.read_bytes() + batch(6)[:-1])
    pauses = []

    (finding,) = check(directory, CheckOptions(pause=lambda: pauses.append(1)))

    assert (finding.code, finding.severity) == ("batch-torn", Severity.ERROR)
    assert 1 <= len(pauses) <= 10


@pytest.mark.parametrize(
    ("errno", "severity", "code"),
    [(ENOENT, Severity.INFO, "gone"), (EIO, Severity.ERROR, "file-unreadable")],
)
def test_a_segment_that_cannot_be_opened_does_not_end_the_check(
    directory: Path, monkeypatch, errno: int, severity: Severity, code: str
) -> None:
    plain = RealFileSystem.open

    def refuse(self, path, **how):
        if path.endswith(f"{0:020d}.log"):
            raise StorageError(path, "open", errno)
        return plain(self, path, **how)

    monkeypatch.setattr(RealFileSystem, "open", refuse)

    found = {finding.code: finding.severity for finding in check(directory)}

    assert found.pop(code) is severity
    assert "batch-order" not in found


@pytest.mark.parametrize(
    ("view", "advice"),
    [
        ({}, CUT),
        ({"was_clean": True}, NOT_CUT),
        ({"recovery_point": 3}, CUT),
        ({"recovery_point": 4}, NOT_CUT),
        ({"recovery_point": 6}, NOT_CUT),
    ],
)
def test_whether_the_log_will_be_cut_follows_the_recovery_point(
    directory: Path, view: dict, advice: str
) -> None:
    damage(directory / f"{0:020d}.log", 4)

    (finding,) = [f for f in check(directory, **view) if f.code == "batch-crc"]

    assert (finding.advice, finding.offset, finding.position) == (advice, 3, 3 * len(batch(0)))


@pytest.mark.parametrize(
    ("was_clean", "has_snapshot", "severity"),
    [
        (True, True, Severity.ERROR),
        (True, False, Severity.WARNING),
        (False, True, Severity.WARNING),
    ],
)
def test_an_end_that_is_missing_after_a_clean_stop_is_an_error(
    directory: Path, was_clean: bool, has_snapshot: bool, severity: Severity
) -> None:
    if has_snapshot:
        shutil.copy(directory / f"{4:020d}.snapshot", directory / f"{9:020d}.snapshot")

    findings = check(directory, was_clean=was_clean, recovery_point=9)

    told = [finding.severity for finding in findings if finding.code == "recovery-point"]
    assert told == [severity]


def damage(path: Path, batches: int) -> None:
    """The last byte of the first so many batches of one size."""
    data = bytearray(path.read_bytes())
    data[batches * len(batch(0)) - 1] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("damaged", "view", "expected"),
    [
        (4, {"was_clean": True, "log_start_offset": 4}, (Severity.INFO, DEAD)),
        (2, {"was_clean": True, "log_start_offset": 2}, (Severity.INFO, DEAD)),
        (2, {"recovery_point": 4, "log_start_offset": 3}, (Severity.INFO, DEAD)),
        (4, {"was_clean": True, "log_start_offset": 3}, (Severity.ERROR, NOT_CUT)),
        (2, {"was_clean": True, "log_start_offset": 1}, (Severity.ERROR, NOT_CUT)),
        (2, {"recovery_point": 3, "log_start_offset": 3}, (Severity.ERROR, CUT)),
        # a cleaner reads it
        (
            2,
            {"was_clean": True, "log_start_offset": 3, "cleaner_offset": 3},
            (Severity.ERROR, NOT_CUT),
        ),
    ],
)
@pytest.mark.parametrize("by_others", [False, True])
def test_damage_before_the_log_start_is_worth_knowing_where_no_start_cuts_the_log_there(
    directory: Path, damaged: int, view: dict, expected: tuple[Severity, str], by_others: bool
) -> None:
    path = directory / f"{0:020d}.log"
    damage(path, damaged)

    if by_others:
        findings = Findings()
        segment = SegmentPlace(str(path), 4)
        check_content(RealFileSystem(), segment, PartitionView(**view), PLAIN, findings)
        (finding,) = findings.all()
    else:
        (finding,) = [f for f in check(directory, **view) if f.code == "batch-crc"]

    assert (finding.severity, finding.advice) == expected


def test_damage_behind_which_the_last_segment_has_no_sound_batch_may_be_served(
    directory: Path,
) -> None:
    damage(directory / f"{4:020d}.log", 2)

    (finding,) = [
        f for f in check(directory, was_clean=True, log_start_offset=6) if f.code == "batch-crc"
    ]

    assert (finding.severity, finding.advice) == (Severity.ERROR, NOT_CUT)


def test_what_is_missing_before_the_log_start_is_not_told(directory: Path) -> None:
    first = directory / f"{0:020d}.log"
    first.write_bytes(first.read_bytes()[: 2 * len(batch(0))])

    served, dead = (
        [f.code for f in check(directory, was_clean=True, log_start_offset=start)]
        for start in (3, 4)
    )

    assert "segment-missing" in served
    assert "segment-missing" not in dead


def test_a_hole_is_an_error_unless_the_log_was_compacted(directory: Path) -> None:
    active = directory / f"{4:020d}.log"
    active.write_bytes(batch(5))

    (lost,) = check(directory)
    (compacted,) = check(directory, cleaner_offset=4)

    assert (lost.code, lost.severity, lost.offset) == ("segment-missing", Severity.ERROR, 4)
    assert (compacted.code, compacted.severity) == ("gap", Severity.INFO)


def test_segments_that_overlap_are_found(directory: Path) -> None:
    active = directory / f"{4:020d}.log"
    active.rename(directory / f"{2:020d}.log")

    codes = {finding.code for finding in check(directory)}

    assert "segment-overlap" in codes


def test_many_findings_of_a_kind_are_counted(directory: Path) -> None:
    data = b"".join(bytes(bytearray(batch(offset)[:-1]) + b"\xff") for offset in range(4))
    (directory / f"{0:020d}.log").write_bytes(data)

    wrong = [finding for finding in check(directory) if finding.code == "batch-crc"]

    assert len(wrong) == 4
    assert wrong[-1].what.startswith("1 more of the same kind")


def test_offsets_beyond_what_the_cleaner_saw_are_not_taken_for_cleaned(directory: Path) -> None:
    active = directory / f"{4:020d}.log"
    active.write_bytes(batch(5))

    (dirty,) = check(directory, cleaner_offset=3, was_clean=True)

    assert (dirty.code, dirty.severity) == ("segment-missing", Severity.WARNING)


def test_a_producer_without_a_place_in_the_snapshot_was_forgotten(directory: Path) -> None:
    first, second = (directory / f"{base:020d}.log" for base in (0, 4))
    producer = {"producer_id": 7, "producer_epoch": 0}
    first.write_bytes(batch(0, 4, base_sequence=0, **producer))
    second.write_bytes(batch(4, 2, base_sequence=9, **producer))

    forgotten = check(directory)
    (directory / f"{4:020d}.snapshot").unlink()
    known = [finding for finding in check(directory) if finding.severity is Severity.ERROR]

    assert forgotten == []
    assert [(f.code, f.position, f.offset) for f in known] == [("sequence-gap", 0, 4)]


def test_what_changed_under_the_check_is_not_told(directory: Path) -> None:
    sound = (directory / f"{4:020d}.log").read_bytes()
    (directory / f"{4:020d}.log").write_bytes(sound[:-1] + b"\xff")
    findings = Findings()

    check_partition(
        RealFileSystem(),
        partition_directory(RealFileSystem(), str(directory)),
        CheckOptions(pause=lambda: (directory / f"{4:020d}.log").write_bytes(sound) and None),
        findings,
    )

    assert findings.all() == []


def test_batches_that_others_found_broken_are_passed_over(directory: Path) -> None:
    path = directory / f"{0:020d}.log"
    damage(path, 4)
    findings = Findings()

    segment = SegmentPlace(str(path), 4)
    broken = check_content(RealFileSystem(), segment, PartitionView(), PLAIN, findings)
    rest = check(directory, CheckOptions(broken={str(path): broken}))

    assert [(f.code, f.position) for f in findings.all()] == [("batch-crc", 3 * len(batch(0)))]
    assert rest == []


def test_an_index_that_is_getting_its_size_is_waited_for(directory: Path) -> None:
    index = directory / f"{4:020d}.timeindex"
    sound = index.read_bytes()
    index.write_bytes(sound + bytes(5))
    findings = Findings()

    PartitionCheck(
        RealFileSystem(),
        place(directory),
        CheckOptions(pause=lambda: index.write_bytes(sound) and None),
        findings,
    ).run()

    assert findings.all() == []


def test_a_swap_of_a_running_broker_is_only_worth_knowing(directory: Path) -> None:
    (directory / f"{4:020d}.log.swap").write_bytes(b"")

    (dead,) = check(directory)
    (live,) = check(directory, CheckOptions(pause=lambda: None))
    (stopped,) = check(directory, CheckOptions(pause=lambda: None), was_clean=True)

    severities = [finding.severity for finding in (dead, live, stopped)]
    assert severities == [Severity.WARNING, Severity.INFO, Severity.WARNING]


def test_a_snapshot_that_goes_under_the_check_is_no_warning(directory: Path, monkeypatch) -> None:
    plain = RealFileSystem.read_bytes

    def gone(self, path):
        if path.endswith(".snapshot"):
            raise StorageError(path, "open", ENOENT)
        return plain(self, path)

    monkeypatch.setattr(RealFileSystem, "read_bytes", gone)

    (finding,) = check(directory)

    assert (finding.code, finding.severity) == ("gone", Severity.INFO)


@pytest.mark.parametrize(("errno", "advice"), [(EACCES, WHO_MAY_READ), (EIO, OFFLINE)])
def test_what_only_this_user_may_not_read_is_no_fault_of_the_disk(
    directory: Path, monkeypatch: pytest.MonkeyPatch, errno: int, advice: str
) -> None:
    def refuse(self: RealFileSystem, path: str, **_: object) -> object:
        raise StorageError(path, "open", errno)

    monkeypatch.setattr(RealFileSystem, "open", refuse)

    told = {f.advice for f in check(directory) if f.code == "file-unreadable"}

    assert told == {advice}


class CountingFileSystem(RealFileSystem):
    """Counts the bytes that are read as whole files."""

    read = 0

    def read_bytes(self, path: str) -> bytes:
        data = super().read_bytes(path)
        self.read += len(data)
        return data

    def read_written(self, path: str) -> bytes:
        data = super().read_written(path)
        self.read += len(data)
        return data


def test_indexes_of_a_running_broker_are_read_as_far_as_they_are_written(directory: Path) -> None:
    files, findings = CountingFileSystem(), Findings()
    for suffix, entry_size in (("index", 8), ("timeindex", 12)):
        os.truncate(directory / f"{4:020d}.{suffix}", (10 << 20) // entry_size * entry_size)

    PartitionCheck(files, place(directory), PLAIN, findings).run()

    assert [each.code for each in findings.all()] == []
    assert files.read < 1 << 18


@pytest.mark.parametrize("kept", [1, 40, 65])
@pytest.mark.parametrize(("segment", "cut"), [(0, 1), (4, 4)])
def test_behind_a_batch_that_was_cut_the_check_goes_on_as_a_broker_does(
    directory: Path, kept: int, segment: int, cut: int
) -> None:
    """After a clean stop no start mends the segment: all but that batch is served."""
    offsets = range(4) if segment == 0 else range(4, 6)
    data = b"".join(batch(each)[: kept if each == cut else None] for each in offsets)
    (directory / f"{segment:020d}.log").write_bytes(data)
    findings = Findings()
    partition = place(directory, was_clean=True, recovery_point=6)

    check = PartitionCheck(RealFileSystem(), partition, PLAIN, findings).run()

    errors = [each for each in findings.all() if each.severity is Severity.ERROR]
    damaged, *rest = [each for each in errors if each.code != "gap"]
    assert damaged.position == sum(len(batch(each)) for each in offsets if each < cut)
    assert damaged.advice == NOT_CUT
    assert check.end_offset == 6
    assert not [each for each in rest if each.code != "segment-garbage"]
    assert not any("last records are lost" in each.advice for each in errors)
