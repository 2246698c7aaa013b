"""A data directory that a restore makes: killed at any step and continued, whole or refused, and
nobody else's.
"""

from __future__ import annotations

import errno
import logging
import os
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kbroker.inspection.log_paths import NotALogError, log_directory
from kbroker.log.directories.unfinished_restore import RESTORE_FOLDER, unfinished_restore
from kbroker.log.disk.checkpoint import (
    EpochEntry,
    MetaProperties,
    read_clean_shutdown,
    read_leader_epochs,
    read_meta_properties,
    read_partition_metadata,
)
from kbroker.log.disk.file_system import FileSystem
from kbroker.log.disk.format import parse_directory_name
from kbroker.model import TopicPartition
from kbroker.pipeline.archiving.manifests.archive_reading import read_archive
from kbroker.pipeline.archiving.upkeep.merge_and_expiry import expire_files
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.restoring.logs.log_restore import LogEncoding, LogRestore
from kbroker.pipeline.restoring.logs.log_task import restore_log
from kbroker.pipeline.restoring.logs.restore_note import (
    RestoreNote,
    cluster_id_of,
    expired_since,
    noted_topics,
)
from kbroker.pipeline.restoring.logs.restored_directory import RestoredDirectory, Stage
from kbroker.pipeline.restoring.restore_plan import RestoreChoice, plan_restore
from kbroker.pipeline.restoring.task_board import TaskBoard
from kbroker.pipeline.restoring.task_result import TaskResult
from kbroker.server.metadata_tree.tree_location import check_whole
from kbroker.server.start_error import StartError
from tests.fakes.archives.arrow_records import record
from tests.fakes.archives.parquet_archive import archive_rows
from tests.fakes.archives.written_logs import findings_of, read_rows, shown
from tests.fakes.disks.failing_file_system import FailingFileSystem
from tests.fakes.disks.memory_file_system import MemoryFileSystem
from tests.fakes.disks.power_disk import PowerDisk
from tests.unit.pipeline.restoring.logs.test_log_writing import (
    SPOILED_SNAPSHOTS,
    KilledError,
    kill_after,
)

PATH = "/data"
JOB = "aaaaaaaa-2222-4333-8444-555555555555"
OTHER_JOB = "bbbbbbbb-2222-4333-8444-555555555555"
JOURNAL = "kbroker-tree.journal"
T0 = TopicPartition("t", 0)
ROWS = [record(at, value=b"v%d" % at * 9) for at in range(30, 300, 3)]


@pytest.fixture
def archive(tmp_path: Path) -> str:
    path = str(tmp_path / "archive")
    archive_rows(path, ROWS[:40], ROWS[40:])
    return path


def restored(
    disk: FileSystem, archive: str, board: TaskBoard, job: str = JOB, **settings: str
) -> list[TaskResult]:
    """One run, as the command does it."""
    state, wish = read_archive(archive), RestoreChoice(renamed={"t": "t"})
    plans = plan_restore(state, wish)
    directory = RestoredDirectory(PATH, disk)
    directory.stage(job)
    with directory.held():
        stage = directory.stage(job)
        if stage is Stage.WHOLE:
            directory.clear()
            return []
        if stage is Stage.NEW:
            small = {"segment.bytes": "2000", "index.interval.bytes": "200"}
            topics = noted_topics(state, plans, {**small, **settings})
            directory.begin(RestoreNote(job_id=job, command="kbroker go on", topics=topics))
        restore = LogRestore(
            archive=archive,
            directory=directory,
            note=directory.note(),
            plans=plans,
            choice=wish,
            how=LogEncoding(),
        )
        tasks = restore.tasks(str(board.directory), at_once=1)
        results = [restore_log(task, disk) for task in tasks]
        if all(result.is_complete for result in results):
            directory.finish(restore.note, lambda home: write_journal(disk, home))
        return results


def write_journal(disk: FileSystem, home: str) -> None:
    disk.write_bytes(f"{home}/{JOURNAL}", b"topics", sync=True)
    disk.sync_directory(home)


@pytest.fixture
def board(tmp_path: Path) -> TaskBoard:
    made = TaskBoard(tmp_path / "board")
    made.clear()
    return made


def rows_in(disk: FileSystem) -> list[tuple]:  # type: ignore[type-arg]
    """Return what a broker of the directory's cluster shows."""
    from tests.fakes.archives import written_logs

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(written_logs, "CLUSTER_ID", cluster_id_of(JOB))
        patched.setattr(written_logs, "BROKER_ID", 0)
        return read_rows(disk, PATH)


