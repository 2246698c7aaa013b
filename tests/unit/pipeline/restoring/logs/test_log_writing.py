"""Logs that are written: what is in the directory, how it goes on after a kill, what is refused."""

from __future__ import annotations

import errno
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest

from kbroker.inspection.finding_codes import FindingCode
from kbroker.log.disk.checkpoint import (
    EpochEntry,
    MetaProperties,
    read_clean_shutdown,
    read_leader_epochs,
    read_meta_properties,
    read_offset_checkpoint,
    read_partition_metadata,
)
from kbroker.log.disk.file_system import FileSystem, RealFileSystem
from kbroker.log.disk.format import (
    RECOVERY_POINT_CHECKPOINT_FILE,
    REPLICATION_OFFSET_CHECKPOINT_FILE,
    offset_of,
)
from kbroker.model import TopicPartition
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.restoring.logs import log_writing
from kbroker.pipeline.restoring.logs.log_writing import LogWriting, WrittenLog
from kbroker.record.compression import CODEC_IDS
from kbroker.record.record_batch import read_header
from tests.fakes.archives.arrow_records import BASE_MS, record, unplaced_batch
from tests.fakes.archives.written_logs import (
    BROKER_ID,
    CLUSTER_ID,
    SMALL,
    T0,
    directory,
    findings_of,
    read_rows,
    shown,
    write_rows,
)
from tests.fakes.disks.failing_file_system import FailingFileSystem
from tests.fakes.disks.memory_file_system import MemoryFileSystem
from tests.fakes.disks.power_disk import PowerDisk

PATH = "/data"
LOG = f"{PATH}/t-0"


SPOILED_SNAPSHOTS = {FindingCode.SNAPSHOT, FindingCode.SNAPSHOT_MISSING}


class KilledError(BaseException):
    """The process is no more."""


@pytest.fixture
def disk() -> MemoryFileSystem:
    return MemoryFileSystem()


def rows_from(start: int, count: int, step: int = 1) -> list[dict[str, Any]]:
    return [record(start + at * step, value=b"v%d" % at * 9) for at in range(count)]


def segments(file_system: FileSystem) -> list[int]:
    names = file_system.list(LOG)
    return [offset_of(name) or 0 for name in names if name.endswith(".log")]


@pytest.mark.parametrize("codec", sorted(CODEC_IDS))
def test_all_rows_are_read_back(disk: MemoryFileSystem, codec: str) -> None:
    rows = rows_from(0, 300)

    write_rows(disk, PATH, rows, codec=CODEC_IDS[codec])

    assert read_rows(disk, PATH) == shown(rows)
    assert findings_of(disk, PATH) == []


def test_every_kind_of_record_is_read_back(disk: MemoryFileSystem) -> None:
    headers = [{"key": "a", "value": b"1"}, {"key": "a", "value": None}, {"key": "", "value": b""}]
    rows = [
        record(0, key=None, value=None),
        record(1, key=b"", value=b"", headers=headers),
        record(2, timestamp=-1, timestampType=-1),
        record(3, timestamp=BASE_MS + 9, timestampType=1),
        record(4, timestamp=BASE_MS + 10, timestampType=1),
        record(5, timestamp=BASE_MS - 99_999, value=b"x" * 5_000),
        record(90, headers=[]),
        record(3_000_000_000),
    ]

    write_rows(disk, PATH, rows, at_once=3)

    assert read_rows(disk, PATH) == shown(rows)
    assert findings_of(disk, PATH) == []
    assert segments(disk)[-1] > 2**31  # an offset of a segment fits into 31 bits


def test_a_directory_says_whose_it_is_and_that_it_was_left_cleanly(disk: MemoryFileSystem) -> None:
    topic_id = UUID(int=77)

    write_rows(disk, PATH, rows_from(0, 30), topic_id=topic_id, leader_epoch=5)

    assert read_meta_properties(disk, PATH) == MetaProperties(0, CLUSTER_ID, BROKER_ID)
    assert read_clean_shutdown(disk, PATH)
    assert read_partition_metadata(disk, LOG) == topic_id
    assert read_leader_epochs(disk, LOG) == [EpochEntry(5, 0)]
    for file in (RECOVERY_POINT_CHECKPOINT_FILE, REPLICATION_OFFSET_CHECKPOINT_FILE):
        assert read_offset_checkpoint(disk, f"{PATH}/{file}") == {T0: 30}


