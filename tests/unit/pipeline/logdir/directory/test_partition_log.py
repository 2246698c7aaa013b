from __future__ import annotations

from pathlib import Path

import pytest

from kbroker.inspection.segment_scan import SegmentScan
from kbroker.log.disk.file_system import RealFileSystem
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.logdir.directory.log_catalog import LogCatalog
from kbroker.pipeline.logdir.directory.partition_log import (
    Disk,
    PartitionLog,
    real_disk,
    written_end,
)
from tests.fakes.disks.data_directory import DataDirectory, written
from tests.fakes.logs.log_maker import batch


def log_in(path: Path, disk: Disk | None = None) -> PartitionLog:
    (found,) = LogCatalog(disk or real_disk(), [str(path)], lambda _: True).logs(is_committed=False)
    return found.log


def last_file(path: Path) -> Path:
    return max((path / "t-0").glob("*.log"))


def spoil_last_batch(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)


def test_a_running_brokers_log_ends_with_the_high_watermark(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path)
    directory.fill(10)
    directory.checkpoint(t_0=7)

    log = log_in(tmp_path)
    written = written_end(RealFileSystem(), log)
    directory.stop()

    assert (log.is_live, log.start_offset, log.end_offset, written) == (True, 0, 7, 10)


def test_a_partition_that_a_running_broker_has_not_noted_yet_has_nothing_to_read(
    tmp_path: Path,
) -> None:
    directory = DataDirectory(tmp_path)
    directory.fill(10)

    log = log_in(tmp_path)
    directory.stop()

    assert (log.start_offset, log.end_offset) == (0, 0)


def test_a_stopped_log_ends_with_its_last_batch_whatever_the_high_watermark(tmp_path: Path) -> None:
    with written(tmp_path) as directory:
        directory.fill(10)
    (tmp_path / "replication-offset-checkpoint").write_text("0\n1\nt 0 4\n")

    log = log_in(tmp_path)

    assert (log.is_live, log.end_offset) == (False, 10)


def test_a_killed_brokers_log_is_read_to_the_last_sound_batch(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path, segment_bytes=400)
    directory.fill(10)
    directory.checkpoint(t_0=2)
    directory.kill()
    with last_file(tmp_path).open("ab") as file:
        file.write(batch(b"torn", base_offset=10)[:-3])

    assert log_in(tmp_path).end_offset == 10


def test_what_follows_the_first_broken_batch_of_a_killed_broker_is_gone(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path, segment_bytes=400)
    directory.fill(20)
    directory.kill()
    files = sorted((tmp_path / "t-0").glob("*.log"))
    spoil_last_batch(files[1])  # of the second of several segments

    assert log_in(tmp_path).end_offset == int(files[2].stem) - 1


def test_batches_before_the_recovery_point_are_not_checked_when_looking_for_the_end(
    tmp_path: Path,
) -> None:
    directory = DataDirectory(tmp_path, segment_bytes=400)
    directory.fill(20)
    directory.kill()
    files = sorted((tmp_path / "t-0").glob("*.log"))
    spoil_last_batch(files[0])
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n1\nt 0 18\n")

    assert log_in(tmp_path).end_offset == 20


def test_a_log_that_lost_what_was_on_disk_is_checked_whole(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path, segment_bytes=400)
    directory.fill(20)
    directory.kill()
    files = sorted((tmp_path / "t-0").glob("*.log"))
    spoil_last_batch(files[0])
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n1\nt 0 25\n")

    assert log_in(tmp_path).end_offset == int(files[1].stem) - 1


def test_a_stopped_log_whose_last_batch_is_broken_reaches_to_where_it_had_come(
    tmp_path: Path,
) -> None:
    with written(tmp_path) as directory:
        directory.fill(10)
    file = last_file(tmp_path)
    file.write_bytes(file.read_bytes()[:-3])

    assert log_in(tmp_path).end_offset == 10


@pytest.mark.parametrize("place", ["base offset", "last offset delta"])
@pytest.mark.parametrize("bit", [0, 3, 20, 30])
def test_a_flipped_bit_in_the_last_header_moves_the_end_of_a_stopped_log_nowhere(
    tmp_path: Path, place: str, bit: int
) -> None:
    with written(tmp_path) as directory:
        directory.fill(10)
        directory.append(b"a", b"b", b"c")
    flip(last_file(tmp_path), -1, place, bit)

    assert log_in(tmp_path).end_offset == 13


