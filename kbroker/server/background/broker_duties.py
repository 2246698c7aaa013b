"""The periodic duties of a broker, with the settings that say how often each is due."""

from __future__ import annotations

from kbroker.clock import Clock
from kbroker.config.kafka_config import KafkaConfig
from kbroker.log.manager.log_manager import LogManager
from kbroker.replication.replica_manager import ReplicaManager
from kbroker.server.background.background_work import Duty

_DELETED_FILES_MS = 10_000  # at most so long after file.delete.delay.ms their space is free


def broker_duties(
    config: KafkaConfig, logs: LogManager, replicas: ReplicaManager, clock: Clock
) -> list[Duty]:
    """List the duties that are due again and again while the broker runs."""
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
