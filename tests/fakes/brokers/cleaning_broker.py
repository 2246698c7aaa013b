"""The part of a broker that keeps and cleans logs, on one thread and any disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kbroker.config.log_config import LogConfig
from kbroker.config.topic_config import TopicConfig
from kbroker.log.cleaner.cleaner_worker import run_job
from kbroker.log.cleaner.cleaning_job import CleanedGroup, CleaningEnd, CleaningJob
from kbroker.log.cleaner.log_cleaner import LogCleaner
from kbroker.log.cleaner.pacer import CleaningAborted
from kbroker.log.directories.log_directories import LogDirectories
from kbroker.log.disk.file_system import FileSystem
from kbroker.log.disk.write_runner import WriteRunner, run_now
from kbroker.log.manager.log_manager import LogManager
from kbroker.log.partition.log import Log
from kbroker.model import TopicPartition
from kbroker.record.record_batch import BatchOptions, Record, build
from tests.fakes.logs.verified_batches import verified
from tests.fakes.running.virtual_time import VirtualTime

DATA = "/data"


class InlineRunner:
    """Keeps jobs until `work`, which does the oldest one."""

    def __init__(self, disk: FileSystem) -> None:
        self.disk = disk
        self.waiting: list[Callable[[], None]] = []
        self.jobs: list[CleaningJob] = []
        self.rests = 0
        self.after_group: Callable[[], None] = lambda: None

    def run(
        self,
        job: CleaningJob,
        on_group: Callable[[CleanedGroup], None],
        on_end: Callable[[CleaningEnd | None], None],
    ) -> Callable[[], None]:
        aborted: list[bool] = []
        self.jobs.append(job)

        def report(group: CleanedGroup) -> None:
            on_group(group)
            self.after_group()

        def work() -> None:
            try:
                end = run_job(job, self.disk, report, lambda _: None, lambda: bool(aborted))
            except CleaningAborted:
                on_end(None)
            else:
                on_end(None if aborted else end)

        self.waiting.append(work)
        return lambda: aborted.append(True)

    def rest(self) -> None:
        self.rests += 1

    def work(self) -> None:
        while self.waiting:
            self.waiting.pop(0)()


class CleaningBroker:
    """Logs in one data directory with their cleaner; `topic` are the settings of every topic."""

    def __init__(
        self,
        disk: FileSystem,
        topic: dict[str, Any] | None = None,
        *,
        time: VirtualTime | None = None,
        run_write: WriteRunner = run_now,
        **log_settings: Any,
    ) -> None:
        self.disk = disk
        self.time = time or VirtualTime()
        self.topic = TopicConfig(**({"cleanup_policy": ("compact",)} | (topic or {})))
        self.settings = LogConfig(**log_settings)
        self.logs = LogManager(
            LogDirectories.lock(disk, [DATA]),
            lambda: self.settings,
            lambda _: self.topic,
            disk,
            self.time,
        )
        self.logs.load("cluster", 0)
        self.runner = InlineRunner(disk)
        self.cleaner = LogCleaner(
            self.logs,
            lambda: self.settings,
            disk,
            (self.time, self.time),
            self.runner,
            run_write,
        )
        for log in self.logs.all_logs():
            log.update_high_watermark(log.log_end_offset)
        self.cleaner.start()

    def log(self, topic: str = "t") -> Log:
        return self.logs.get_or_create_log(TopicPartition(topic, 0))

    def write(self, log: Log, *entries: tuple[bytes | None, bytes | None], **options: Any) -> None:
        """Append one batch."""
        now_ms = self.time.now_ms()
        records = [Record(index, now_ms, *entry) for index, entry in enumerate(entries)]
        data = bytearray(build(records, options=BatchOptions(**options)))
        log.append_as_leader(verified(log, data), 0, now_ms)
        log.update_high_watermark(log.log_end_offset)

    def roll(self, log: Log) -> None:
        log.roll(self.time.now_ms())
        log.flush()

    def clean(self) -> None:
        """Look once, and finish what that begins."""
        self.cleaner.look()
        self.runner.work()

    def checkpoint(self) -> list[str]:
        """The lines of the cleaner's checkpoint file."""
        text = self.disk.read_bytes(f"{DATA}/cleaner-offset-checkpoint").decode()
        return text.splitlines()[2:]
