"""The work of a running broker besides answering: duties, background writes, cleaning."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial

from kbroker.clock import Clock, ClockWithTimer
from kbroker.config.kafka_config import KafkaConfig
from kbroker.counters import CounterRegistry
from kbroker.log.cleaner.log_cleaner import LogCleaner
from kbroker.log.disk.file_system import FileSystem, RealFileSystem
from kbroker.log.manager.log_manager import LogManager
from kbroker.memory_room import MemoryRoom
from kbroker.replication.replica_manager import ReplicaManager
from kbroker.server.background.background_work import BackgroundWork, Duty
from kbroker.server.background.background_writer import BackgroundWriter
from kbroker.server.background.cleaner_threads import CleanerThreads, CleanerWorker
from kbroker.server.background.freed_memory import INTERVAL_MS, FreedMemory, trim_memory
from kbroker.server.background.watchdog import Watchdog

_log = logging.getLogger(__name__)

_DELETED_FILES_MS = 10_000  # their space is free this long after file.delete.delay.ms at most


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class BackgroundParts:
    """The parts that the services work with; `config` returns the settings in force."""

    config: Callable[[], KafkaConfig]
    logs: LogManager
    replicas: ReplicaManager
    file_system: FileSystem
    clock: ClockWithTimer
    room: MemoryRoom  # of large requests and answers
    counters: CounterRegistry


def start_background_services(parts: BackgroundParts, undo: AsyncExitStack) -> None:
    """Start all of them; `undo` learns how each is stopped."""
    writer = BackgroundWriter()
    parts.logs.write_with(writer.run)
    undo.push_async_callback(writer.stop)
    undo.callback(parts.logs.stop_cleanup)
    if parts.config().log.log_cleaner_enable:
        _start_cleaner(parts, writer, undo)
    freed = FreedMemory(parts.room, trim_memory)
    duties = broker_duties(parts.config(), parts.logs, parts.replicas, parts.clock)
    work = BackgroundWork([*duties, Duty("freed memory", INTERVAL_MS, freed.look)])
    work.start()
    undo.callback(work.stop)
    if _log.isEnabledFor(logging.DEBUG):
        watchdog = Watchdog()
        watchdog.start()
        undo.callback(watchdog.stop)


def _start_cleaner(parts: BackgroundParts, writer: BackgroundWriter, undo: AsyncExitStack) -> None:
    in_process = parts.config().kbroker.kbroker_cleaner == "process"
    threads = CleanerThreads(partial(_new_cleaner, parts.file_system, in_process=in_process))
    undo.push_async_callback(threads.stop)
    cleaner = LogCleaner(
        parts.logs,
        lambda: parts.config().log,
        parts.file_system,
        (parts.clock, parts.clock),
        threads,
        writer.run,
    )
    cleaner.register(parts.counters)
    cleaner.start()
    undo.callback(cleaner.stop)


def _new_cleaner(file_system: FileSystem, *, in_process: bool) -> CleanerWorker:
    from kbroker.server.background import cleaner_workers  # with the first job: start-up cost

    # Another process knows nothing of files that are not the system's.
    if not isinstance(file_system, RealFileSystem):
        return cleaner_workers.ThreadWorker(file_system)
    if in_process:
        return cleaner_workers.ProcessWorker()
    # Its own count of open files: a thread must not close what the loop is about to send from.
    return cleaner_workers.ThreadWorker(type(file_system)())


def broker_duties(
    config: KafkaConfig, logs: LogManager, replicas: ReplicaManager, clock: Clock
) -> list[Duty]:
    """The periodic duties of a broker, with the settings that say how often each is due."""
    log, replication = config.log, config.replication
    initial_ms = log.log_initial_task_delay_ms
    return [
        Duty(
            "high watermark checkpoint",
            replication.replica_high_watermark_checkpoint_interval_ms,
            replicas.logs.high_watermark_checkpoint,
        ),
        Duty("data directory check", 1_000, logs.look_after_directories),
        Duty(
            "in-sync replica check",
            replication.replica_lag_time_max_ms / 2,
            replicas.isr_check,
        ),
        Duty(
            "retention",
            log.log_retention_check_interval_ms,
            lambda: logs.cleanup(clock.now_ms()),
            initial_ms,
        ),
        Duty(
            "deleted files",
            _DELETED_FILES_MS,
            lambda: logs.remove_due_files(clock.now_ms()),
        ),
        Duty(
            "idle producers",
            log.producer_id_expiration_check_interval_ms,
            lambda: logs.forget_idle_producers(clock.now_ms()),
        ),
        Duty(
            "log flush",
            # Full segments are synced in any case, so that recovery after a crash need not read
            # them.
            min(log.log_flush_scheduler_interval_ms, log.log_flush_offset_checkpoint_interval_ms),
            lambda: logs.dirty.flush(clock.now_ms()),
        ),
        Duty(
            "recovery point checkpoint",
            log.log_flush_offset_checkpoint_interval_ms,
            logs.checkpoints.recovery_points,
            initial_ms,
        ),
        Duty(
            "log start offset checkpoint",
            log.log_flush_start_offset_checkpoint_interval_ms,
            logs.checkpoints.log_starts,
            initial_ms,
        ),
    ]
