"""Opening the logs of several directories, on threads, with progress."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kbroker.config.topic_config import TopicConfig
from kbroker.log.disk.file_system import RealFileSystem
from kbroker.log.partition.log import Log
from kbroker.log.partition.log_state import LogEnvironment
from kbroker.log.recovery.load_progress import LoadCancelledError, LoadProgress
from kbroker.log.recovery.load_request import LoadRequest
from kbroker.log.recovery.log_opening import open_logs
from kbroker.model import TopicPartition
from tests.fakes.logs.log_maker import NOW_MS, batch, manager, open_log

ENVIRONMENT = LogEnvironment(file_system=RealFileSystem())


def killed(directory: Path, number: int) -> LoadRequest:
    """A log with `number` batches that nobody closed."""
    log = open_log(directory)
    for _ in range(number):
        log.append_as_leader(batch(b"x" * 100_000), 0, NOW_MS)
    copy = directory.with_name(directory.name + "-killed")
    shutil.copytree(directory, copy)
    return LoadRequest(
        topic_partition=TopicPartition("t", number),
        directory=str(copy),
        config=TopicConfig(),
        now_ms=NOW_MS,
    )


@pytest.mark.parametrize("threads", [1, 3])
def test_logs_come_back_in_order_and_all_bytes_are_counted(tmp_path: Path, threads: int) -> None:
    first = [killed(tmp_path / f"a{number}", number) for number in (12, 13)]
    second = [killed(tmp_path / "b14", 14)]
    progress = LoadProgress()

    logs = open_logs([("/a", first), ("/b", second)], ENVIRONMENT, threads, progress)

    assert [log.log_end_offset for log in logs if isinstance(log, Log)] == [12, 13, 14]
    a, b = progress.directories["/a"], progress.directories["/b"]
    assert (a.logs_done, a.logs_total, b.logs_done, b.logs_total) == (2, 2, 1, 1)
    assert a.bytes_total == sum(log.segments.size_bytes for log in logs[:2] if isinstance(log, Log))
    assert 0 < a.bytes_done <= a.bytes_total


def test_one_that_cannot_be_opened_costs_no_other(tmp_path: Path) -> None:
    bad = killed(tmp_path / "a1", 1)
    shutil.rmtree(bad.directory)

    outcomes = open_logs(
        [("/a", [bad, killed(tmp_path / "a2", 2)])], ENVIRONMENT, 1, LoadProgress()
    )

    assert [isinstance(outcome, Log) for outcome in outcomes] == [False, True]


@pytest.mark.parametrize("threads", [1, 2])
def test_opening_ends_when_it_is_cancelled_and_can_be_done_again(
    tmp_path: Path, threads: int
) -> None:
    request = killed(tmp_path / "a", 30)
    progress = LoadProgress()
    progress.cancel()

    with pytest.raises(LoadCancelledError):
        open_logs([("/a", [request])], ENVIRONMENT, threads, progress)

    (log,) = open_logs([("/a", [request])], ENVIRONMENT, threads, LoadProgress())
    assert isinstance(log, Log)
    assert log.log_end_offset == 30


def test_a_cancelled_start_is_no_clean_stop(tmp_path: Path) -> None:
    living = manager(tmp_path / "living")
    living.load("cluster", 1)
    log = living.get_or_create_log(TopicPartition("t", 0))
    log.append_as_leader(batch(b"x" * 3_000), 0, NOW_MS)
    shutil.copytree(tmp_path / "living", tmp_path / "killed")
    progress = LoadProgress()
    progress.cancel()

    cancelled = manager(tmp_path / "killed")
    with pytest.raises(LoadCancelledError):
        cancelled.load("cluster", 1, progress)
    cancelled.release()

    again = manager(tmp_path / "killed")
    assert not again.was_clean
    assert again.load("cluster", 1) == [TopicPartition("t", 0)]
