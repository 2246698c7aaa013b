"""Cleaning in a process of its own, and on a thread: begun, finished, aborted from an event loop."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kbroker.log.cleaner.cleanable_log import cleaning_job, log_to_clean
from kbroker.log.cleaner.cleaning_job import (
    CleanedGroup,
    CleanerLimits,
    CleaningDone,
    CleaningEnd,
    CleaningJob,
)
from kbroker.log.disk.file_system import RealFileSystem
from kbroker.record.record_batch import Record, build
from kbroker.server.background.cleaner_threads import CleanerThreads, CleanerWorker
from kbroker.server.background.cleaner_workers import ProcessWorker, ThreadWorker
from tests.fakes.logs.log_maker import NOW_MS, open_log
from tests.fakes.running.child_processes import children

KINDS = {"process": ProcessWorker, "thread": lambda: ThreadWorker(RealFileSystem())}


def job_for(directory: Path, batches: int = 20, limits: CleanerLimits | None = None) -> CleaningJob:
    log = open_log(directory, cleanup_policy=("compact",), segment_bytes=2000)
    for number in range(batches):
        records = [Record(index, NOW_MS, b"%d" % index, b"%d" % number) for index in range(5)]
        log.append_as_leader(bytearray(build(records)), 0, NOW_MS)
    log.roll(NOW_MS)
    log.update_high_watermark(log.log_end_offset)
    log.files.close_files()
    target = log_to_clean(log, 0, NOW_MS)
    return cleaning_job(target, RealFileSystem(), limits or CleanerLimits(), NOW_MS)


class Watched:
    """What a runner told of one job."""

    def __init__(self, threads: CleanerThreads, job: CleaningJob) -> None:
        self.groups: list[CleanedGroup] = []
        self.end: asyncio.Future[CleaningEnd | None] = asyncio.get_running_loop().create_future()
        self.abort = threads.run(job, self.groups.append, self.end.set_result)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_job_reports_its_groups_and_one_end(kind: str, tmp_path: Path) -> None:
    new_worker: Callable[[], CleanerWorker] = KINDS[kind]
    threads = CleanerThreads(new_worker)
    watched = Watched(threads, job_for(tmp_path / "a"))
    end = await watched.end
    assert isinstance(end, CleaningDone)
    assert end.end_offset == 100
    assert watched.groups[0].base_offset == 0
    assert (tmp_path / "a" / f"{0:020d}.log.cleaned").exists()
    again = Watched(threads, job_for(tmp_path / "b"))
    assert isinstance(await again.end, CleaningDone)
    threads.rest()
    await threads.stop()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_damaged_segment_comes_back_as_a_reason(kind: str, tmp_path: Path) -> None:
    job = job_for(tmp_path / "a")
    path = Path(job.segments[0].path)
    path.write_bytes(path.read_bytes()[:-3] + b"xyz")
    threads = CleanerThreads(KINDS[kind])
    end = await Watched(threads, job).end
    assert isinstance(end, CleaningDone)
    assert end.stats.damaged_segments == 1
    assert "wrong checksum" in end.stats.first_damaged
    await threads.stop()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_stop_is_quick_and_every_job_hears_of_it(kind: str, tmp_path: Path) -> None:
    threads = CleanerThreads(KINDS[kind])
    slow = CleanerLimits(bytes_per_s=10, read_bytes=100)
    watched = Watched(threads, job_for(tmp_path / "a", limits=slow))
    await asyncio.sleep(0.3)
    begun = time.perf_counter()
    await threads.stop()

    assert time.perf_counter() - begun < 5
    assert watched.end.done()
    assert watched.end.result() is None


def wait_for_child(before: list[int]) -> int:
    """Of this process; its id."""
    while True:
        for child in children(os.getpid()):
            if child not in before:
                return child
        time.sleep(0.01)


async def test_a_killed_process_is_no_end_of_the_broker(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = children(os.getpid())
    threads = CleanerThreads(ProcessWorker)
    slow = CleanerLimits(bytes_per_s=10, read_bytes=100)
    watched = Watched(threads, job_for(tmp_path / "a", limits=slow))
    child = await asyncio.to_thread(wait_for_child, before)
    os.kill(child, signal.SIGKILL)
    assert await watched.end is None
    assert isinstance(await Watched(threads, job_for(tmp_path / "b")).end, CleaningDone)
    await threads.stop()

    assert "process ended with code -9" in caplog.text
