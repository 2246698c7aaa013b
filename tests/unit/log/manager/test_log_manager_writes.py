"""Periodic writes handed to somebody else, and shortages that are no fault of the disk."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.disk.file_system import RealFileSystem, StorageError
from kbroker.log.manager.log_manager import LogManager
from kbroker.model import TopicPartition
from tests.fakes.logs.log_maker import NOW_MS, PARTITION, batch, manager
from tests.fakes.running.counted_steps import steps_of

Work = tuple[Callable[[], None], Callable[[StorageError | None], None]]


def started(directory: Path, **settings: object) -> LogManager:
    logs = manager(directory, **settings)
    logs.load("cluster", 1)
    return logs


def test_checkpoints_and_flushes_are_written_by_whom_they_are_given_to(tmp_path: Path) -> None:
    logs = started(tmp_path, flush_messages=1)
    waiting: list[Work] = []
    logs.write_with(lambda work, done: waiting.append((work, done)))
    log = logs.get_or_create_log(PARTITION)
    log.append_as_leader(batch(b"a", b"b"), 0, NOW_MS)

    list(logs.dirty.flush(NOW_MS))
    logs.checkpoint_recovery_points()

    assert log.offsets.recovery_point == 0
    assert not (tmp_path / "recovery-point-offset-checkpoint").exists()
    for work, done in waiting:
        work()
        done(None)
    assert log.offsets.recovery_point == 2
    assert (tmp_path / "recovery-point-offset-checkpoint").exists()
    logs.shutdown()


def test_log_starts_that_are_being_written_make_the_next_ones_no_more_work(tmp_path: Path) -> None:
    """Where many ask for records to be deleted at the same time."""
    logs = started(tmp_path)
    logs.write_with(lambda work, done: None)
    places = [TopicPartition("t", number) for number in range(20)]
    for place in places:
        logs.get_or_create_log(place).append_as_leader(batch(b"a", b"b"), 0, NOW_MS)

    def asked(numbers: range) -> int:
        def ask() -> None:
            for number in numbers:
                logs.checkpoints.write_log_starts(
                    {TopicPartition("other", number): 1}, lambda _: None
                )

        return steps_of(ask)

    first = asked(range(5))
    asked(range(5, 35))

    assert asked(range(35, 40)) < 1.5 * first


def test_a_log_deleted_during_its_flush_takes_no_directory_offline(tmp_path: Path) -> None:
    logs = started(tmp_path, flush_messages=1)
    waiting: list[Work] = []
    log = logs.get_or_create_log(PARTITION)
    logs.write_with(lambda work, done: waiting.append((work, done)))
    log.append_as_leader(batch(b"a", b"b"), 0, NOW_MS)
    list(logs.dirty.flush(NOW_MS))
    logs.delete_log(PARTITION)

    ((work, done),) = waiting
    with pytest.raises(StorageError) as raised:
        work()
    done(raised.value)

    assert logs.online_directories == [str(tmp_path)]
    logs.shutdown()


def test_a_directory_nobody_used_before_counts_as_left_cleanly(tmp_path: Path) -> None:
    logs = manager(tmp_path)
    assert logs.was_clean
    logs.load("cluster", 1)
    logs.release()

    again = manager(tmp_path)

    assert not again.was_clean
    again.release()


def test_too_many_open_files_refuse_an_append_and_then_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = started(tmp_path)
    log = logs.get_or_create_log(PARTITION)

    def no_descriptor(_self: object, path: str, **_options: bool) -> None:
        raise StorageError(path, "open", errno.EMFILE)

    with monkeypatch.context() as patch:
        patch.setattr(RealFileSystem, "open", no_descriptor)
        with pytest.raises(KafkaError) as raised:
            log.append_as_leader(batch(b"a", b"b"), 0, NOW_MS)

    assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert logs.online_directories == [str(tmp_path)]
    assert log.append_as_leader(batch(b"a", b"b"), 0, NOW_MS).first_offset == 0
    logs.shutdown()


def test_an_epoch_that_could_not_be_written_is_written_with_the_next_append(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = started(tmp_path)
    log = logs.get_or_create_log(PARTITION)

    def no_descriptor(_self: object, path: str, *_data: object, **_options: bool) -> None:
        raise StorageError(path, "open", errno.EMFILE)

    with monkeypatch.context() as patch:
        patch.setattr(RealFileSystem, "write_bytes", no_descriptor)
        with pytest.raises(KafkaError):
            log.append_as_leader(batch(b"a"), 3, NOW_MS)
    log.append_as_leader(batch(b"a"), 3, NOW_MS)

    assert (Path(log.directory) / "leader-epoch-checkpoint").read_text() == "0\n1\n3 0\n"
    logs.shutdown()


def test_a_segment_that_may_be_closed_is_recovered_until_its_indexes_are_synced(
    tmp_path: Path,
) -> None:
    logs = manager(tmp_path, segment_bytes=170)
    logs.load("cluster", 1)
    log = logs.get_or_create_log(PARTITION)
    noted = []

    def note() -> None:
        logs.checkpoint_recovery_points()
        text = (tmp_path / "recovery-point-offset-checkpoint").read_text()
        noted.append(int(text.split()[-1]))

    log.append_as_leader(batch(b"a"), 0, NOW_MS)
    log.flush()
    note()
    log.append_as_leader(batch(b"b" * 90), 0, NOW_MS)
    note()
    log.flush(and_closed=True)
    note()
    logs.shutdown()
    noted.append(int((tmp_path / "recovery-point-offset-checkpoint").read_text().split()[-1]))

    assert log.segments.base_offsets == [0, 1]
    assert noted == [0, 0, 1, 2]
