"""What an operator changes while a broker is at work, and the thread that cleans meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from kbroker.config.log_config import LogConfig
from kbroker.log.cleaner.cleaner_worker import run_job
from kbroker.log.cleaner.cleaning_job import CleanedGroup, CleaningEnd, CleaningJob
from kbroker.log.cleaner.pacer import CleaningAborted
from kbroker.model import TopicPartition
from tests.fakes.disks.recording_file_system import RecordingFileSystem
from tests.faults.crash_model import Promises

CLEANER_SETTINGS = LogConfig(log_cleaner_backoff_ms=3_600_000)  # it is told when to look
CHANGES: dict[str, tuple[Any, ...]] = {
    "cleanup_policy": (("compact",), ("compact",), ("delete",), ("compact", "delete")),
    "segment_bytes": (1000, 1500, 4000),
    "index_interval_bytes": (50, 150, 400),
    "retention_ms": (60_000, 15_000, -1),
    "retention_bytes": (-1, 4_000),
    "compression_type": ("producer", "producer", "gzip", "uncompressed", "zstd"),
}


class CleaningThread:
    """The runner of a cleaner: its work is done at a later step, and told at another."""

    def __init__(self, disk: RecordingFileSystem, promises: Promises) -> None:
        self._disk = disk
        self._promises = promises
        self._told: list[Callable[[], None]] = []
        self.waiting: list[Callable[[], None]] = []

    def run(
        self,
        job: CleaningJob,
        on_group: Callable[[CleanedGroup], None],
        on_end: Callable[[CleaningEnd | None], None],
    ) -> Callable[[], None]:
        promise = self._promises.partitions[TopicPartition(job.topic, job.partition)]
        end_offset = max(promise.may_have_gaps_below, job.first_uncleanable_offset)
        promise.may_have_gaps_below = end_offset
        aborted: list[bool] = []

        def work() -> None:
            groups: list[CleanedGroup] = []
            end: CleaningEnd | None = None
            with suppress(CleaningAborted):
                end = run_job(job, self._disk, groups.append, _ignored, lambda: bool(aborted))
            self._told += [partial(on_group, group) for group in groups]
            self._told.append(partial(on_end, None if aborted else end))

        self.waiting.append(work)
        return lambda: aborted.append(True)

    def rest(self) -> None:
        """Nothing to do for a while."""

    def work(self) -> None:
        """Do the oldest job."""
        self.waiting.pop(0)()

    def tell(self) -> None:
        """The event loop hears of it."""
        while self._told:
            self._told.pop(0)()


def _ignored(_: object) -> None:
    pass