def test_segments_roll_by_size_and_by_the_time_of_records(disk: MemoryFileSystem) -> None:
    hour = 3_600_000
    by_time = [record(at, timestamp=BASE_MS + at * hour) for at in range(30)]

    write_rows(disk, PATH, by_time, settings={"segment_ms": 7 * hour}, at_once=30)
    rolled = segments(disk)
    write_rows(disk, "/other", rows_from(0, 300))

    assert rolled == [0, 8, 16]  # by Kafka's rule, the last time of a first batch counts
    sizes = [disk.size(f"/other/t-0/{name}") for name in disk.list("/other/t-0") if "log" in name]
    assert len(sizes) > 5
    assert max(sizes) <= 2_000


def test_a_log_begins_and_ends_where_it_is_to(disk: MemoryFileSystem) -> None:
    rows = rows_from(1_003, 20, step=2)

    write_rows(disk, PATH, rows, start_offset=1_000, end_offset=1_050)

    assert segments(disk)[0] == 1_000
    first = read_header(disk.read_bytes(f"{LOG}/00000000000000001000.log"))
    assert (first.base_offset, first.record_count > 0) == (1_000, True)
    with LogWriting(directory(PATH), disk) as writing:
        log = WrittenLog(partition=T0, start_offset=1_000, end_offset=1_050)
        assert writing.open(log).next_offset == 1_050
    assert read_rows(disk, PATH) == shown(rows)


def test_a_log_without_a_record_keeps_its_offsets(disk: MemoryFileSystem) -> None:
    far = 7 * 2**31

    write_rows(disk, PATH, [], start_offset=40, end_offset=50)
    write_rows(disk, "/far", rows_from(0, 1), end_offset=far)
    write_rows(disk, "/empty", [], start_offset=9, end_offset=9)

    ends = [read_offset_checkpoint(disk, f"{path}/{REPLICATION_OFFSET_CHECKPOINT_FILE}")[T0]
            for path in (PATH, "/far", "/empty")]  # fmt: skip
    assert ends == [50, far, 9]
    assert read_rows(disk, PATH) == read_rows(disk, "/empty") == []
    assert [
        finding for path in (PATH, "/far", "/empty") for finding in findings_of(disk, path)
    ] == []


def test_offsets_that_would_fill_the_disk_without_a_record_are_refused(
    disk: MemoryFileSystem,
) -> None:
    with pytest.raises(PipelineError, match=r"t-0 .* goes on at offset \d+ after \d+, without"):
        write_rows(disk, PATH, rows_from(0, 1), end_offset=2**63 - 1)

    assert len(segments(disk)) <= 2


def test_several_logs_are_written_in_one_directory(disk: MemoryFileSystem) -> None:
    other = TopicPartition("u", 4)
    with LogWriting(directory(PATH, **SMALL), disk) as writing:
        for partition, rows in ((T0, rows_from(0, 50)), (other, rows_from(9, 50))):
            log = WrittenLog(
                partition=partition,
                start_offset=rows[0]["offset"],
                end_offset=rows[-1]["offset"] + 1,
            )
            writing.open(log).write([unplaced_batch(rows)])

    assert read_rows(disk, PATH, T0) == shown(rows_from(0, 50))
    assert read_rows(disk, PATH, other) == shown(rows_from(9, 50))


def test_what_is_written_is_not_written_again(disk: MemoryFileSystem) -> None:
    rows = rows_from(0, 300)
    write_rows(disk, PATH, rows)
    written = {name: disk.read_bytes(f"{LOG}/{name}") for name in disk.list(LOG)}

    assert write_rows(disk, PATH, rows) == 300

    assert {name: disk.read_bytes(f"{LOG}/{name}") for name in disk.list(LOG)} == written


@pytest.mark.parametrize("step", [1, 3])  # without and with holes
@pytest.mark.parametrize("seed", range(6))
def test_a_run_that_was_killed_is_continued(
    seed: int, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_writing, "FLUSH_BYTES", 3_000)
    random, rows = Random(seed), rows_from(500, 300, step)
    disk = PowerDisk()
    while True:
        changes = random.randrange(10, 260)
        kill_after(disk, changes)
        try:
            write_rows(disk, PATH, rows, start_offset=490)
            break
        except KilledError:
            # After a kill of the process the disk is as it was; after a power loss it is an image.
            disk.before_change = None
            disk = disk.image(random) if random.random() < 0.7 else disk
            disk.let_go()

    disk.before_change = None
    assert read_rows(disk, PATH) == shown(rows)
    # A power loss takes snapshots of producers: here there are none to remember.
    assert {finding.code for finding in findings_of(disk, PATH)} <= SPOILED_SNAPSHOTS


