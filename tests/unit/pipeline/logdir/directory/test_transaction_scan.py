from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from kbroker.log.disk.file_system import RealFileSystem
from kbroker.pipeline.logdir.directory.log_catalog import LogCatalog, ReadableLog
from kbroker.pipeline.logdir.directory.partition_log import real_disk
from kbroker.pipeline.logdir.directory.transaction_scan import (
    aborted_transactions,
    scan_transactions,
)
from kbroker.pipeline.logdir.segment_task import AbortedTransaction
from tests.fakes.disks.data_directory import DataDirectory

DISK = RealFileSystem()


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[DataDirectory]:
    directory = DataDirectory(tmp_path, segment_bytes=500)
    yield directory
    directory.kill()


def committed(path: Path) -> ReadableLog:
    (found,) = LogCatalog(real_disk(), [str(path)], lambda _: True).logs(is_committed=True)
    return found


def aborted(found: ReadableLog, start_offset: int = 0) -> list[AbortedTransaction]:
    assert found.transactions is not None
    return list(aborted_transactions(DISK, found.log, found.transactions, start_offset))


def write_three_transactions(directory: DataDirectory) -> None:
    """Producer 1 aborts 0 to 2, producer 2 commits 1 to 3, producer 3 stays open from 14 on."""
    directory.begin(1, b"a")
    directory.begin(2, b"b")
    directory.end(1, commits=False)
    directory.end(2, commits=True)
    directory.fill(10)
    directory.begin(3, b"c")
    directory.fill(2)


def test_committed_data_ends_before_the_first_open_transaction(directory: DataDirectory) -> None:
    write_three_transactions(directory)
    directory.checkpoint()

    found = committed(directory.path)

    assert (found.end_offset, found.log.end_offset) == (14, 17)
    assert aborted(found) == [(1, 0, 2)]


def test_a_transaction_is_open_at_a_high_watermark_before_its_marker(
    directory: DataDirectory,
) -> None:
    write_three_transactions(directory)
    directory.checkpoint(t_0=2)

    found = committed(directory.path)

    assert (found.end_offset, aborted(found)) == (0, [])


def test_a_stopped_log_is_known_from_its_snapshot_and_index(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path, segment_bytes=500)
    write_three_transactions(directory)
    directory.stop()

    found = committed(tmp_path)

    assert found.transactions is not None
    assert found.transactions.first_offset == 17
    assert (found.end_offset, aborted(found)) == (14, [(1, 0, 2)])


def test_lost_snapshots_and_indexes_are_made_up_by_the_batches(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path, segment_bytes=500)
    write_three_transactions(directory)
    directory.stop()
    for file in (*tmp_path.glob("t-0/*.snapshot"), *tmp_path.glob("t-0/*.txnindex")):
        file.unlink()

    found = committed(tmp_path)

    assert (found.end_offset, aborted(found)) == (14, [(1, 0, 2)])


def test_an_index_that_cannot_be_read_is_made_up_by_the_batches(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path, segment_bytes=500)
    write_three_transactions(directory)
    directory.stop()
    (index,) = tmp_path.glob("t-0/*.txnindex")
    index.write_bytes(index.read_bytes()[:-1])

    assert aborted(committed(tmp_path)) == [(1, 0, 2)]


def test_a_snapshot_behind_the_recovery_point_of_a_killed_broker_is_not_believed(
    tmp_path: Path,
) -> None:
    directory = DataDirectory(tmp_path, segment_bytes=500)
    write_three_transactions(directory)
    directory.kill()
    spoiled = max(tmp_path.glob("t-0/*.snapshot"))
    spoiled.write_bytes(min(tmp_path.glob("t-0/*.snapshot")).read_bytes())

    assert committed(tmp_path).end_offset == 14


def test_a_scan_goes_on_from_what_is_known(directory: DataDirectory) -> None:
    write_three_transactions(directory)
    directory.checkpoint(t_0=16)
    catalog = LogCatalog(real_disk(), [str(directory.path)], lambda _: True)
    catalog.logs(is_committed=True)
    directory.end(3, commits=False)
    directory.fill(1)
    directory.checkpoint()

    (found,) = catalog.logs(is_committed=True)

    assert (found.end_offset, found.log.end_offset) == (19, 19)
    assert aborted(found) == [(1, 0, 2), (3, 14, 17)]
    assert aborted(found, start_offset=3) == [(3, 14, 17)]


def test_what_is_known_of_records_that_were_cut_off_is_not_used(directory: DataDirectory) -> None:
    directory.fill(3)
    directory.begin(1, b"aborted")
    directory.end(1, commits=False)
    directory.begin(2, b"open")
    directory.checkpoint()
    catalog = LogCatalog(real_disk(), [str(directory.path)], lambda _: True)
    (before,) = catalog.logs(is_committed=True)
    directory.truncate(3)
    directory.fill(9)
    directory.checkpoint()

    (found,) = catalog.logs(is_committed=True)

    assert (before.end_offset, aborted(before)) == (5, [(1, 3, 4)])
    assert (found.end_offset, aborted(found)) == (12, [])


def test_what_is_known_of_a_topic_that_was_made_anew_is_not_used(directory: DataDirectory) -> None:
    directory.make_anew(UUID(int=1))
    directory.fill(1)
    directory.begin(1, b"op")
    directory.fill(1)
    directory.checkpoint()
    catalog = LogCatalog(real_disk(), [str(directory.path)], lambda _: True)
    (before,) = catalog.logs(is_committed=True)
    directory.make_anew(UUID(int=2))
    directory.fill(4)  # the third of them is just what it was before
    directory.checkpoint()

    (found,) = catalog.logs(is_committed=True)

    assert (before.end_offset, found.end_offset) == (1, 4)


def test_what_is_known_is_used_while_the_log_only_grows(directory: DataDirectory) -> None:
    write_three_transactions(directory)
    directory.checkpoint()
    known = committed(directory.path).transactions
    directory.fill(1)
    directory.checkpoint()
    for snapshot in directory.path.glob("t-0/*.snapshot"):
        snapshot.unlink()
    log = committed(directory.path).log

    assert known is not None
    assert known.first_offset == scan_transactions(DISK, log, known).first_offset > 0
    assert scan_transactions(DISK, log).first_offset == 0


def test_what_is_known_up_to_a_segment_that_went_is_not_used(directory: DataDirectory) -> None:
    write_three_transactions(directory)
    directory.checkpoint()
    found = committed(directory.path)
    *others, last = found.log.segments
    (directory.path / "t-0" / f"{last.base_offset:020}.log").unlink()

    left = replace(found.log, segments=tuple(others), end_offset=last.base_offset + 10)
    state = scan_transactions(DISK, left, found.transactions)

    assert (state.end_offset, state.open) == (left.end_offset, {})


def test_what_is_known_of_a_longer_log_is_not_used(directory: DataDirectory) -> None:
    write_three_transactions(directory)
    directory.checkpoint()
    longer = committed(directory.path)
    directory.checkpoint(t_0=2)
    log = committed(directory.path).log

    assert scan_transactions(DISK, log, longer.transactions).last_stable_offset == 0
