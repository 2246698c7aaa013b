from __future__ import annotations

import fcntl
from collections.abc import Callable, Sequence
from dataclasses import replace
from errno import ENOENT
from pathlib import Path
from typing import TypeVar

import pytest

from kbroker.inspection.finding import Severity
from kbroker.log.disk.file_system import RealFileSystem, StorageError
from kbroker.pipeline.auditing.audit_finding import AuditFinding, in_order
from kbroker.pipeline.auditing.audit_report import AuditRequest
from kbroker.pipeline.auditing.logs.log_side import (
    findings_of,
    other_topics,
    plan_logs,
    run_logs,
    side_of,
)
from kbroker.pipeline.auditing.logs.log_tasks import check_log, check_segments, content_tasks
from kbroker.pipeline.auditing.window_counts import HOUR_MS
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.spark_job.spread import InProcess
from tests.golden import golden_logs

NOW_MS = 4_102_444_800_000
TaskT = TypeVar("TaskT")
ResultT = TypeVar("ResultT")


def request(*directories: Path, topics: tuple[str, ...] = (), deep: bool = True) -> AuditRequest:
    return AuditRequest(
        directories=tuple(map(str, directories)), topics=topics, is_deep=deep, window_ms=HOUR_MS,
        now_ms=NOW_MS,
    )  # fmt: skip


def found(wanted: AuditRequest, split_bytes: int) -> tuple[list[AuditFinding], object]:
    tasks, findings = plan_logs(wanted)
    results = run_logs(tasks, {}, InProcess(), split_bytes)
    sides = {result.task.path: side_of(result) for result in results}
    return in_order([*findings, *findings_of(results)]), sides


@pytest.mark.parametrize("name", [golden_logs.CLEAN[0], golden_logs.DAMAGED[0]])
@pytest.mark.parametrize("deep", [False, True])
def test_a_log_whose_bytes_are_looked_at_by_others_has_the_same_findings(
    name: str, deep: bool, tmp_path: Path
) -> None:
    directory = golden_logs.unpack(name, tmp_path)
    wanted = request(directory, deep=deep)
    tasks, _ = plan_logs(wanted)

    assert sum(bool(content_tasks(task, 2_000)) for task in tasks) > 5
    assert found(wanted, 2_000) == found(wanted, 2**40)


def test_segments_are_dealt_out_whole_and_in_order(tmp_path: Path) -> None:
    directory = golden_logs.unpack(golden_logs.CLEAN[0], tmp_path)
    (task, _) = plan_logs(request(directory, topics=("plain",)))[0]

    parts = content_tasks(task, 1_000)

    assert len(parts) > 1
    assert tuple(base for part in parts for base in part.base_offsets) == task.base_offsets
    assert content_tasks(task, task.size_bytes) == []


def test_a_segment_that_went_is_left_to_the_walk(tmp_path: Path) -> None:
    directory = golden_logs.unpack(golden_logs.CLEAN[0], tmp_path)
    (task, _) = plan_logs(request(directory, topics=("plain",)))[0]
    part, *_ = content_tasks(task, 1_000)
    for path in directory.glob("plain-*/*.log"):
        path.unlink()

    result = check_segments(part)

    assert (result.findings, result.broken) == ([], {})


def test_two_directories_of_one_broker_are_looked_at_together(tmp_path: Path) -> None:
    one = golden_logs.unpack(golden_logs.CLEAN[0], tmp_path / "one")
    two = golden_logs.unpack(golden_logs.CLEAN[0], tmp_path / "two")

    codes = {each.finding.code for each in plan_logs(request(one, two))[1]}

    assert "partition-twice" in codes


def test_the_largest_partition_is_the_first_task(tmp_path: Path) -> None:
    directory = golden_logs.unpack(golden_logs.CLEAN[0], tmp_path)

    sizes = [task.size_bytes for task in plan_logs(request(directory))[0]]

    assert sizes == sorted(sizes, reverse=True)


def test_a_directory_without_logs_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing")

    with pytest.raises(PipelineError, match="neither a data directory"):
        plan_logs(request(tmp_path))