def test_a_directory_becomes_that_of_a_broker_that_was_stopped_cleanly(
    archive: str, board: TaskBoard
) -> None:
    disk = MemoryFileSystem()

    (result,) = restored(disk, archive, board)

    assert (result.rows, result.rows_before, result.is_complete) == (90, 0, True)
    assert disk.list(PATH) == [
        ".kafka_cleanshutdown", ".lock", JOURNAL, "meta.properties",
        "recovery-point-offset-checkpoint", "replication-offset-checkpoint", "t-0",
    ]  # fmt: skip
    assert read_meta_properties(disk, PATH) == MetaProperties(0, cluster_id_of(JOB), 0)
    assert read_clean_shutdown(disk, PATH)
    assert read_leader_epochs(disk, f"{PATH}/t-0") == [EpochEntry(0, 30)]
    assert read_partition_metadata(disk, f"{PATH}/t-0") is not None
    assert not [name for name in disk.list(f"{PATH}/t-0") if name.endswith(".deleted")]
    assert findings_of(disk, PATH) == []
    assert rows_in(disk) == shown(ROWS)


def changes_of_a_run(archive: str, board: TaskBoard) -> int:
    disk, count = PowerDisk(), 0

    def before_change(_operation: str, _path: str) -> None:
        nonlocal count
        count += 1

    disk.before_change = before_change
    restored(disk, archive, board)
    return count


@pytest.mark.parametrize("loses_power", [False, True])
def test_a_run_that_is_killed_at_any_step_goes_on_and_is_never_taken_for_whole(
    archive: str, board: TaskBoard, loses_power: bool
) -> None:
    random = Random(5)
    last = changes_of_a_run(archive, board)
    assert last > 150
    for changes in [*range(0, last - 60, 7), *range(last - 60, last)]:
        disk = PowerDisk()
        kill_after(disk, changes)
        with pytest.raises(KilledError):
            restored(disk, archive, board)
        disk.before_change = None
        disk = disk.image(random) if loses_power else disk
        disk.let_go()
        check_seen_from_outside(disk)

        restored(disk, archive, board)

        assert unfinished_restore(disk, PATH) is None
        assert rows_in(disk) == shown(ROWS), changes
        assert {each.code for each in findings_of(disk, PATH)} <= SPOILED_SNAPSHOTS


def check_seen_from_outside(disk: FileSystem) -> None:
    """Either nobody takes it for a data directory, or it is all there."""
    if not disk.exists(PATH) or unfinished_restore(disk, PATH) is not None:
        return
    if any(map(parse_directory_name, disk.list(PATH))):
        assert {JOURNAL, ".kafka_cleanshutdown", "meta.properties", "t-0"} <= {*disk.list(PATH)}
        assert rows_in(disk) == shown(ROWS)


def test_what_is_not_whole_is_refused_with_the_command_that_goes_on(
    archive: str, board: TaskBoard
) -> None:
    disk = MemoryFileSystem()
    board.stop()
    (result,) = restored(disk, archive, board)
    assert result == TaskResult()

    for refuses, error in (
        (lambda: check_whole(disk, [PATH]), StartError),
        (lambda: log_directory(disk, PATH), NotALogError),
    ):
        with pytest.raises(error, match=r"is not whole: .* run `kbroker go on` again"):
            refuses()
    board.clear()
    restored(disk, archive, board)
    check_whole(disk, [PATH])
    assert rows_in(disk) == shown(ROWS)


def test_a_whole_directory_is_left_alone(archive: str, board: TaskBoard) -> None:
    disk = MemoryFileSystem()
    restored(disk, archive, board)
    archive_rows(archive, [record(300)])
    disk.write_bytes(f"{PATH}/more", b"of its broker")

    assert restored(disk, archive, board) == []

    assert rows_in(disk) == shown(ROWS)


