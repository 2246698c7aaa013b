"""ReplicationConfig: replicas, in-sync sets, fetching and purgatories."""

from __future__ import annotations

from kbroker.config.config_def import ConfigGroup, Long, config_group, define


@config_group
class ReplicationConfig(ConfigGroup):
    """Replicas, in-sync sets, fetching and purgatories."""

    default_replication_factor: int = define(1, "Replicas of a topic created without a number.")
    min_insync_replicas: int = define(
        1,
        "In-sync replicas that acks=all needs at least.",
        at_least=1,
        importance="high",
        dynamic="cluster-wide",
    )
    unclean_leader_election_enable: bool = define(
        False,
        "Let a replica lead that is not in sync, at the price of records.",
        importance="high",
        dynamic="cluster-wide",
    )
    replica_lag_time_max_ms: Long = define(
        30_000,
        "A follower that is behind for longer leaves the in-sync replicas.",
        importance="high",
    )
    replica_socket_timeout_ms: int = define(
        30_000, "Time limit of a follower's request.", importance="high"
    )
    replica_fetch_max_bytes: int = define(
        1_048_576, "Bytes a follower asks for per partition.", at_least=0
    )
    replica_fetch_wait_max_ms: int = define(
        500, "How long the leader may hold a follower's fetch.", importance="high"
    )
    replica_fetch_backoff_ms: int = define(1000, "Pause of a follower after an error.", at_least=0)
    replica_fetch_min_bytes: int = define(1, "Bytes a follower waits for.", importance="high")
    replica_fetch_response_max_bytes: int = define(
        10_485_760, "Bytes a follower asks for in one answer.", at_least=0
    )
    num_replica_fetchers: int = define(
        1, "Fetchers per source broker.", importance="high", dynamic="cluster-wide"
    )
    num_replica_alter_log_dirs_threads: int | None = define(
        None,
        "How many replicas move between data directories at a time. None: one for each directory.",
        importance="high",
    )
    replica_high_watermark_checkpoint_interval_ms: Long = define(
        5000, "How often high watermarks are written.", importance="high"
    )
    replica_selector_class: str | None = define(
        None,
        "Send consumers to a replica in their rack. None: they read from the leader.",
        one_of=("", "org.apache.kafka.common.replica.RackAwareReplicaSelector"),
    )
    fetch_max_bytes: int = define(
        57_671_680, "Most bytes in one Fetch answer, whatever the client asks.", at_least=1024
    )
    fetch_purgatory_purge_interval_requests: int = define(
        1000, "Finished waiting fetches kept before a clean-up."
    )
    producer_purgatory_purge_interval_requests: int = define(
        1000, "Finished waiting produces kept before a clean-up."
    )
    delete_records_purgatory_purge_interval_requests: int = define(
        1, "Finished waiting record deletions kept before a clean-up."
    )
    max_incremental_fetch_session_cache_slots: int = define(
        1000, "Fetch sessions the broker remembers.", at_least=0
    )
    auto_leader_rebalance_enable: bool = define(
        True, "Give leadership back to preferred replicas from time to time.", importance="high"
    )
    leader_imbalance_per_broker_percentage: int = define(
        10, "Share of lost leaderships that starts a rebalance.", importance="high"
    )
    leader_imbalance_check_interval_seconds: Long = define(
        300, "How often leadership balance is checked.", at_least=1, importance="high"
    )