def test_findings_come_in_the_same_order_however_the_work_was_spread(tmp_path: Path) -> None:
    class Backwards:
        def __call__(
            self, function: Callable[[TaskT], ResultT], tasks: Sequence[TaskT]
        ) -> list[ResultT]:
            return [function(task) for task in reversed(tasks)][::-1]

    directory = golden_logs.unpack(golden_logs.DAMAGED[0], tmp_path)
    tasks, _ = plan_logs(request(directory))

    forwards = in_order(findings_of(run_logs(tasks, {}, InProcess())))
    backwards = in_order(findings_of(run_logs(tasks, {}, Backwards())))

    assert forwards == backwards
    assert forwards[0].finding.severity is Severity.ERROR


def test_a_topic_that_only_has_the_name_of_the_archived_one_is_told_of(tmp_path: Path) -> None:
    directory = golden_logs.unpack(golden_logs.CLEAN[0], tmp_path)
    tasks, _ = plan_logs(request(directory, topics=("plain", "odd")))
    results = run_logs(tasks, {}, InProcess())
    ids = {result.task.topic_partition.topic: str(result.checked.topic_id) for result in results}

    assert other_topics(results, {}) == other_topics(results, ids) == []
    found = other_topics(results, {**ids, "plain": "6f1c1f1e-0000-4000-8000-000000000000"})
    assert {each.finding.code for each in found} == {"archive-other-topic"}
    assert {Path(each.finding.path).name.partition("-")[0] for each in found} == {"plain"}
    assert "6f1c1f1e" in found[0].finding.what


PASSING_NAMES = (
    "plain-0/00000000000000000000.log.deleted",
    "plain-0/00000000000000000000.log.cleaned",
    "plain-0/00000000000000000000.log.swap",
    "plain-0/leader-epoch-checkpoint.tmp",
    "recovery-point-offset-checkpoint.tmp",
    "old-0.0123456789abcdef0123456789abcdef-delete/00000000000000000000.log",
    "old-1.0123456789abcdef0123456789abcdef-future/00000000000000000000.log",
)


def make_passing_names(directory: Path) -> None:
    """As a broker has them that deletes, cleans, moves, and has just started."""
    for name in PASSING_NAMES:
        path = directory / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    (directory / "recovery-point-offset-checkpoint").write_bytes(b"")
    (directory / ".kafka_cleanshutdown").unlink(missing_ok=True)


def test_what_comes_and_goes_on_a_running_broker_is_not_told(tmp_path: Path) -> None:
    directory = golden_logs.unpack(golden_logs.CLEAN[0], tmp_path)
    before, _ = found(request(directory, topics=("plain",)), 2**40)
    make_passing_names(directory)

    with (directory / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        at_work, _ = found(request(directory, topics=("plain",)), 2**40)
    stopped, _ = found(request(directory, topics=("plain",)), 2**40)

    told = {each.finding.path for each in stopped}
    assert at_work == before == []
    assert len(told) == len(PASSING_NAMES) + 1


def test_a_segment_that_retention_removes_meanwhile_is_not_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = golden_logs.unpack(golden_logs.CLEAN[0], tmp_path)
    tasks, _ = plan_logs(request(directory, topics=("plain",)))
    task = max(tasks, key=lambda each: len(each.base_offsets))
    first = f"{task.path}/{task.base_offsets[0]:020d}.log"
    plain = RealFileSystem.open

    def retention(self: RealFileSystem, path: str, **how: bool) -> object:
        if path == first:
            raise StorageError(path, "open", ENOENT)
        return plain(self, path, **how)

    monkeypatch.setattr(RealFileSystem, "open", retention)

    stopped, at_work = (
        check_log(replace(task, is_at_work=is_at_work)) for is_at_work in (False, True)
    )

    assert "gone" in {each.code for each in stopped.findings}
    assert "gone" not in {each.code for each in at_work.findings}


def test_a_segment_that_was_rolled_after_the_plan_is_looked_at_in_the_walk(tmp_path: Path) -> None:
    directory = golden_logs.unpack(golden_logs.CLEAN[0], tmp_path)
    tasks, _ = plan_logs(request(directory, topics=("plain",), deep=False))
    task = max(tasks, key=lambda each: len(each.base_offsets))
    last = Path(task.path, f"{task.base_offsets[-1]:020d}.log")
    data = bytearray(last.read_bytes())
    data[-1] ^= 1
    last.write_bytes(data)
    earlier = replace(task, base_offsets=task.base_offsets[:-1])

    results = run_logs([earlier], {}, InProcess(), 1)

    assert "batch-crc" in {each.code for result in results for each in result.findings}