def test_an_archive_that_grows_meanwhile_changes_nothing(archive: str, board: TaskBoard) -> None:
    disk = MemoryFileSystem()
    board.stop()
    restored(disk, archive, board)
    board.clear()
    archive_rows(archive, [record(at) for at in range(300, 320)])

    restored(disk, archive, board)

    assert rows_in(disk) == shown(ROWS)


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (("t-0/00000000000000000000.log",), r"is not empty \(it has t-0\)"),
        (("notes.txt",), r"is not empty \(it has notes.txt\)"),
        ((".lock", "lost+found/x", f"{RESTORE_FOLDER}/restore.json.tmp"), None),
    ],
)
def test_a_directory_of_somebody_else_is_refused_untouched(
    names: tuple[str, ...], sentence: str | None
) -> None:
    disk = MemoryFileSystem()
    for name in names:
        disk.make_directory(f"{PATH}/{name}".rpartition("/")[0])
        disk.write_bytes(f"{PATH}/{name}", b"")
    before = sorted(path for path, _ in disk.files())

    if sentence is None:
        assert RestoredDirectory(PATH, disk).stage(JOB) is Stage.NEW
    else:
        with pytest.raises(PipelineError, match=sentence):
            RestoredDirectory(PATH, disk).stage(JOB)

    assert sorted(path for path, _ in disk.files()) == before


def test_a_directory_of_a_broker_or_of_another_restore_is_refused(
    archive: str, board: TaskBoard
) -> None:
    disk = MemoryFileSystem()
    directory = RestoredDirectory(PATH, disk)
    with directory.held(), pytest.raises(PipelineError, match="is in use by a broker"):
        restored(disk, archive, board)
    board.stop()
    restored(disk, archive, board)

    with pytest.raises(
        PipelineError,
        match=r"another restore is not at its end: .*`kbroker go on`, or remove /data where",
    ):
        restored(disk, archive, board, OTHER_JOB)
    board.clear()
    restored(disk, archive, board)
    with directory.held(), pytest.raises(PipelineError, match="is in use by a broker"):
        directory.stage(OTHER_JOB)


def test_a_full_disk_ends_in_a_sentence_and_is_gone_on_with(archive: str, board: TaskBoard) -> None:
    disk: Any = MemoryFileSystem(capacity_bytes=4_000)

    (result,) = restored(disk, archive, board)
    assert not result.is_complete
    assert "space" in str(result.refusal)
    assert str(result.refusal).endswith("run again")
    disk.capacity_bytes = 1 << 40
    (result,) = restored(disk, archive, board)

    assert result.rows_before + result.rows == 90
    assert rows_in(disk) == shown(ROWS)


def test_what_a_log_tells_a_broker_of_its_disk_is_told_to_nobody(
    archive: str, board: TaskBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []

    class Last(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())

    monkeypatch.setattr(logging, "lastResort", Last())
    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # as in a process that logs nothing
    disk: Any = MemoryFileSystem(capacity_bytes=4_000)

    (result,) = restored(disk, archive, board)

    assert "space" in str(result.refusal)
    assert said == []


def test_a_log_that_is_gone_is_not_taken_for_one_that_was_placed(
    archive: str, board: TaskBoard
) -> None:
    disk = MemoryFileSystem()
    faulty = FailingFileSystem(disk)
    faulty.fail("rename", f"*/{JOURNAL}")
    with pytest.raises(PipelineError, match="run again"):
        restored(faulty, archive, board)
    grown = f"{PATH}/{RESTORE_FOLDER}/t-0"
    disk.remove_tree(f"{grown}/t-0")

    with pytest.raises(PipelineError, match=f"{grown}/t-0 is gone: remove {grown}, and run again"):
        restored(disk, archive, board)
    disk.remove_tree(grown)
    restored(disk, archive, board)
    assert rows_in(disk) == shown(ROWS)


def test_a_full_disk_of_the_checkpoint_is_the_one_that_is_named(
    archive: str, board: TaskBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_path: Path, _text: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # as a write does

    monkeypatch.setattr(Path, "write_text", refuse)

    (result,) = restored(MemoryFileSystem(), archive, board)

    place = board.directory / "t-0"
    assert result.refusal == f"{place} cannot be written: No space left on device; run again"


def test_what_expires_between_two_runs_is_told_by_the_second(
    archive: str, board: TaskBoard
) -> None:
    disk = MemoryFileSystem()
    board.stop()
    restored(disk, archive, board)
    note = RestoredDirectory(PATH, disk).note()
    before = list(expired_since(read_archive(archive), note))

    gone = expire_files(archive, 0, ())

    assert before == []
    (sentence,) = expired_since(read_archive(archive), note)
    assert sentence.startswith(f"{sum(entry.rows for entry in gone)} records of t-0 have expired")
