"""LogConfig: log directories, segments, retention, flushing and cleaning."""

from __future__ import annotations

from kbroker.config.config_checks import gzip_level, kafka_version
from kbroker.config.config_def import ConfigGroup, Long, config_group, define
from kbroker.config.config_values import MAX_DOUBLE, MAX_LONG

MS_PER_MINUTE = 60_000
MS_PER_HOUR = 3_600_000
MIN_DEDUPE_BYTES = 1024 * 1024


@config_group
class LogConfig(ConfigGroup):
    """Log directories, segments, retention, flushing and cleaning."""

    log_dir: str = define(
        "/tmp/kafka-logs",  # noqa: S108  Kafka's default, kept for existing set-ups
        "Data directory when log.dirs is not set.",
        importance="high",
    )
    log_dirs: str | None = define(None, "Data directories, comma separated.", importance="high")
    log_segment_bytes: int = define(
        1_073_741_824,
        "Roll a new segment at this size.",
        at_least=14,
        importance="high",
        dynamic="cluster-wide",
    )
    log_roll_ms: Long | None = define(
        None,
        "Roll a new segment at this age; falls back to log.roll.hours.",
        importance="high",
        dynamic="cluster-wide",
        synonyms=("log.roll.ms", "log.roll.hours"),
    )
    log_roll_hours: int = define(
        168,
        "Roll a new segment at this age in hours.",
        at_least=1,
        importance="high",
        synonyms=("log.roll.ms", "log.roll.hours"),
    )
    log_roll_jitter_ms: Long | None = define(
        None,
        "Random part taken off the rolling age.",
        importance="high",
        dynamic="cluster-wide",
        synonyms=("log.roll.jitter.ms", "log.roll.jitter.hours"),
    )
    log_roll_jitter_hours: int = define(
        0,
        "Random part taken off the rolling age, in hours.",
        at_least=0,
        importance="high",
        synonyms=("log.roll.jitter.ms", "log.roll.jitter.hours"),
    )
    log_retention_ms: Long | None = define(
        None,
        "Delete segments older than this; -1 keeps them. Falls back to minutes, then hours.",
        importance="high",
        dynamic="cluster-wide",
        synonyms=("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    )
    log_retention_minutes: int | None = define(
        None,
        "Retention time in minutes; falls back to hours.",
        importance="high",
        synonyms=("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    )
    log_retention_hours: int = define(
        168,
        "Retention time in hours.",
        importance="high",
        synonyms=("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    )
    log_retention_bytes: Long = define(
        -1,
        "Delete the oldest segments of a partition above this size; -1 for no limit.",
        importance="high",
        dynamic="cluster-wide",
    )
    log_retention_check_interval_ms: Long = define(
        300_000, "How often retention is checked.", at_least=1
    )
    log_cleanup_policy: tuple[str, ...] = define(
        ("delete",),
        "What to do with old segments: delete, compact or both.",
        list_of=("compact", "delete"),
        dynamic="cluster-wide",
    )
    log_cleaner_enable: bool = define(True, "Run the log cleaner for compacted topics.")
    log_cleaner_threads: int = define(1, "Cleaner threads.", at_least=0, dynamic="cluster-wide")
    log_cleaner_io_max_bytes_per_second: float = define(
        MAX_DOUBLE, "Limit of the cleaner's reads and writes together.", dynamic="cluster-wide"
    )
    log_cleaner_dedupe_buffer_size: Long = define(
        134_217_728, "Memory of the cleaners' offset maps together.", dynamic="cluster-wide"
    )
    log_cleaner_io_buffer_size: int = define(
        524_288,
        "Memory of the cleaners' read and write buffers together.",
        at_least=0,
        dynamic="cluster-wide",
    )
    log_cleaner_io_buffer_load_factor: float = define(
        0.9, "How full an offset map may get.", dynamic="cluster-wide"
    )
    log_cleaner_backoff_ms: Long = define(
        15_000,
        "Pause of a cleaner that found nothing to clean.",
        at_least=0,
        dynamic="cluster-wide",
    )
    log_cleaner_min_cleanable_ratio: float = define(
        0.5,
        "Share of uncleaned bytes from which a log is cleaned.",
        at_least=0,
        at_most=1,
        dynamic="cluster-wide",
    )
    log_cleaner_delete_retention_ms: Long = define(
        86_400_000,
        "How long delete markers stay in a compacted log.",
        at_least=0,
        dynamic="cluster-wide",
    )
    log_cleaner_min_compaction_lag_ms: Long = define(
        0, "A record stays uncompacted at least this long.", at_least=0, dynamic="cluster-wide"
    )
    log_cleaner_max_compaction_lag_ms: Long = define(
        MAX_LONG,
        "A record is open to compaction at latest after this.",
        at_least=1,
        dynamic="cluster-wide",
    )
    log_index_size_max_bytes: int = define(
        10_485_760, "Largest size of an offset index file.", at_least=4, dynamic="cluster-wide"
    )
    log_index_interval_bytes: int = define(
        4096, "Log bytes between two index entries.", at_least=0, dynamic="cluster-wide"
    )
    log_flush_interval_messages: Long = define(
        MAX_LONG,
        "Records in a partition before they are synced to disk.",
        at_least=1,
        importance="high",
        dynamic="cluster-wide",
    )
    log_flush_interval_ms: Long | None = define(
        None,
        "Time before records are synced; falls back to log.flush.scheduler.interval.ms.",
        importance="high",
        dynamic="cluster-wide",
        synonyms=("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    )
    log_flush_scheduler_interval_ms: Long = define(
        MAX_LONG, "How often the flusher looks for logs to sync.", importance="high"
    )
    log_flush_offset_checkpoint_interval_ms: int = define(
        60_000, "How often recovery points are written.", at_least=0, importance="high"
    )
    log_flush_start_offset_checkpoint_interval_ms: int = define(
        60_000, "How often log start offsets are written.", at_least=0, importance="high"
    )
    log_segment_delete_delay_ms: Long = define(
        60_000,
        "Time between renaming a file to .deleted and its removal.",
        at_least=0,
        importance="high",
        dynamic="cluster-wide",
    )
    log_preallocate: bool = define(
        False, "Give a segment's file its full size when it is created.", dynamic="cluster-wide"
    )
    log_initial_task_delay_ms: Long = define(
        30_000,
        "Wait before the first periodic work on logs.",
        at_least=0,
        importance="low",
        internal=True,
    )
    log_message_format_version: str = define(
        "3.0-IV1",
        "Format of stored records, below inter.broker.protocol.version 3.0.",
        check=kafka_version,
    )
    log_message_timestamp_type: str = define(
        "CreateTime",
        "Whose clock stamps records: CreateTime or LogAppendTime.",
        one_of=("CreateTime", "LogAppendTime"),
        dynamic="cluster-wide",
    )
    log_message_timestamp_difference_max_ms: Long = define(
        MAX_LONG,
        "Allowed distance of a record's time from the broker's, both ways.",
        at_least=0,
        dynamic="cluster-wide",
    )
    log_message_timestamp_before_max_ms: Long = define(
        MAX_LONG,
        "How far a record's time may be before the broker's.",
        at_least=0,
        dynamic="cluster-wide",
    )
    log_message_timestamp_after_max_ms: Long = define(
        MAX_LONG,
        "How far a record's time may be after the broker's.",
        at_least=0,
        dynamic="cluster-wide",
    )
    log_message_downconversion_enable: bool = define(
        True,
        "Convert records for clients of old formats.",
        importance="low",
        dynamic="cluster-wide",
    )
    message_max_bytes: int = define(
        1_048_588,
        "Largest record batch accepted.",
        at_least=0,
        importance="high",
        dynamic="cluster-wide",
    )
    num_partitions: int = define(1, "Partitions of a topic created without a number.", at_least=1)
    num_recovery_threads_per_data_dir: int = define(
        1,
        "Threads per data directory that load logs at start.",
        at_least=1,
        importance="high",
        dynamic="cluster-wide",
    )
    compression_type: str = define(
        "producer",
        "Codec of stored records; producer keeps the producer's codec.",
        one_of=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        importance="high",
        dynamic="cluster-wide",
    )
    compression_gzip_level: int = define(
        -1,
        "Level used when records are compressed with gzip here.",
        check=gzip_level,
        dynamic="cluster-wide",
    )
    compression_lz4_level: int = define(
        9,
        "Level used when records are compressed with lz4 here.",
        at_least=1,
        at_most=17,
        dynamic="cluster-wide",
    )
    compression_zstd_level: int = define(
        3,
        "Level used when records are compressed with zstd here.",
        at_least=-131_072,
        at_most=22,
        dynamic="cluster-wide",
    )
    producer_id_expiration_ms: int = define(
        86_400_000,
        "Forget an idempotent producer after this time without records.",
        at_least=1,
        importance="low",
        dynamic="cluster-wide",
    )
    producer_id_expiration_check_interval_ms: int = define(
        600_000,
        "How often idle producers are searched for.",
        at_least=1,
        importance="low",
        internal=True,
    )

    def has_room_to_clean(self) -> bool:
        """Whether each cleaner thread gets as much memory as it must have."""
        threads = max(1, self.log_cleaner_threads)
        return self.log_cleaner_dedupe_buffer_size // threads > MIN_DEDUPE_BYTES

    def data_directories(self) -> tuple[str, ...]:
        """The directories of log.dirs, or of log.dir; each once, in order, and without slashes at
        its end: a directory has one name.
        """
        text = self.log_dir if self.log_dirs is None else self.log_dirs
        named = (part.strip() for part in text.split(","))
        return tuple(dict.fromkeys(part.rstrip("/") or "/" for part in named if part))

    def log_retention_ms_effective(self) -> int:
        """Retention from log.retention.ms, else minutes, else hours; -1 without limit."""
        if self.log_retention_ms is not None:
            return max(self.log_retention_ms, -1)
        if self.log_retention_minutes is not None:
            return max(self.log_retention_minutes * MS_PER_MINUTE, -1)
        return max(self.log_retention_hours * MS_PER_HOUR, -1)

    def log_roll_ms_effective(self) -> int:
        """Age at which segments roll, from log.roll.ms, else hours."""
        return (
            self.log_roll_ms if self.log_roll_ms is not None else self.log_roll_hours * MS_PER_HOUR
        )

    def log_roll_jitter_ms_effective(self) -> int:
        """Random part of that age, from log.roll.jitter.ms, else hours."""
        if self.log_roll_jitter_ms is not None:
            return self.log_roll_jitter_ms
        return self.log_roll_jitter_hours * MS_PER_HOUR

    def log_flush_interval_ms_effective(self) -> int:
        """Time before a sync, from log.flush.interval.ms, else the flusher's interval."""
        if self.log_flush_interval_ms is not None:
            return self.log_flush_interval_ms
        return self.log_flush_scheduler_interval_ms