@pytest.mark.parametrize("bit", [31, 40])
def test_a_stopped_log_that_notes_no_end_goes_to_its_last_batch_that_counts(
    tmp_path: Path, bit: int
) -> None:
    with written(tmp_path) as directory:
        directory.fill(10)
    flip(last_file(tmp_path), -1, "base offset", bit)
    (tmp_path / "recovery-point-offset-checkpoint").unlink()

    assert log_in(tmp_path).end_offset == 9


def flip(file: Path, number: int, place: str, bit: int) -> None:
    """One bit in the header of the so-manieth batch of a file."""
    scan = SegmentScan(RealFileSystem(), str(file), checks_crc=False)
    position = [batch.position for batch in scan.batches()][number]
    last_byte = position + {"base offset": 7, "last offset delta": 26}[place]
    data = bytearray(file.read_bytes())
    data[last_byte - bit // 8] ^= 1 << bit % 8
    file.write_bytes(data)


def test_a_log_starts_where_records_were_deleted_to(tmp_path: Path) -> None:
    with written(tmp_path) as directory:
        directory.fill(10)
        directory.log().maybe_increment_log_start_offset(4)

    assert log_in(tmp_path).start_offset == 4


def test_a_start_beyond_the_end_takes_no_record_away(tmp_path: Path) -> None:
    with written(tmp_path) as directory:
        directory.fill(3)
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nt 0 99\n")

    log = log_in(tmp_path)

    assert (log.start_offset, log.end_offset) == (0, 3)


def test_a_partition_without_a_record_is_empty(tmp_path: Path) -> None:
    with written(tmp_path) as directory:
        directory.log()

    log = log_in(tmp_path)

    assert (log.start_offset, log.end_offset) == (0, 0)


def test_segments_that_a_running_broker_is_replacing_are_waited_for(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path)
    directory.fill(3)
    directory.checkpoint()
    log_file = tmp_path / "t-0" / "00000000000000000000.log"
    swap = log_file.rename(log_file.with_suffix(".log.swap"))

    log = log_in(tmp_path, Disk(RealFileSystem(), pause=lambda: swap.rename(log_file)))
    directory.stop()

    assert log.end_offset == 3


def test_a_replacement_that_a_dead_broker_left_half_done_is_told_of(tmp_path: Path) -> None:
    with written(tmp_path) as directory:
        directory.fill(3)
    log_file = tmp_path / "t-0" / "00000000000000000000.log"
    log_file.rename(log_file.with_suffix(".log.swap"))

    with pytest.raises(PipelineError, match="start the broker once, which finishes that"):
        log_in(tmp_path)


def test_a_replacement_that_had_not_begun_leaves_its_sources_to_be_read(tmp_path: Path) -> None:
    with written(tmp_path) as directory:
        directory.fill(3)
    (tmp_path / "t-0" / "00000000000000000000.log.swap").write_bytes(b"")

    assert log_in(tmp_path).end_offset == 3


def test_segments_that_come_and_go_make_the_directory_be_listed_again(tmp_path: Path) -> None:
    with written(tmp_path, segment_bytes=400) as directory:
        directory.fill(20)
    first = min((tmp_path / "t-0").glob("*.log"))

    class Retaining(RealFileSystem):
        def size(self, path: str) -> int:
            if path == str(first):
                self.unlink(path)
            return super().size(path)

    log = log_in(tmp_path, Disk(Retaining()))

    assert log.segments[0].base_offset == log.start_offset > 0


def test_a_broker_that_replaces_segments_for_ever_is_given_up(tmp_path: Path) -> None:
    with written(tmp_path) as directory:
        directory.fill(3)
    (tmp_path / "t-0" / "00000000000000000001.log.swap").write_bytes(b"")
    disk = Disk(RealFileSystem(), is_locked=lambda _: True, pause=lambda: None)

    with pytest.raises(PipelineError, match="keeps changing"):
        log_in(tmp_path, disk)
