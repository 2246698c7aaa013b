"""A checkpoint is gathered in small steps: what is true when it is written counts, whatever has
become of the logs since their steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kbroker.log.manager.log_manager import LogManager
from kbroker.model import TopicPartition
from tests.fakes.logs.log_maker import NOW_MS, batch, manager

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"

Begin = Callable[[LogManager], Iterator[None]]


def recovery_points(logs: LogManager) -> Iterator[None]:
    return logs.checkpoints.recovery_points()


def high_watermarks(logs: LogManager) -> Iterator[None]:
    def high_watermark_of(partition: TopicPartition) -> int:
        log = logs.get_log(partition)
        assert log is not None
        return log.high_watermark

    return logs.checkpoints.high_watermarks(high_watermark_of)


def written(directory: Path, file: str) -> dict[TopicPartition, int]:
    lines = [line.split() for line in (directory / file).read_text().splitlines()[2:]]
    return {TopicPartition(topic, int(number)): int(offset) for topic, number, offset in lines}


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[LogManager]:
    """Two logs of three records, all on the disk."""
    logs = manager(tmp_path, file_delete_delay_ms=0)
    logs.load("cluster", 1)
    for partition in (FIRST, SECOND):
        log = logs.get_or_create_log(partition)
        for value in (b"a", b"b", b"c"):
            log.append_as_leader(batch(value), 0, NOW_MS)
        log.update_high_watermark(3)
        log.flush()
    yield logs
    logs.shutdown()


def begun(logs: LogManager, begin: Begin) -> Iterator[None]:
    """The steps after that of the first log."""
    steps = begin(logs)
    next(steps)
    return steps


@pytest.mark.parametrize(
    ("begin", "file"),
    [(recovery_points, RECOVERY_POINTS), (high_watermarks, "replication-offset-checkpoint")],
)
def test_one_log_is_looked_at_in_a_step_and_all_are_written_after_the_last(
    tmp_path: Path, logs: LogManager, begin: Begin, file: str
) -> None:
    steps = begin(logs)

    next(steps)
    next(steps)
    assert not (tmp_path / file).exists()
    assert list(steps) == []

    assert written(tmp_path, file).keys() == {FIRST, SECOND}


@pytest.mark.parametrize(
    ("begin", "file", "offsets"),
    [
        (recovery_points, RECOVERY_POINTS, {FIRST: 0, SECOND: 2}),
        (high_watermarks, "replication-offset-checkpoint", {FIRST: 1, SECOND: 3}),
    ],
)
def test_a_log_that_is_cut_after_its_step_is_not_said_to_reach_further(
    tmp_path: Path,
    logs: LogManager,
    begin: Begin,
    file: str,
    offsets: dict[TopicPartition, int],
) -> None:
    steps = begun(logs, begin)
    log = logs.get_log(FIRST)
    assert log is not None

    log.truncate_to(1)
    list(steps)

    assert written(tmp_path, file) == offsets


def test_a_log_that_is_deleted_after_its_step_is_not_named(
    tmp_path: Path, logs: LogManager
) -> None:
    steps = begun(logs, recovery_points)

    logs.delete_log(FIRST)
    list(steps)

    assert written(tmp_path, RECOVERY_POINTS).keys() == {SECOND}


@pytest.mark.parametrize("begin", [recovery_points, high_watermarks])
def test_what_was_gathered_of_a_log_says_nothing_of_the_next_one_of_its_name(
    tmp_path: Path, logs: LogManager, begin: Begin
) -> None:
    steps = begun(logs, begin)

    logs.delete_log(FIRST)
    logs.finish_deletions()
    logs.get_or_create_log(FIRST).append_as_leader(batch(b"new"), 0, NOW_MS)
    list(steps)

    for path in tmp_path.glob("*-offset-checkpoint"):
        assert written(tmp_path, path.name).get(FIRST, 0) == 0, path


def test_a_log_start_that_is_asked_for_after_its_step_stays_in_the_file(
    tmp_path: Path, logs: LogManager
) -> None:
    steps = begun(logs, lambda logs: logs.checkpoints.log_starts())

    logs.checkpoints.write_log_starts({FIRST: 2}, lambda _: None)
    list(steps)

    assert written(tmp_path, LOG_STARTS)[FIRST] == 2
