"""RemoteStorageConfig: tiered storage (KIP-405).

Names, types, bounds and defaults are Kafka 3.9's; `support` says whether a setting is acted on.
"""

from __future__ import annotations

from kbroker.config.config_checks import non_empty
from kbroker.config.config_def import ConfigGroup, config_group, define
from kbroker.config.config_values import MAX_LONG, ConfigType


@config_group
class RemoteStorageConfig(ConfigGroup):
    """Tiered storage (KIP-405)."""

    remote_log_storage_system_enable: bool = define(
        False, "Offer tiered storage.", support="not yet"
    )
    remote_log_storage_manager_class_name: str | None = define(
        None, "Class that stores segments remotely.", check=non_empty, support="not yet"
    )
    remote_log_storage_manager_class_path: str | None = define(
        None, "Where that class is loaded from.", support="not yet"
    )
    remote_log_storage_manager_impl_prefix: str = define(
        "rsm.config.", "Prefix of that class's own settings.", check=non_empty, support="not yet"
    )
    remote_log_metadata_manager_class_name: str = define(
        "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
        "Class that keeps the list of remote segments.",
        check=non_empty,
        support="not yet",
    )
    remote_log_metadata_manager_class_path: str | None = define(
        None, "Where that class is loaded from.", support="not yet"
    )
    remote_log_metadata_manager_impl_prefix: str = define(
        "rlmm.config.", "Prefix of that class's own settings.", check=non_empty, support="not yet"
    )
    remote_log_metadata_manager_listener_name: str | None = define(
        None, "Listener that class connects to.", check=non_empty, support="not yet"
    )
    remote_log_metadata_custom_metadata_max_bytes: int = define(
        128,
        "Largest custom metadata of a remote segment.",
        at_least=0,
        importance="low",
        support="not yet",
    )
    remote_log_index_file_cache_total_size_bytes: int = define(
        1_073_741_824,
        "Local space for indexes of remote segments.",
        type=ConfigType.LONG,
        at_least=1,
        importance="low",
        dynamic="cluster-wide",
        support="not yet",
    )
    remote_log_manager_thread_pool_size: int = define(
        10, "Threads of the remote log manager.", at_least=1, support="not yet"
    )
    remote_log_manager_copier_thread_pool_size: int = define(
        -1, "Threads that copy segments; -1 follows the pool above.", support="not yet"
    )
    remote_log_manager_expiration_thread_pool_size: int = define(
        -1, "Threads that expire segments; -1 follows the pool above.", support="not yet"
    )
    remote_log_manager_task_interval_ms: int = define(
        30_000,
        "How often the manager looks for work.",
        type=ConfigType.LONG,
        at_least=1,
        importance="low",
        support="not yet",
    )
    remote_log_manager_task_retry_backoff_ms: int = define(
        500,
        "First wait after a failed task.",
        type=ConfigType.LONG,
        at_least=1,
        importance="low",
        support="not yet",
        internal=True,
    )
    remote_log_manager_task_retry_backoff_max_ms: int = define(
        30_000,
        "Longest wait after a failed task.",
        type=ConfigType.LONG,
        at_least=1,
        importance="low",
        support="not yet",
        internal=True,
    )
    remote_log_manager_task_retry_jitter: float = define(
        0.2,
        "Random part of these waits.",
        at_least=0,
        at_most=0.5,
        importance="low",
        support="not yet",
        internal=True,
    )
    remote_log_manager_copy_max_bytes_per_second: int = define(
        MAX_LONG,
        "Limit of copying to remote storage.",
        type=ConfigType.LONG,
        at_least=1,
        dynamic="cluster-wide",
        support="not yet",
    )
    remote_log_manager_copy_quota_window_num: int = define(
        11, "Windows kept for that limit.", at_least=1, support="not yet"
    )
    remote_log_manager_copy_quota_window_size_seconds: int = define(
        1, "Length of such a window.", at_least=1, support="not yet"
    )
    remote_log_manager_fetch_max_bytes_per_second: int = define(
        MAX_LONG,
        "Limit of reading from remote storage.",
        type=ConfigType.LONG,
        at_least=1,
        dynamic="cluster-wide",
        support="not yet",
    )
    remote_log_manager_fetch_quota_window_num: int = define(
        11, "Windows kept for that limit.", at_least=1, support="not yet"
    )
    remote_log_manager_fetch_quota_window_size_seconds: int = define(
        1, "Length of such a window.", at_least=1, support="not yet"
    )
    remote_log_reader_threads: int = define(
        10, "Threads that read remote segments.", at_least=1, support="not yet"
    )
    remote_log_reader_max_pending_tasks: int = define(
        100, "Remote reads that may wait.", at_least=1, support="not yet"
    )
    remote_fetch_max_wait_ms: int = define(
        500,
        "How long a remote read may take before the fetch is answered.",
        at_least=1,
        dynamic="cluster-wide",
        support="not yet",
    )