def kill_after(disk: PowerDisk, changes: int) -> None:
    """Kill the process at the change after so many, whatever it tries afterwards."""
    left = [changes]

    def before_change(_operation: str, _path: str) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise KilledError

    disk.before_change = before_change


def test_a_run_that_was_killed_goes_on_where_the_log_ends() -> None:
    disk, rows = PowerDisk(), rows_from(0, 600)
    kill_after(disk, 200)
    with pytest.raises(KilledError):
        write_rows(disk, PATH, rows)
    disk.before_change = None
    disk.let_go()

    begun = write_rows(disk, PATH, rows)

    assert 200 < begun < 600
    assert read_rows(disk, PATH) == shown(rows)


@pytest.mark.parametrize(
    ("operation", "pattern", "at"),
    [("write", "*.log", 9), ("fsync", "*.log", 1), ("rename", "*recovery-point*", 1)],
)
def test_a_disk_that_refuses_ends_in_a_sentence_and_is_gone_on_with(
    disk: MemoryFileSystem, operation: str, pattern: str, at: int
) -> None:
    failing = FailingFileSystem(disk)
    rows = rows_from(0, 300)
    failing.fail(operation, pattern, at=at, number=errno.EIO)

    with pytest.raises(PipelineError, match=r"run again$"):
        write_rows(failing, PATH, rows)
    assert not read_clean_shutdown(disk, PATH)
    failing.heal()
    write_rows(failing, PATH, rows)

    assert read_rows(disk, PATH) == shown(rows)


def test_a_full_disk_ends_in_a_sentence_and_is_gone_on_with() -> None:
    disk = MemoryFileSystem(capacity_bytes=20_000)
    rows = rows_from(0, 600)

    with pytest.raises(PipelineError, match="space"):
        write_rows(disk, PATH, rows)
    disk.capacity_bytes = 1 << 40
    write_rows(disk, PATH, rows)

    assert read_rows(disk, PATH) == shown(rows)


@pytest.mark.parametrize(("start", "end"), [(10, 30), (0, 15)])
def test_a_log_of_other_offsets_is_left_alone(disk: MemoryFileSystem, start: int, end: int) -> None:
    write_rows(disk, PATH, rows_from(0, 20))

    with pytest.raises(PipelineError, match="holds offsets 0 to 19 of t-0"):
        write_rows(disk, PATH, rows_from(start, 5), start_offset=start, end_offset=end)

    assert read_rows_after_recovery(disk) == shown(rows_from(0, 20))


def test_a_log_of_a_later_epoch_is_left_alone(disk: MemoryFileSystem) -> None:
    write_rows(disk, PATH, rows_from(0, 20), end_offset=20, leader_epoch=5)

    with pytest.raises(PipelineError, match="has records of leader epoch 5, and those to be wri"):
        write_rows(disk, PATH, rows_from(0, 40), leader_epoch=4)

    assert read_rows_after_recovery(disk) == shown(rows_from(0, 20))


def read_rows_after_recovery(disk: MemoryFileSystem) -> list[tuple]:  # type: ignore[type-arg]
    with LogWriting(directory(PATH), disk):
        pass
    return read_rows(disk, PATH)


def test_rows_that_do_not_rise_are_refused(disk: MemoryFileSystem) -> None:
    with LogWriting(directory(PATH), disk) as writing:
        one = writing.open(WrittenLog(partition=T0, start_offset=0, end_offset=9))

        with pytest.raises(PipelineError, match="does not rise"):
            one.write([unplaced_batch([record(5)]), unplaced_batch([record(4)])])


def test_a_directory_of_another_broker_or_in_use_is_refused(tmp_path: Path) -> None:
    disk, path = RealFileSystem(), str(tmp_path / "data")
    with (
        LogWriting(directory(path), disk),
        pytest.raises(PipelineError, match="in use by another broker"),
    ):
        LogWriting(directory(path), disk)
    properties = tmp_path / "data" / "meta.properties"
    properties.write_text(properties.read_text().replace("broker.id=3", "broker.id=4"))

    with pytest.raises(PipelineError, match="belongs to broker 4"):
        LogWriting(directory(path), disk)
